"""From a configuration to the objects that it describes."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any

from cluster import ClusterSpec, Executor, Node, Scheduler
from cluster.inline import NODE as INLINE_NODE
from cluster.inline import InlineExecutor
from cluster.simulated import SimulatedExecutor
from nas.budget import Budget
from nas.config import SearchConfig
from nas.config_check import SUPERVISED
from nas.controller import Controller, Settings, Watch
from nas.errors import CapacityError, ConfigError
from nas.event_log import EventLog
from nas.fidelity import RULES
from nas.graph_metrics import NAMES as GRAPH_NAMES
from nas.graph_metrics import STEP_SECONDS, GraphMetrics, StepSize
from nas.keys import KeyMaker
from nas.known import known_candidates
from nas.plan_check import CutsInto, chosen_axes
from nas.present_machine import unlike_here
from nas.recorded import reads_table
from nas.retention import Retention
from nas.search_state import SearchState
from nas.source import Source, recorder
from nas.static_stage import STATIC_METRICS, StaticStage
from nas.strategies import STRATEGIES, HeedsTime
from nas.study import Study
from nas.study_rates import FILE, study_rates
from nas.trial_plans import ONE_DEVICE, OnePlan, PricedPlans, Subject, TrialPlans
from search_spaces import CandidateSpace, Reference, Registry, SearchSpace, hyperparameter_domain
from search_spaces.diff import space_changes
from trainers import TRAINERS, Plan, Recipe, builds_networks
from trainers.materials import Materials
from trainers.parallelism.rates import Machine

CLOSE_SECONDS = 3.5
_SIMULATED_DEVICES = 8
_GIB = 2**30
_MOST_CHANGES = 8

_logger = logging.getLogger(__name__)


def make_recipe(config: SearchConfig, folder: Path) -> Recipe:
    """What the legs of a study in ``folder`` share."""
    return Recipe(
        space=config.reference("space"),
        task=config.reference("task"),
        trainer=config.reference("trainer"),
        maximum=config.fidelity.max,
        folder=folder.resolve(),
        bounds=config.bounds,
        settings=config.trainer,
        replicates=config.search.replicates,
    )


def known_cluster(config: SearchConfig) -> ClusterSpec | None:
    """The machines where they are known before an executor starts; None where Ray says what there is."""
    cluster = config.cluster
    if cluster.executor == "inline":
        return ClusterSpec((Node(INLINE_NODE, 1),))
    if cluster.executor == "simulated":
        return ClusterSpec((Node("simulated", cluster.max_devices or _SIMULATED_DEVICES),))
    return None


def check_capacity(config: SearchConfig, plan: Plan) -> None:
    """Raise CapacityError where it is known by now that ``plan`` can never run; nothing is started or written."""
    machines = known_cluster(config)
    if machines is not None:
        check_fits(Scheduler(machines, max_devices=config.cluster.max_devices), plan)


def make_executor(config: SearchConfig, recipe: Recipe, origin: float, interrupted: Callable[[], int]) -> Executor:
    """Start the executor; its clock goes on from ``origin``."""
    cluster = config.cluster
    executor: Executor
    if cluster.executor == "inline":
        executor = InlineExecutor(recipe, origin, lambda: bool(interrupted()))
    elif cluster.executor == "simulated":
        machines = known_cluster(config)
        assert machines is not None
        executor = SimulatedExecutor(recipe, machines, origin)
    else:
        from cluster.ray_backend import RayExecutor

        address = cluster.address or ("auto" if os.environ.get("RAY_ADDRESS") else "local")
        try:
            executor = RayExecutor(recipe, address, cluster.max_devices, origin)
        except ValueError as error:
            raise ConfigError(f"cluster: {error}") from error
    return executor


def check_fits(scheduler: Scheduler, plan: Plan) -> None:
    """Raise CapacityError where a trial under ``plan`` can never run."""
    if plan.width > scheduler.widest:
        raise CapacityError(
            f"plan {plan} takes {plan.width} devices of one kind, at most {scheduler.widest} can be had "
            "(max_devices counted); choose a narrower plan or add machines"
        )


@dataclass(frozen=True)
class Parts:
    """The objects that a configuration describes."""

    config: SearchConfig
    folder: Path

    @cached_property
    def recipe(self) -> Recipe:
        """What all legs share."""
        return make_recipe(self.config, self.folder)

    @cached_property
    def materials(self) -> Materials:
        """Space and task."""
        return Materials(self.recipe.space, self.recipe.task)

    @cached_property
    def space(self) -> SearchSpace:
        """The search space."""
        return self.materials.space

    @cached_property
    def candidates(self) -> CandidateSpace:
        """The space and the hyperparameters, as strategies see them."""
        table = self.config.hyperparameters
        return CandidateSpace(self.space, hyperparameter_domain(table) if table else None)

    @cached_property
    def plan(self) -> Plan:
        """The plan of each trial; one device where it is left to us."""
        return self.config.plan or Plan()

    @property
    def budget(self) -> Budget:
        """When the search stops asking."""
        search = self.config.search
        return Budget(search.trials, search.hours, search.device_hours, search.target)

    def state(self) -> SearchState:
        """An empty study with its rule and strategy."""
        objectives = self.config.declared_objectives
        fidelity = self.config.fidelity
        rule = _factory(RULES, fidelity.rule)(objectives, fidelity.min, fidelity.max, fidelity.eta)
        strategy = _factory(STRATEGIES, self.config.search.strategy)(
            self.candidates, objectives, **self.config.strategy
        )
        if self.budget.limits_time and isinstance(strategy, HeedsTime):
            strategy.heed_time()
        return SearchState(Study(self.folder), rule, strategy)

    def check_schema(self, recorded: Mapping[str, Any]) -> None:
        """Raise ConfigError, naming what changed, where the space is not the one of the record any more."""
        changes = space_changes(recorded, self.candidates.schema())
        if changes:
            told = [*map(str, changes[:_MOST_CHANGES])]
            if len(changes) > _MOST_CHANGES:
                told.append(f"and {len(changes) - _MOST_CHANGES} more changes")
            raise ConfigError(
                f"search.space = {self.recipe.space.name!r} declares other decisions than the study in {self.folder} "
                f"was made with: {'; '.join(told)}. Restore that version of the space, or start a new study"
            )

    @cached_property
    def static(self) -> StaticStage:
        """The static stage."""
        own = [one for one in self._static_code if one not in self.graph.names]
        functions = [(Reference(one).name, _factory(STATIC_METRICS, one)) for one in own]
        if self.plan.pipeline > 1:
            functions.append(("trial.plan", CutsInto(self.plan.pipeline, self._loss)))
        return StaticStage(self.space, lambda: self.materials.task.signature, functions, self.config.bounds, self.graph)

    @cached_property
    def graph(self) -> GraphMetrics:
        """Metrics of the operator graph that are asked for."""
        names = tuple(one for one in self._static_code if one in GRAPH_NAMES)
        return GraphMetrics(names, self.config.trainer, self._loss, lambda: self.rates)

    @cached_property
    def _static_code(self) -> list[Any]:
        """Static metrics by name or as functions, each once: named by objectives and constraints, then the user's."""
        named = {*self.config.objectives, *self.config.constraints}
        if builds_networks(_factory(TRAINERS, self.config.search.trainer)):
            named.add("parameters")
        if reads_table(self.config):
            named -= {*GRAPH_NAMES}
        code = dict.fromkeys([name for name in STATIC_METRICS.builtin if name in named])
        return [*(code | dict.fromkeys(self.config.search.static_metrics or ()))]

    @cached_property
    def rates(self) -> Machine:
        """Of the machine by which the study predicts seconds; with its links where plans are chosen by them."""
        return study_rates(self.folder, self.config.trainer, links=bool(self._chosen_axes))

    @cached_property
    def _chosen_axes(self) -> tuple[str, ...]:
        """Axes along which plans are chosen for each trial; none where one is given, or trials have a device each."""
        given = self.config.plan is not None or self.config.cluster.max_concurrent is None
        return () if given else chosen_axes(self.config)

    def find_rates(self) -> None:
        """Read or measure the rates where a metric needs them; raises what ``study_rates`` does."""
        if STEP_SECONDS in self.graph.names:
            _ = self.rates

    def executor(self, origin: float, interrupted: Callable[[], int]) -> Executor:
        """Start the executor; the static stage gets ready meanwhile, as starting Ray is mostly waiting."""
        getting_ready = Thread(target=lambda: self.static.prepare(), name="static stage", daemon=True)
        getting_ready.start()
        executor = make_executor(self.config, self.recipe, origin, interrupted)
        getting_ready.join()
        return executor

    def plans(self, executor: Executor) -> TrialPlans:
        """That of the configuration; where it is left to us and trials have devices to choose from, priced ones."""
        from cluster.planner import reach

        cluster = self.config.cluster
        if not self._chosen_axes or cluster.max_concurrent is None:
            return OnePlan(self.plan)
        largest = max((node.devices for node in executor.cluster), default=1)
        widest = Scheduler(executor.cluster, max_devices=cluster.max_devices).widest
        share = min(widest // cluster.max_concurrent, largest)
        if share < 2:
            return ONE_DEVICE
        told = unlike_here(executor.cluster)
        if not told and reach(self.rates, share) == share:
            return PricedPlans(self.subject(self._chosen_axes), self.rates, share)
        told = told or f"links between {share} devices are unknown; to measure them anew, delete {self.folder / FILE}"
        _logger.warning('trial.plan = "auto": each trial gets one device: %s', told)
        return ONE_DEVICE

    def subject(self, axes: tuple[str, ...] = ()) -> Subject:
        """What is priced along ``axes``."""
        trainer = self.config.trainer
        return Subject(
            self.space,
            self.materials.task.signature,
            lambda candidate: StepSize.of(trainer, candidate.hyperparameters),
            self._loss,
            axes,
        )

    def _loss(self) -> Any:
        """The task's as tracing takes it, which may load its data; cross-entropy for trainers of the user's own."""
        from search_spaces.tracing import class_loss

        return self.materials.traced_loss if self.config.search.trainer == SUPERVISED else class_loss

    def controller(
        self, state: SearchState, executor: Executor, log: EventLog, interrupted: Callable[[], int], watch: Watch
    ) -> Controller:
        """Put the parts together."""
        search, cluster = self.config.search, self.config.cluster
        code = (self.recipe.space, self.recipe.task)
        keys = KeyMaker(self.space, code, search.merge or "canonical", search.replicates)
        check_fits(Scheduler(executor.cluster, max_devices=cluster.max_devices), self.plan)
        plans = self.plans(executor)
        scheduler = Scheduler(executor.cluster, cluster.max_concurrent, cluster.max_devices, plans.share)
        return Controller(
            state=state,
            scheduler=scheduler,
            executor=executor,
            log=log,
            source=Source(
                state,
                recorder(log, state),
                self.candidates,
                keys,
                self.static,
                self.budget,
                search.seed,
                search.max_same_errors,
                known_candidates(self.candidates, search.start or ()),
            ),
            settings=Settings(search.seed, self.config.trial.timeout, search.max_same_errors),
            interrupted=interrupted,
            retention=Retention(self.folder, self.config.study.keep_gib * _GIB, search.replicates),
            plans=plans,
            watch=watch,
        )


def _factory(registry: Registry, code: Any) -> Any:
    return registry.load(code) if isinstance(code, str) else code

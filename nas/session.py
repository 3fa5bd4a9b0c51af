"""One session of a study: a new search, or an old one resumed, from a configuration to its ending."""

import os
import platform
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cluster import ClusterSpec, Executor, Node, Scheduler
from cluster.inline import InlineExecutor
from cluster.simulated import SimulatedExecutor
from nas import event_log
from nas.budget import Budget
from nas.config import SearchConfig, changed
from nas.config_check import check
from nas.controller import Controller, Ending, Settings, Watch
from nas.errors import CapacityError, ConfigError, StorageError, StudyError
from nas.event_log import EventLog, Record
from nas.fidelity import RULES
from nas.keys import KeyMaker
from nas.search_state import SearchState
from nas.signals import Interrupts
from nas.static_stage import StaticStage
from nas.strategies import STRATEGIES
from nas.study import SCHEMA, Study, fold
from search_spaces import CandidateSpace, Registry, SearchSpace, hyperparameter_domain
from trainers import Plan, Recipe
from trainers.materials import Materials

_CLOSE_SECONDS = 3.5
_SIMULATED_DEVICES = 8
_PACKAGES = ("ray-nas", "ray", "torch", "optuna", "numpy")


def silent(study: Study, live: Mapping[int, Any]) -> None:
    """Watch nothing."""


def run(config: SearchConfig, folder: Path, watch: Watch = silent) -> Ending:
    """Search anew in ``folder``.

    Raises StudyError where it holds a study, ConfigError, CapacityError where a trial can never fit the cluster,
    StorageError where the record cannot be written.
    """
    if (folder / event_log.FILE).exists():
        raise StudyError(f"{folder} holds a study already; go on with it by: nas resume {folder}")
    parts = _Parts(config, folder)
    state = parts.state()
    return _session(parts, state, watch, header=parts.header())


def resume(
    folder: Path,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda plain: plain,
    code: Mapping[str, Any] | None = None,
    watch: Watch = silent,
) -> Ending:
    """Go on with the study in ``folder``, from its log.

    ``change`` edits the plain configuration (budgets, ``trial``, ``cluster``, ``study``). ``code`` gives classes and
    functions by kind (``space``, ``task``, ``trainer``, ``strategy``) that the record could keep by name only.
    """
    records = list(event_log.read(folder))
    study = fold(folder, records)
    if not study.header:
        raise StudyError(f"{folder}: the event log has no header; start the search anew in another folder")
    recorded = _with_code(SearchConfig.from_plain(study.config or study.header["config"]), code or {})
    config = _with_code(changed(recorded, change(recorded.to_plain())), code or {})
    check(config)
    parts = _Parts(config, folder)
    parts.check_schema(study.header["space"])
    state = parts.state()
    for record in records:
        state.apply(record)
    return _session(parts, state, watch, header=None)


def _with_code(config: SearchConfig, code: Mapping[str, Any]) -> SearchConfig:
    return config.model_copy(update={"search": config.search.model_copy(update=dict(code))}) if code else config


def _session(parts: "_Parts", state: SearchState, watch: Watch, header: Record | None) -> Ending:
    with Interrupts() as interrupts:
        try:
            log = EventLog(parts.folder, parts.config.study.fsync)
        except OSError as error:
            raise StorageError(f"{parts.folder}: the study's folder cannot be written ({error.strerror})") from error
        executor: Executor | None = None
        try:
            if header is not None:
                log.append(header)
                state.apply(header)
                log.flush()
            executor = parts.executor(state.study.seconds, interrupts)
            controller = parts.controller(state, executor, log, interrupts, watch)
            return controller.run({"config": parts.config.to_plain(), **_versions()})
        finally:
            log.abandon()
            if executor is not None:
                executor.close(_CLOSE_SECONDS)


@dataclass(frozen=True)
class _Parts:
    """The objects that a configuration describes."""

    config: SearchConfig
    folder: Path

    @cached_property
    def recipe(self) -> Recipe:
        return Recipe(
            space=self.config.reference("space"),
            task=self.config.reference("task"),
            trainer=self.config.reference("trainer"),
            maximum=self.config.fidelity.max,
            folder=self.folder.resolve(),
            bounds=self.config.bounds,
            settings=self.config.trainer,
        )

    @cached_property
    def materials(self) -> Materials:
        return Materials(self.recipe.space, self.recipe.task)

    @cached_property
    def space(self) -> SearchSpace:
        return self.materials.space

    @cached_property
    def candidates(self) -> CandidateSpace:
        table = self.config.hyperparameters
        return CandidateSpace(self.space, hyperparameter_domain(table) if table else None)

    @cached_property
    def plan(self) -> Plan:
        return self.config.plan or Plan()

    def state(self) -> SearchState:
        """An empty study with its rule and strategy."""
        objectives = self.config.declared_objectives
        fidelity = self.config.fidelity
        rule = _factory(RULES, fidelity.rule)(objectives, fidelity.min, fidelity.max, fidelity.eta)
        strategy = _factory(STRATEGIES, self.config.search.strategy)(
            self.candidates, objectives, **self.config.strategy
        )
        return SearchState(Study(self.folder), rule, strategy)

    def header(self) -> Record:
        """The first record of a study."""
        return {
            "event": "study",
            "schema": SCHEMA,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": self.config.search.seed,
            "config": self.config.to_plain(),
            "space": self.candidates.schema(),
            "objectives": {name: direction.value for name, direction in self.config.objectives.items()},
            "constraints": dict(self.config.constraints),
            **_versions(),
        }

    def check_schema(self, recorded: Mapping[str, Any]) -> None:
        """Raise ConfigError where the space is not the one of the record any more."""
        if self.candidates.schema() != recorded:
            raise ConfigError(
                f"search.space = {self.recipe.space.name!r} declares other decisions than the study in {self.folder} "
                "was made with; restore that version of the space, or start a new study"
            )

    def executor(self, origin: float, interrupts: Interrupts) -> Executor:
        """Start the executor; its clock goes on from ``origin``."""
        cluster = self.config.cluster
        executor: Executor
        if cluster.executor == "inline":
            executor = InlineExecutor(self.recipe, origin, lambda: bool(interrupts()))
        elif cluster.executor == "simulated":
            devices = cluster.max_devices or _SIMULATED_DEVICES
            executor = SimulatedExecutor(self.recipe, ClusterSpec((Node("simulated", devices),)), origin)
        else:
            from cluster.ray_backend import RayExecutor

            executor = RayExecutor(self.recipe, cluster.address, cluster.max_devices, origin)
        if self.plan.width > executor.cluster.devices:
            devices = executor.cluster.devices
            executor.close(_CLOSE_SECONDS)
            raise CapacityError(
                f"trial.plan = {self.plan} takes {self.plan.width} devices, the cluster has {devices}; "
                "choose a narrower plan or add machines"
            )
        return executor

    def controller(
        self, state: SearchState, executor: Executor, log: EventLog, interrupts: Interrupts, watch: Watch
    ) -> Controller:
        """Put the parts together."""
        search, cluster = self.config.search, self.config.cluster
        budget = Budget(search.trials, search.hours, search.device_hours, search.target)
        named = frozenset([*self.config.objectives, *self.config.constraints])
        return Controller(
            state=state,
            scheduler=Scheduler(executor.cluster, cluster.max_concurrent, cluster.max_devices, self.plan.width),
            executor=executor,
            log=log,
            keys=KeyMaker(self.space, self.recipe.task.name, search.merge or "canonical"),
            static=StaticStage(self.space, lambda: self.materials.task.signature, named, self.config.bounds),
            settings=Settings(search.seed, budget, self.plan, self.config.trial.timeout, search.max_same_errors),
            interrupted=interrupts,
            watch=watch,
        )


def _factory(registry: Registry, code: Any) -> Any:
    return registry.load(code) if isinstance(code, str) else code


def _versions() -> Record:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "versions": {"python": platform.python_version(), **found},
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }

"""Which plan a trial's next leg gets: one for all of them, or for each the fastest of its share of the devices.

A trial that shares the machines with others is best served by one device, for no plan speeds it up by more than the
devices it takes. Where fewer trials run at once than there are devices, each has several to itself: its plans are
priced, and the fastest that fits is taken.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from nas.trial import Trial
from search_spaces import Candidate, Infeasible, MetaBuildError, SearchSpace, Signature, meta_network
from trainers import Measurement, Plan
from trainers.parallelism.option import Option

if TYPE_CHECKING:
    from cluster.planner import FirstSteps
    from nas.graph_metrics import StepSize
    from trainers.parallelism.calibrated import Calibrated
    from trainers.parallelism.rates import Machine
    from trainers.parallelism.traced_step import TracedStep

_REMEMBERED = 64
"""Trials whose traced steps are kept, the latest: those that run or may soon go on."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The plan of a leg, and the ``options`` that it was chosen from, if it was."""

    plan: Plan
    options: tuple[Option, ...] = ()


class TrialPlans(Protocol):
    """Chooses plans and learns from what they took."""

    @property
    def share(self) -> int:
        """Devices that a trial takes at most."""
        ...

    def choose(self, trial: Trial) -> Chosen:
        """The plan of the trial's next leg."""
        ...

    def learn(self, trial: Trial, measurement: Measurement) -> None:
        """Take what a leg measured under the trial's plan."""
        ...


@dataclass(frozen=True, slots=True)
class OnePlan:
    """The same plan for all trials."""

    plan: Plan = Plan()

    @property
    def share(self) -> int:
        """The plan's width."""
        return self.plan.width

    def choose(self, trial: Trial) -> Chosen:
        """The plan."""
        return Chosen(self.plan)

    def learn(self, trial: Trial, measurement: Measurement) -> None:
        """Nothing."""


ONE_DEVICE = OnePlan()


@dataclass(frozen=True)
class Subject:
    """What is priced: networks of a ``space``; ``size`` says the step of a candidate, ``loss`` makes the task's."""

    space: SearchSpace
    signature: Signature
    size: "Callable[[Candidate], StepSize]"
    loss: Callable[[], Any]
    axes: tuple[str, ...]
    """Along which the trainer can split them."""

    def traced(self, candidate: Candidate, batch: int, stages: tuple[int, ...]) -> "TracedStep":
        """Raises TraceError, MetaBuildError or Infeasible where the graph is unknown."""
        from trainers.parallelism.traced_step import TracedStep

        network = meta_network(self.space, candidate.architecture, self.signature)
        return TracedStep.of(network, self.signature, batch, stages, self.loss())


class PricedPlans:
    """The fastest plan of at most ``share`` devices that fits, as predicted by the rates of a ``machine``.

    Predictions are corrected by the steps that trials measure. A network whose graph is unknown begins on one device,
    and is priced from its first steps on.
    """

    def __init__(self, subject: Subject, machine: "Machine", share: int) -> None:
        from cluster.planner import model_of

        self._subject = subject
        self._share = share
        self._model = replace(model_of(machine, "sgd", 0.0), space=subject.space.name)
        self._steps: dict[int, TracedStep | None] = {}
        self._first: dict[int, FirstSteps] = {}

    @property
    def share(self) -> int:
        """Devices that a trial takes at most."""
        return self._share

    @cached_property
    def _stages(self) -> tuple[int, ...]:
        from cluster.planner import degrees, reach

        within = degrees(reach(self._model.machine, self._share))
        return tuple(number for number in within if number > 1) if "pipeline" in self._subject.axes else ()

    def choose(self, trial: Trial) -> Chosen:
        """The fastest of the Pareto set; one device where nothing can be predicted, or nothing seems to fit."""
        step = self._step(trial)
        options = self._unknown(trial) if step is None else self._known(trial, step)
        return Chosen(options[-1].plan if options else Plan(), options)

    def _known(self, trial: Trial, step: "TracedStep") -> tuple[Option, ...]:
        from cluster.planner import plans

        model = self._priced_for(trial.proposal.candidate)
        return plans(step.work, model, self._share, step.batch, self._subject.axes, step.starts)

    def _unknown(self, trial: Trial) -> tuple[Option, ...]:
        """Data-parallel plans from the first steps; none before them."""
        from cluster.planner import plans_unknown

        first = self._first.get(trial.number)
        if first is None or "data" not in self._subject.axes:
            return ()
        candidate = trial.proposal.candidate
        parameters, batch = int(trial.metrics.get("parameters", 0)), self._subject.size(candidate).batch
        return plans_unknown(parameters, self._priced_for(candidate), self._share, batch, first)

    def learn(self, trial: Trial, measurement: Measurement) -> None:
        """Correct the predictions for candidates of this space under plans of the same axes."""
        from cluster.planner import FirstSteps, micro_batch
        from trainers.parallelism.fitting import Measured

        if trial.number not in self._steps or measurement.step_seconds is None:
            return
        step, plan = self._steps[trial.number], Plan.parse(trial.plan)
        if step is None:
            self._first.setdefault(trial.number, FirstSteps(plan, measurement.step_seconds))
            return
        try:
            work, starts = step.work(micro_batch(plan, step.batch)), step.starts(plan)
            measured = Measured(work, plan, measurement.step_seconds, starts)
            self._model = self._priced_for(trial.proposal.candidate).observe(measured)
        except ValueError as error:
            _logger.info("%s under plan %s is not learnt from: %s", trial, plan, error)

    def _priced_for(self, candidate: Candidate) -> "Calibrated":
        return replace(self._model, optimizer=self._subject.size(candidate).optimizer)

    def _step(self, trial: Trial) -> "TracedStep | None":
        """The traced step of a trial; None where its graph is unknown."""
        from search_spaces.tracing import TraceError

        if trial.number not in self._steps:
            candidate = trial.proposal.candidate
            try:
                step = self._subject.traced(candidate, self._subject.size(candidate).batch, self._stages)
            except (TraceError, MetaBuildError, Infeasible) as error:
                _logger.info("%s gets one device, its graph being unknown: %s", trial, error)
                step = None
            self._steps[trial.number] = step
            for old in [*self._steps][:-_REMEMBERED]:
                del self._steps[old]
                self._first.pop(old, None)
        return self._steps[trial.number]

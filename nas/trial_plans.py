"""Which plan a trial's next leg gets: one for all of them, or for each the fastest of its share of the devices.

A trial that shares the machines with others is best served by one device, for a plan rarely speeds it up by more than
the devices it takes. Where fewer trials run at once than there are devices, each has several to itself: its plans are
priced, and the fastest that fits is taken.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from nas.trial import Trial
from search_spaces import Candidate, SearchSpace, Signature, meta_network
from trainers import MeasuredStep, Measurement, Plan
from trainers.optimizer_states import OptimizerBytes
from trainers.parallelism.option import Option

if TYPE_CHECKING:
    from nas.graph_metrics import StepSize
    from trainers.parallelism.calibrated import Calibrated
    from trainers.parallelism.rates import Machine
    from trainers.parallelism.traced_step import TracedStep

_REMEMBERED = 256
"""Trials of which something is kept, those that were asked for last."""
_RECALLED = 8
"""Measured trials that a resumed search learns from, the latest: older ones have lost most of their weight."""
_LEAST_SAMPLES = 4
"""Of a micro-batch of ``batch_size``: batches of an epoch are equal, perhaps half as large, and norms refuse to learn
from one sample."""

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

    def choose(self, trial: Trial, most: int) -> Chosen:
        """The plan of the trial's next leg, on at most as many devices as there are now for one leg."""
        ...

    def learn(self, trial: Trial, measurement: Measurement) -> None:
        """Take what a leg measured under the trial's plan."""
        ...

    def refuse(self, trial: Trial) -> bool:
        """Hear that the network could not be trained under the trial's plan; whether another one is chosen next."""
        ...

    def recall(self, trials: Iterable[Trial]) -> None:
        """Learn from ``trials`` of earlier sessions."""
        ...


@dataclass(frozen=True, slots=True)
class OnePlan:
    """The same plan for all trials, of which nothing is learnt."""

    plan: Plan = Plan()

    @property
    def share(self) -> int:
        """The plan's width."""
        return self.plan.width

    def choose(self, trial: Trial, most: int) -> Chosen:
        """The plan."""
        return Chosen(self.plan)

    def learn(self, trial: Trial, measurement: Measurement) -> None:
        """Nothing."""

    def refuse(self, trial: Trial) -> bool:
        """There is no other."""
        return False

    def recall(self, trials: Iterable[Trial]) -> None:
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
        """Raises TraceError, MetaBuildError or Infeasible where the graph is unknown, and what the task's loss does."""
        from trainers.parallelism.traced_step import TracedStep

        network = meta_network(self.space, candidate.architecture, self.signature)
        return TracedStep.of(network, self.signature, batch, stages, self.loss())


@dataclass
class _Known:
    """What is kept of a trial: its traced step, None where its graph is unknown; then steps measured by plan."""

    step: "TracedStep | None"
    measured: dict[Plan, MeasuredStep]
    whole: bool = False
    """Whether it was refused as a pipeline."""


class PricedPlans:
    """The fastest plan of at most ``share`` devices that fits, as predicted by the rates of a ``machine``.

    Predictions are corrected by the steps that trials measure. A network whose graph is unknown begins on one device,
    and is priced from its own steps on.
    """

    def __init__(self, subject: Subject, machine: "Machine", share: int) -> None:
        from trainers.parallelism.calibrated import Calibrated

        self._subject = subject
        self._share = share
        self._model = Calibrated(machine, OptimizerBytes.of("sgd", 0.0), space=subject.space.name)
        self._trials: OrderedDict[int, _Known] = OrderedDict()

    @property
    def share(self) -> int:
        """Devices that a trial takes at most."""
        return self._share

    @cached_property
    def _stages(self) -> tuple[int, ...]:
        from cluster.planner import degrees, reach

        within = degrees(reach(self._model.machine, self._share))
        return tuple(number for number in within if number > 1) if "pipeline" in self._subject.axes else ()

    def choose(self, trial: Trial, most: int) -> Chosen:
        """The fastest of the Pareto set; one device where nothing can be predicted, or nothing seems to fit."""
        known, devices = self._known(trial), min(self._share, most)
        options = self._priced(trial, known, devices) if devices > 1 else ()
        return Chosen(options[-1].plan if options else Plan(), options)

    def learn(self, trial: Trial, measurement: Measurement) -> None:
        """Correct the predictions for candidates of this space under plans of the same axes."""
        from cluster.planner import micro_batch
        from trainers.parallelism.fitting import Measured

        measured = measurement.step
        if trial.number not in self._trials or measured is None:
            return
        known, plan = self._trials[trial.number], Plan.parse(trial.plan)
        known.measured[plan] = measured
        if known.step is None:
            return
        try:
            work, starts = known.step.work(micro_batch(plan, round(measured.samples))), known.step.starts(plan)
            one = Measured(work, plan, measured.seconds, starts)
            self._model = self._priced_for(trial.proposal.candidate).observe(one)
        except ValueError as error:
            _logger.info("%s under plan %s is not learnt from: %s", trial, plan, error)

    def refuse(self, trial: Trial) -> bool:
        """Only real tensors show that some networks cannot be cut: such a trial has no pipeline any more."""
        known = self._known(trial)
        again = Plan.parse(trial.plan).pipeline > 1 and not known.whole
        known.whole = known.whole or again
        return again

    def recall(self, trials: Iterable[Trial]) -> None:
        """Learn from the latest trials that measured their steps."""
        latest = [trial for trial in trials if trial.plan and trial.measurement and trial.measurement.step]
        for trial in latest[-_RECALLED:]:
            self._known(trial)
            if trial.measurement is not None:
                self.learn(trial, trial.measurement)

    def _priced(self, trial: Trial, known: _Known, devices: int) -> tuple[Option, ...]:
        from cluster.planner import priced, worthwhile

        step = known.step
        if step is None:
            return self._unknown(trial, known, devices)
        axes = tuple(axis for axis in self._subject.axes if not (known.whole and axis == "pipeline"))
        model = self._priced_for(trial.proposal.candidate)
        every = priced(step.work, model, devices, step.batch, axes, step.starts, _LEAST_SAMPLES)
        return worthwhile(every, model.machine)

    def _unknown(self, trial: Trial, known: _Known, devices: int) -> tuple[Option, ...]:
        """Data-parallel plans from the trial's own steps; none before them, or where its size is unknown."""
        from cluster.planner import plans_unknown

        parameters = trial.metrics.get("parameters")
        if not known.measured or parameters is None or "data" not in self._subject.axes:
            return ()
        candidate = trial.proposal.candidate
        batch = self._subject.size(candidate).batch
        return plans_unknown(int(parameters), self._priced_for(candidate), devices, batch, known.measured)

    def _priced_for(self, candidate: Candidate) -> "Calibrated":
        return replace(self._model, optimizer=self._subject.size(candidate).optimizer)

    def _known(self, trial: Trial) -> _Known:
        if trial.number not in self._trials:
            self._trials[trial.number] = _Known(self._traced(trial), {})
            if len(self._trials) > _REMEMBERED:
                self._trials.popitem(last=False)
        self._trials.move_to_end(trial.number)
        return self._trials[trial.number]

    def _traced(self, trial: Trial) -> "TracedStep | None":
        candidate = trial.proposal.candidate
        try:
            return self._subject.traced(candidate, self._subject.size(candidate).batch, self._stages)
        except Exception as error:  # of the loss too, which may read the task's data; the trial itself will tell
            _logger.info("%s begins on one device, its graph being unknown: %s", trial, error)
            return None

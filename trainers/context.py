"""What a trainer is given: where a leg starts, how far it goes, on which rank, and where to report.

A trainer is a callable ``train(candidate, context)``. The built-in supervised loop, a user's own function and a table
of recorded results are all of this form; they differ in nothing that an executor could see.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from numbers import Real
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from search_spaces import Bound, Candidate, Reference
from trainers import curve
from trainers.checkpoint import Checkpoint, CheckpointFolder, StorageError
from trainers.materials import Materials
from trainers.measurement import Fidelity, MeasuredStep, Measurement
from trainers.parallelism.plan import Plan
from trainers.task import Data, Task

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Recipe:
    """What all legs of a study share: enough to make space, task and trainer on any worker.

    ``maximum`` is the study's largest fidelity, over which schedules run whatever the rung. ``bounds`` are the
    constraints that a trainer can judge before it trains (``parameters``). ``settings`` is the ``[trainer]`` table of
    the configuration. With ``test`` the train and validation splits are learnt from and the test split is reported.
    Each leg is run ``replicates`` times, under different seeds (see `trainers.replicates`).
    """

    space: Reference
    task: Reference
    trainer: Reference
    maximum: Fidelity
    folder: Path
    bounds: tuple[Bound, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    test: bool = False
    replicates: int = 1


class Halted(BaseException):
    """Raised by ``context.report`` in a trial that was told to end; let it pass through."""


def builds_networks(trainer: Any) -> bool:
    """Whether a trainer builds the candidates' networks, as all do but those with an attribute ``builds = False``.

    Candidates are then built once on the meta device before a trial begins, and those refused that cannot be.
    """
    return bool(getattr(trainer, "builds", True))


def trains(trainer: Any) -> bool:
    """Whether a trainer trains what can be trained anew, as all do but those with an attribute ``trains = False``."""
    return bool(getattr(trainer, "trains", True))


def applied_axes(trainer: Any) -> tuple[str, ...]:
    """Axes of a plan that a trainer applies, from its attribute ``axes``; the data axis alone where it has none."""
    return tuple(getattr(trainer, "axes", ("data",)))


class Trainer(Protocol):
    """Trains one candidate from ``context.start`` to ``context.until``, reporting on the way."""

    def __call__(self, candidate: Candidate, context: "Context") -> None:
        """Train; report strictly increasing fidelities, the last of them ``context.until``."""
        ...


_KEEP = 2
"""Newest checkpoints kept of a trial: the last, and the one before it in case the last is damaged."""

State = Callable[[], Mapping[str, Any]] | Mapping[str, Any]


@dataclass
class Context:
    """One rank's view of a leg.

    ``device`` is a torch device string, ``seed`` that of the trial's ``replicate``, equal on all ranks. ``emit`` takes
    each measurement to the executor, ``halted`` says whether the trial was told to end. ``begin`` is the leg's first
    fidelity where there are no checkpoints (a virtual clock). ``stage`` is what goes on now, for the record of a
    failure.
    """

    recipe: Recipe
    trial: int
    until: Fidelity
    seed: int
    emit: Callable[[Measurement], None]
    checkpoint: Checkpoint | None = None
    checkpoints: CheckpointFolder | None = None
    attempt: int = 0
    plan: Plan = Plan()
    rank: int = 0
    world_size: int = 1
    device: str = "cpu"
    halted: Callable[[], bool] = lambda: False
    clock: Callable[[], float] | None = monotonic
    begin: Fidelity = 0
    materials: Materials | None = None
    stage: str = "train"
    replicate: int = 0

    def __post_init__(self) -> None:
        self._last = self.start
        self._began = self.clock() if self.clock else 0.0

    @property
    def start(self) -> Fidelity:
        """Fidelity of the checkpoint that the leg goes on from; ``begin`` without one."""
        return self.checkpoint.fidelity if self.checkpoint else self.begin

    @property
    def maximum(self) -> Fidelity:
        """The study's largest fidelity."""
        return self.recipe.maximum

    @property
    def task(self) -> Task:
        """The study's task."""
        with self.during("load"):
            return self._made.task

    @property
    def data(self) -> Data:
        """The task's data, loaded once for all trials of this worker: leave it unchanged.

        Learn from ``data.train`` and measure on ``data.validation``. When a trial is retrained the first one holds both
        splits of the search, and the second one is the test split.
        """
        with self.during("load"):
            return self._made.data

    def build(self, candidate: Candidate) -> "torch.nn.Module":
        """Build the candidate's network on the CPU, its weights drawn under the trial's seed."""
        with self.during("build"):
            return self._made.build(candidate.architecture, self.seed)

    def during(self, stage: str) -> "_During":
        """Name what goes on inside the block; the name stays when the block raises."""
        return _During(self, stage)

    @property
    def _made(self) -> Materials:
        if self.materials is None:
            self.materials = Materials(self.recipe.space, self.recipe.task, self.recipe.test)
        return self.materials

    @property
    def reached(self) -> Fidelity:
        """The last fidelity reported; ``start`` before the first."""
        return self._last

    def report(
        self,
        fidelity: Fidelity,
        metrics: Mapping[str, float],
        state: State | None = None,
        seconds: float | None = None,
        step: MeasuredStep | None = None,
    ) -> None:
        """Report ``metrics`` at ``fidelity``; every rank calls it, rank 0 is heard.

        ``state`` is what training goes on from, or a function that makes it: tensors, numbers, texts and containers of
        them. It is written at the leg's end and when the trial is halted, so giving it each time costs nothing.
        ``seconds`` since the leg's start are measured where they are not given; tables and predictions give them.
        ``step`` is what training steps took, by which predictions of them are corrected.

        Raises ValueError when ``fidelity`` does not increase or exceeds ``until`` or a metric is no number, and
        `Halted` when the trial was told to end.
        """
        fidelity = _number("fidelity", fidelity)
        if not self._last < fidelity <= self.until:
            raise ValueError(
                f"report(fidelity={fidelity}): fidelities increase strictly, from above {self._last} to {self.until}"
            )
        self._last = fidelity
        if seconds is None:
            if self.clock is None:
                raise ValueError("report() without seconds: on a virtual clock the trainer says how long it took")
            seconds = self.clock() - self._began
        seconds = _number("seconds", seconds)
        if not 0 <= seconds < inf:
            raise ValueError(f"report(): seconds = {seconds!r} is no time")
        measurement = Measurement(fidelity, _numbers(metrics), seconds, step)
        halted = self._told_to_end()
        due = fidelity == self.until or halted
        if state is not None and self.checkpoints is not None and due:
            with self.during("checkpoint"):
                self.checkpoints.save(measurement, state() if callable(state) else state, self.rank)
                if self.rank == 0:
                    self.checkpoints.prune(_KEEP)
        if self.rank == 0:
            if self.checkpoints is not None:
                self._draw(self.checkpoints.path.parent, measurement)
            self.emit(measurement)
        if halted:
            raise Halted

    @staticmethod
    def _draw(folder: Path, measurement: Measurement) -> None:
        """Add to the learning curve; a full disk is told where a checkpoint fails, for the curve is no record."""
        try:
            curve.append(folder, measurement)
        except OSError as error:
            if not folder.is_dir():
                raise StorageError(f"{folder}: the trial's folder is gone ({error.strerror})") from error

    def _told_to_end(self) -> bool:
        """Whether to end: on several ranks what rank 0 was told, so that none goes on alone."""
        if self.world_size == 1:
            return self.halted()
        from trainers.parallelism.collectives import from_rank_0

        return bool(from_rank_0(int(self.halted()), self.device))


class _During:
    __slots__ = ("_context", "_stage", "_before")

    def __init__(self, context: Context, stage: str) -> None:
        self._context, self._stage = context, stage

    def __enter__(self) -> None:
        self._before, self._context.stage = self._context.stage, self._stage

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._context.stage = self._before


def _numbers(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics as Python numbers (numpy and torch scalars too)."""
    if not isinstance(metrics, Mapping):
        raise ValueError(f"report(): metrics = {metrics!r}; give them by name, as {{'val_accuracy': 0.9}}")
    return {_name(name): _number(f"metric {name!r}", value) for name, value in metrics.items()}


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"report(): a metric's name is text, not {name!r}")
    return name


def _number(what: str, value: Any) -> float:
    """A Python number; an integer too long for the record becomes a float."""
    if type(value) is float:
        return value
    number: Any = value.item() if hasattr(value, "item") else value
    if isinstance(number, int) and -(2**63) <= number < 2**63:
        return number
    if not isinstance(number, Real):
        raise ValueError(f"report(): {what} = {value!r} is no number")
    try:
        return float(number)
    except OverflowError:
        raise ValueError(f"report(): {what} is too large a number") from None

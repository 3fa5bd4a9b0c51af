"""What travels between controller, scheduler and executor: legs, events, commands.

Events carry ``at``, seconds on the executor's clock, never decreasing. The scheduler turns events into commands; an
executor turns commands into events. Neither knows the other, and this file is all they share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from cluster.resources import Allocation, ClusterSpec, Node
from search_spaces import Candidate
from trainers import Failure, Fidelity, Measurement, Plan
from trainers.parallelism.option import Option


class LegId(NamedTuple):
    """Trial number, the leg's number within its trial, and the attempt at that leg, each from 0."""

    trial: int
    leg: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Leg:
    """One stretch of a trial's training: from ``start`` (0: nothing) to ``until``, under one plan.

    ``options`` are the priced plans that ``plan``, the last, was chosen from, fewest devices first, none without a
    choice.
    ``source`` names another trial and fidelity whose checkpoint it starts from where it has none of its own.
    ``promoted`` legs go before new trials. ``time_limit`` in seconds, None: none. ``since`` is when the leg was first
    launched, for one that is launched again after a resume: a virtual clock counts from there.
    """

    id: LegId
    candidate: Candidate
    start: Fidelity
    until: Fidelity
    seed: int
    plan: Plan = Plan()
    options: tuple[Option, ...] = ()
    source: tuple[int, Fidelity] | None = None
    promoted: bool = False
    time_limit: float | None = None
    since: float | None = None


class Halting(StrEnum):
    """What becomes of a trial whose leg is halted."""

    PAUSE = "pause"
    STOP = "stop"
    CANCEL = "cancel"


# Events to the scheduler -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """The controller can make legs from now on."""

    at: float


@dataclass(frozen=True, slots=True)
class Submitted:
    """The controller has a leg to run."""

    at: float
    leg: Leg


@dataclass(frozen=True, slots=True)
class Ended:
    """The controller wants no more legs: what waits is dropped, what runs is halted with ``how``."""

    at: float
    how: Halting


# Events of an executor ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """A measurement below the leg's last fidelity: shown, not logged."""

    at: float
    id: LegId
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class Reported:
    """The measurement at the leg's last fidelity, the rung."""

    at: float
    id: LegId
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class Finished:
    """A leg ended well; ``busy_seconds`` is the time its trainer ran, start-up left out."""

    at: float
    id: LegId
    busy_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A leg ended otherwise, a halted one (CANCELLED) included."""

    at: float
    id: LegId
    failure: Failure
    busy_seconds: float


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A machine came."""

    at: float
    node: Node


@dataclass(frozen=True, slots=True)
class NodeDraining:
    """A machine will go in ``seconds``: nothing new is placed there."""

    at: float
    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A machine went; the executor also fails the legs that it held, as NODE_LOST or PREEMPTED."""

    at: float
    node: str


ExecutorEvent: TypeAlias = Progress | Reported | Finished | Failed | NodeJoined | NodeDraining | NodeGone
Event: TypeAlias = Ready | Submitted | Ended | ExecutorEvent


# Commands ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    """Run ``legs`` (several: fused in one gang) on ``allocation``; ``at`` is the time of the decision."""

    at: float
    legs: tuple[Leg, ...]
    plan: Plan
    allocation: Allocation
    time_limit: float | None


@dataclass(frozen=True, slots=True)
class Halt:
    """End a running leg at its next report; does nothing where the leg has ended."""

    id: LegId
    how: Halting


@dataclass(frozen=True, slots=True)
class Want:
    """The scheduler could use ``legs`` more legs now."""

    legs: int


Command: TypeAlias = Launch | Halt | Want


class Executor(Protocol):
    """Runs legs somewhere. Exactly one Finished or Failed comes for each leg of a Launch, also after a Halt."""

    @property
    def cluster(self) -> ClusterSpec:
        """The machines at hand now."""
        ...

    def now(self) -> float:
        """Seconds on this executor's clock, monotonic, from the ``origin`` that it was made with."""
        ...

    def execute(self, command: Launch | Halt) -> None:
        """Begin; never blocks for a leg's duration (the inline executor runs it in the next ``poll``)."""
        ...

    def poll(self, timeout: float) -> Sequence[ExecutorEvent]:
        """Wait up to ``timeout`` seconds for events; an empty list when none came."""
        ...

    def close(self, seconds: float) -> None:
        """End everything that this executor started, within ``seconds``."""
        ...

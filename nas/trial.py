"""A trial, folded from the events of the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nas.proposal import Proposal
from trainers import Failure, FailureKind, Fidelity, Measurement


class State(StrEnum):
    """Where a trial stands. Between two legs it is PAUSED: it holds no device and may go on."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


class Outcome(StrEnum):
    """How a trial ended (DESIGN, "Outcomes")."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    INFEASIBLE = "infeasible"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    ERROR = "error"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"

    @property
    def failed(self) -> bool:
        """Whether the trial yields no objectives because something broke."""
        return self in (Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT)

    @property
    def infeasible(self) -> bool:
        """Whether the candidate itself cannot be used, as strategies are told."""
        return self in (Outcome.INFEASIBLE, Outcome.DIVERGED, Outcome.OUT_OF_MEMORY)

    @property
    def useless(self) -> bool:
        """Whether the trial has no place among the results: it failed, or the candidate cannot be used."""
        return self.failed or self.infeasible


@dataclass(slots=True, eq=False)
class Trial:
    """One evaluation of a candidate. Changed by `Study.apply` alone; read it everywhere else.

    ``rungs`` holds a Measurement per fidelity reached, its metrics joined with the static ones (``parameters``).
    ``until`` is the fidelity that the current leg runs to, ``attempt`` its last launch (-1: not launched yet),
    ``leg_since`` and ``launch_order`` say when it was first launched, ``broken_off`` that its session died while it
    ran; ``on`` are (node, devices) that it holds. Seconds are the executor's.
    """

    number: int
    proposal: Proposal
    key: str
    bracket: int
    until: Fidelity
    static: Mapping[str, float]
    state: State = State.WAITING
    outcome: Outcome | None = None
    reason: str = ""
    duplicate_of: int | None = None
    rungs: dict[Fidelity, Measurement] = field(default_factory=dict)
    leg: int = 0
    attempt: int = -1
    launches: int = 0
    launch_order: int = 0
    leg_since: float = 0.0
    broken_off: bool = False
    plan: str = ""
    devices: int = 0
    on: tuple[tuple[str, int], ...] = ()
    launched_at: float | None = None
    first_launched_at: float | None = None
    ended_at: float | None = None
    device_seconds: float = 0.0
    busy_seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    @property
    def fidelity(self) -> Fidelity:
        """The highest fidelity measured; 0 before the first."""
        return next(reversed(self.rungs), 0)

    @property
    def measurement(self) -> Measurement | None:
        """The measurement at the highest fidelity."""
        return self.rungs[self.fidelity] if self.rungs else None

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics at the highest fidelity, static ones included; only static ones before the first rung."""
        return self.rungs[self.fidelity].metrics if self.rungs else self.static

    def count(self, kind: FailureKind) -> int:
        """Failures of ``kind`` so far."""
        return sum(failure.kind is kind for failure in self.failures)

    def __str__(self) -> str:
        return f"trial {self.number}"

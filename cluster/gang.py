"""A gang, seen from the driver: worker processes that live across legs and trials, as a state machine.

It is told what its ranks answer and when a moment has come, and says through ``emit`` how legs go. It knows the
processes as `Ranks` only, no clock and no Ray.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Protocol, cast

from cluster.installation import InstallationError
from cluster.patience import Keep, Patience
from cluster.protocol import ExecutorEvent, Failed, Finished, Halting, Launch, Leg, LegId, Progress, Reported
from cluster.resources import Allocation
from cluster.verdict import blame
from cluster.worker import Order, RankEnd
from trainers import Failure, FailureKind, Fidelity, Measurement


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rank's call of ``method`` came to: a value, or why there is none (its process is gone)."""

    gang: int
    rank: int
    method: str
    value: Any = None
    failure: Failure | None = None


class Ranks(Protocol):
    """The processes of a gang. Answers to calls come to whoever runs the gang, as `Answer`."""

    def call(self, rank: int, method: str, *arguments: object) -> None:
        """Call a method of `cluster.worker.Worker` on a rank; never blocks."""
        ...

    def kill(self) -> None:
        """End all processes at once and give their devices back."""
        ...


@dataclass
class Job:
    """The leg that a gang runs."""

    leg: Leg
    token: str
    began: float
    watch_at: float
    ends: dict[int, RankEnd | None] = field(default_factory=dict)
    failures: list[tuple[int, Failure]] = field(default_factory=list)
    seen: Fidelity = 0.0
    error_at: float = inf
    halt_at: float = inf


_WATCH_SECONDS = 0.5
"""Pause between two measurements that are shown of one trial."""
_WATCH_PATIENCE_SECONDS = 60.0


class Gang:
    """Workers on ``allocation``, rank by rank in the order of its parts."""

    def __init__(
        self,
        number: int,
        allocation: Allocation,
        ranks: Ranks,
        at: float,
        patience: Patience,
        emit: Callable[[ExecutorEvent], None],
    ) -> None:
        self.number, self.allocation = number, allocation
        self.trial: int | None = None
        self.idle_since = at
        self.broken = False
        self._ranks, self._patience, self._emit = ranks, patience, emit
        self._width = allocation.devices
        self._legs: deque[Leg] = deque()
        self._launch: Launch | None = None
        self._limit_at = inf
        self._job: Job | None = None
        self._joining: set[int] = set()
        self._starting = set(range(self._width))
        self._start_at = at + patience.start
        self._run_legs = 0
        self._first_bytes, self._bytes = 0, 0
        self._port = 0
        for rank in range(self._width):
            ranks.call(rank, "start")

    # What others ask ---------------------------------------------------------------------------------------------

    @property
    def spare(self) -> bool:
        """Whether no leg needs it."""
        return self._job is None and not self._legs

    @property
    def ready(self) -> bool:
        """Whether all ranks are up and connected."""
        return not self._starting and not self._joining and not self.broken

    def worn(self, keep: Keep) -> bool:
        """Whether it should make place for a fresh one."""
        return self.broken or self._run_legs >= keep.legs or self._bytes > self._first_bytes + keep.growth_bytes

    def holds(self, leg: LegId) -> bool:
        """Whether ``leg`` runs or waits here."""
        return (self._job is not None and self._job.leg.id == leg) or any(waiting.id == leg for waiting in self._legs)

    # Commands ----------------------------------------------------------------------------------------------------

    def begin(self, launch: Launch, at: float) -> None:
        """Run the legs of ``launch``, one after another, once all ranks are up."""
        self._launch, self._legs = launch, deque(launch.legs)
        self._limit_at = inf
        if self.ready:
            self._next(at)

    def halt(self, leg: LegId, how: Halting, at: float) -> None:
        """End ``leg``: at its next report where it runs, at once where it waits."""
        if self._job is not None and self._job.leg.id == leg:
            self._job.halt_at = min(self._job.halt_at, at + self._patience.halt(how))
            for rank in range(self._width):
                self._ranks.call(rank, "halt", self._job.token)
        else:
            waiting = [item for item in self._legs if item.id == leg]
            self._legs = deque(item for item in self._legs if item.id != leg)
            for _ in waiting:
                self._emit(Failed(at, leg, Failure(FailureKind.CANCELLED, "halted before it began", "start"), 0.0))

    def kill(self) -> None:
        """End the processes; legs that are still here are the caller's to account for (`lose`)."""
        self.broken = True
        self._ranks.kill()

    def lose(self, failure: Failure, at: float) -> None:
        """End the gang and fail its leg with ``failure``."""
        self.kill()
        self._end_all(at, failure)

    # What comes in -----------------------------------------------------------------------------------------------

    def answered(self, answer: Answer, at: float) -> None:
        """Take a rank's answer. Raise InstallationError where the rank has other code than the driver."""
        if answer.method in ("start", "join"):
            self._started(answer, at)
        elif answer.method == "run" and self._job is not None:
            self._ended(answer, at, self._job)
        elif answer.method == "watch" and self._job is not None and answer.failure is None:
            self._watched(answer.value, at, self._job)

    def tick(self, at: float) -> None:
        """Do what is due."""
        job = self._job
        if self._start_at <= at and (self._starting or self._joining):
            late = sorted(self._starting or self._joining)
            self._start_failed(self._not_started(late), at)
        elif job is not None and job.error_at <= at:
            self.kill()
            self._conclude(at, job)
        elif job is not None and self._limit_at <= at:
            self.lose(self._too_long(), at)
        elif job is not None and job.halt_at <= at:
            self.lose(Failure(FailureKind.CANCELLED, "halted; it came to no report in time and was ended"), at)
        elif job is not None and job.watch_at <= at:
            job.watch_at = inf
            self._watch(job, pause=0.0)

    @property
    def next_tick(self) -> float:
        """When `tick` has something to do."""
        moment = self._start_at if self._starting or self._joining else inf
        if self._job is None:
            return moment
        job = self._job
        return min(moment, self._limit_at, job.error_at, job.halt_at, job.watch_at)

    # Starting ----------------------------------------------------------------------------------------------------

    def _started(self, answer: Answer, at: float) -> None:
        if answer.failure is not None:
            self._start_failed(answer.failure, at)
            return
        value = cast(dict[str, Any], answer.value)
        if "mismatch" in value:
            raise InstallationError(value["mismatch"])
        if "failure" in value:
            self._start_failed(Failure.from_json(value["failure"]), at)
            return
        if answer.method == "start":
            self._starting.discard(answer.rank)
            if answer.rank == 0:
                self._port = value["port"]
            if not self._starting and self._width > 1:
                self._joining = set(range(1, self._width))
                for rank in sorted(self._joining):
                    self._ranks.call(rank, "join", self._port)
        else:
            self._joining.discard(answer.rank)
        if self.ready:
            self.idle_since = at
            self._next(at)

    def _start_failed(self, failure: Failure, at: float) -> None:
        self._starting.clear()
        self._joining.clear()
        self.lose(failure, at)

    def _not_started(self, late: list[int]) -> Failure:
        ranks = ", ".join(map(str, late))
        return Failure(
            FailureKind.ERROR,
            f"waited {self._patience.start:g} s for a gang of {self._width} ({self.allocation}): rank {ranks} did not "
            "start. Other jobs of the cluster hold the devices, or worker processes do not come up there (see the "
            "logs of Ray's session); free the devices, or lower max_devices",
            "start",
            "GangStartError",
        )

    # Running -----------------------------------------------------------------------------------------------------

    def _next(self, at: float) -> None:
        """Begin the next leg of the launch, if any."""
        if not self._legs or self._launch is None:
            self.idle_since = at
            return
        if self._limit_at == inf and self._launch.time_limit is not None:
            self._limit_at = at + self._launch.time_limit
        leg = self._legs.popleft()
        self._run_legs += 1
        token = f"{leg.id.trial}.{leg.id.leg}.{leg.id.attempt}.{self._run_legs}"
        self.trial = leg.id.trial
        self._job = Job(leg, token, began=at, watch_at=at + _WATCH_SECONDS, seen=leg.start)
        for rank in range(self._width):
            self._ranks.call(rank, "run", Order(token, leg, self._launch.plan))

    def _ended(self, answer: Answer, at: float, job: Job) -> None:
        end: RankEnd | None = answer.value
        failure = answer.failure or (end.failure if end else None)
        job.ends[answer.rank] = end
        self.broken = self.broken or answer.failure is not None
        if failure is not None:
            job.failures.append((answer.rank, failure))
            job.error_at = min(job.error_at, at + self._patience.error)
        if end is not None:
            self._bytes = max(self._bytes, end.resident_bytes)
            self._first_bytes = self._first_bytes or end.resident_bytes
        if len(job.ends) == self._width:
            self._conclude(at, job)

    def _conclude(self, at: float, job: Job) -> None:
        """All ranks ended, or the grace after an error has passed."""
        self._job = None
        ends = [end for end in job.ends.values() if end is not None]
        busy = max((end.busy_seconds for end in ends), default=at - job.began)
        if job.failures:
            rank, failure = blame(job.failures)
            self.broken = self.broken or failure.kind is FailureKind.OUT_OF_MEMORY
            self._emit(Failed(at, job.leg.id, self._of_rank(rank, failure), busy))
        else:
            self._report(at, job, busy)
        if self.broken:
            self._drop_waiting(at)
        else:
            self._next(at)

    def _report(self, at: float, job: Job, busy: float) -> None:
        first = job.ends[0]
        last = first.last if first else None
        if last is None or last.fidelity != job.leg.until:
            reached = "nothing" if last is None else last.fidelity
            text = f"the trainer returned without reporting fidelity {job.leg.until} (it reported {reached})"
            self._emit(Failed(at, job.leg.id, Failure(FailureKind.ERROR, text, error="RuntimeError"), busy))
            return
        self._emit(Reported(at, job.leg.id, last))
        self._emit(Finished(at, job.leg.id, busy))

    def _of_rank(self, rank: int, failure: Failure) -> Failure:
        text = failure.message
        if failure.kind is FailureKind.CRASHED and self.trial is not None:
            text = f"{text}; its last output is in trials/{self.trial:05d}/rank{rank}.log"
        return replace(failure, message=text if self._width == 1 else f"rank {rank}: {text}")

    def _too_long(self) -> Failure:
        limit = self._launch.time_limit if self._launch else None
        return Failure(FailureKind.TIMED_OUT, f"ended at its time limit of {limit:g} s (trial.timeout)")

    def _end_all(self, at: float, failure: Failure) -> None:
        """Fail the running leg, or the one that would have been next, and drop those behind it."""
        job, self._job = self._job, None
        if job is not None:
            self._emit(Failed(at, job.leg.id, failure, at - job.began))
        elif self._legs:
            self._emit(Failed(at, self._legs.popleft().id, failure, 0.0))
        self._drop_waiting(at)

    def _drop_waiting(self, at: float) -> None:
        while self._legs:
            text = "the gang ended before this leg's turn"
            self._emit(Failed(at, self._legs.popleft().id, Failure(FailureKind.PREEMPTED, text, "start"), 0.0))

    # Progress ----------------------------------------------------------------------------------------------------

    def _watch(self, job: Job, pause: float) -> None:
        self._ranks.call(0, "watch", job.token, job.seen, pause, _WATCH_PATIENCE_SECONDS)

    def _watched(self, value: tuple[str, Measurement | None], at: float, job: Job) -> None:
        token, measurement = value
        if token != job.token or 0 in job.ends:
            return
        if measurement is not None and job.seen < measurement.fidelity < job.leg.until:
            job.seen = measurement.fidelity
            self._emit(Progress(at, job.leg.id, measurement))
        self._watch(job, pause=_WATCH_SECONDS)

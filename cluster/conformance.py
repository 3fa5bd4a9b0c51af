"""The contract of an executor, as checks that its author runs; no test library is needed.

    for finding in run_executor(lambda recipe: MyExecutor(recipe)):
        print(finding)

One executor serves all checks, as it serves all trials of a study. A check raises AssertionError where the contract is
broken; whatever else an executor raises is a finding too. `Probe` and `probe` are the space and the trainer that the
legs run: what a leg does is one decision of its candidate.
"""

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from cluster.placement import first_fit
from cluster.protocol import (
    Executor,
    ExecutorEvent,
    Failed,
    Finished,
    Halt,
    Halting,
    Launch,
    Leg,
    LegId,
    Progress,
    Reported,
)
from cluster.resources import Allocation
from search_spaces import Architecture, Candidate, Choice, Infeasible, Reference, SearchSpace
from search_spaces.conformance import Check, Finding, judge
from trainers import Diverged, FailureKind, Fidelity, Plan, Recipe
from trainers.context import Context

ExecutorMaker: TypeAlias = Callable[[Recipe], Executor]

_FAILURES = {
    "raise": FailureKind.ERROR,
    "exit": FailureKind.ERROR,
    "say nothing": FailureKind.ERROR,
    "stop short": FailureKind.ERROR,
    "call infeasible": FailureKind.INFEASIBLE,
    "diverge": FailureKind.DIVERGED,
    "run out of memory": FailureKind.OUT_OF_MEMORY,
    "fill the disk": FailureKind.STORAGE,
}
_MAXIMUM = 100
_REPORTS = 300
_REPORT_SECONDS = 0.002
_PATIENCE_SECONDS = 60.0
_MOST_AT_ONCE = 4


# What the legs do -----------------------------------------------------------------------------------------------------


class Probe(SearchSpace):
    """A space whose architectures say what their legs do."""

    decisions = {"act": Choice("train", "dawdle", *_FAILURES)}


def probe(candidate: Candidate, context: Context) -> None:
    """Do what the candidate says, first with one report below the leg's end."""
    act = str(candidate.architecture["act"])
    if act == "dawdle":
        _dawdle(context)
    elif act != "say nothing":
        _report(context, (context.start + context.until) / 2)
    _fail(act)
    if act == "train":
        _report(context, context.until)


def _report(context: Context, fidelity: Fidelity) -> None:
    metrics = {"fidelity": fidelity, "start": context.start}
    context.report(fidelity, metrics, state={"fidelity": fidelity}, seconds=fidelity - context.start)


def _dawdle(context: Context) -> None:
    """Report often; on a real clock it takes a while."""
    for step in range(1, _REPORTS + 1):
        if context.clock is not None:
            time.sleep(_REPORT_SECONDS)
        _report(context, context.start + (context.until - context.start) * step / _REPORTS)


def _fail(act: str) -> None:
    match act:
        case "raise":
            raise LookupError("as it was told to")
        case "exit":
            raise SystemExit(3)
        case "call infeasible":
            raise Infeasible("as it was told to")
        case "diverge":
            raise Diverged(7)
        case "run out of memory":
            raise MemoryError
        case "fill the disk":
            raise OSError(errno.ENOSPC, "No space left on device")


# Running the checks ---------------------------------------------------------------------------------------------------


@contextmanager
def executor_checks(make: ExecutorMaker, folder: Path | None = None) -> Iterator[list[Check]]:
    """All checks by name, on one executor that is closed at the end. ``folder`` is one that all its workers share."""
    with TemporaryDirectory(dir=folder) as made:
        executor = make(_recipe(Path(made)))
        try:
            suite = _Suite(_Drive(executor))
            yield [(name, getattr(suite, name)) for name in vars(_Suite) if not name.startswith("_")]
        finally:
            executor.close(_PATIENCE_SECONDS)


def run_executor(make: ExecutorMaker, folder: Path | None = None) -> list[Finding]:
    """Run all checks; an empty list when the executor keeps the contract."""
    with executor_checks(make, folder) as checks:
        return [finding for name, check in checks for finding in judge(name, check)]


def _recipe(folder: Path) -> Recipe:
    return Recipe(
        space=Reference(f"{__name__}:Probe"),
        task=Reference("digits"),
        trainer=Reference(f"{__name__}:probe"),
        maximum=_MAXIMUM,
        folder=folder,
    )


class _Drive:
    """An executor in use: what was launched, what holds devices, and all events in order."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.events: list[ExecutorEvent] = []
        self.nows: list[tuple[float, int]] = []
        self._held: dict[LegId, Allocation] = {}
        self._trials = 0

    def leg(self, act: str, until: Fidelity = 4, after: Leg | None = None, plan: Plan | None = None) -> Leg:
        """A leg of a new trial, or the next one of ``after``."""
        self._trials += after is None
        return Leg(
            id=LegId(after.id.trial, after.id.leg + 1, 0) if after else LegId(self._trials - 1, 0, 0),
            candidate=Candidate(Architecture({"act": act})),
            start=after.until if after else 0,
            until=until,
            seed=self._trials,
            plan=plan or Plan(),
        )

    def launch(self, leg: Leg, time_limit: float | None = None) -> Leg:
        """Begin a leg where there is room, which is a matter of the caller's."""
        free = {node.name: node.devices for node in self.executor.cluster}
        for allocation in self._held.values():
            for node, count in allocation.parts:
                free[node] -= count
        found = first_fit(leg.plan.width, [(node, free[node.name]) for node in self.executor.cluster])
        assert found is not None, f"{leg.plan.width} devices are not free in {self.executor.cluster}"
        self._held[leg.id] = found
        self.executor.execute(Launch(self.executor.now(), (leg,), leg.plan, found, time_limit))
        return leg

    def halt(self, leg: Leg, how: Halting = Halting.CANCEL) -> None:
        """Halt a leg."""
        self.executor.execute(Halt(leg.id, how))

    def poll(self) -> None:
        """Take what has come."""
        for event in self.executor.poll(0.2):
            self.events.append(event)
            if isinstance(event, Finished | Failed):
                self._held.pop(event.id, None)
        self.nows.append((self.executor.now(), len(self.events)))

    def settle(self) -> None:
        """Wait until all legs have ended, and a moment longer for what should not come."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._held:
            assert time.monotonic() < deadline, f"no end of {sorted(self._held)} in {_PATIENCE_SECONDS:g} s"
            self.poll()
        self.poll()

    def of(self, leg: Leg) -> list[ExecutorEvent]:
        """The events of a leg."""
        return [event for event in self.events if getattr(event, "id", None) == leg.id]

    def run(self, leg: Leg, time_limit: float | None = None) -> Finished | Failed:
        """Launch a leg, wait, and return its end."""
        self.launch(leg, time_limit)
        self.settle()
        return self.end(leg)

    def end(self, leg: Leg) -> Finished | Failed:
        """The one end of a leg, its last event."""
        ends = [event for event in self.of(leg) if isinstance(event, Finished | Failed)]
        assert len(ends) == 1, f"{leg.id} has {len(ends)} ends: {ends}"
        assert self.of(leg)[-1] is ends[0], f"{leg.id} has events after its end: {self.of(leg)[-1]}"
        assert ends[0].busy_seconds >= 0, f"{leg.id} was busy for {ends[0].busy_seconds} s"
        return ends[0]


class _Suite:
    def __init__(self, drive: _Drive) -> None:
        self._drive = drive

    def machines_are_named_once_and_have_devices(self) -> None:
        nodes = list(self._drive.executor.cluster)
        assert nodes, "the executor has no node"
        assert len({node.name for node in nodes}) == len(nodes), f"two nodes share a name: {nodes}"
        assert all(node.devices >= 1 for node in nodes), f"a node has no device: {nodes}"

    def a_leg_reports_at_its_end_and_finishes(self) -> None:
        leg = self._drive.leg("train")
        end = self._drive.run(leg)
        assert isinstance(end, Finished), f"the leg failed: {end}"
        self._check_reports(leg)

    def each_failure_has_its_kind(self) -> None:
        for act, kind in _FAILURES.items():
            leg = self._drive.leg(act)
            end = self._drive.run(leg)
            assert isinstance(end, Failed), f"a leg told to {act} finished"
            assert end.failure.kind is kind, f"a leg told to {act} ended as {end.failure}, must be {kind}"
            assert not any(isinstance(event, Reported) for event in self._drive.of(leg)), f"{act}: it reported its end"

    def an_error_says_what_and_where(self) -> None:
        end = self._drive.run(self._drive.leg("raise"))
        assert isinstance(end, Failed), "a leg that raises has finished"
        failure = end.failure
        assert failure.error == "LookupError", f"the exception's type is {failure.error!r}"
        assert "as it was told to" in failure.message, f"the exception's text is {failure.message!r}"
        assert "conformance.py" in failure.frame, f"the innermost frame is {failure.frame!r}"
        assert "LookupError" in failure.traceback, f"the traceback is {failure.traceback!r}"

    def a_halted_leg_ends_once(self) -> None:
        for how in Halting:
            leg = self._drive.launch(self._drive.leg("dawdle"))
            self._drive.halt(leg, how)
            self._drive.halt(leg, how)
            self._drive.settle()
            end = self._drive.end(leg)
            assert isinstance(end, Failed), f"a leg halted ({how}) at once has finished"
            assert end.failure.kind is FailureKind.CANCELLED, f"a leg halted ({how}) ended as {end.failure}"

    def a_leg_halted_on_its_way_ends_once(self) -> None:
        leg = self._drive.launch(self._drive.leg("dawdle"))
        while not self._drive.of(leg):
            self._drive.poll()
        self._drive.halt(leg)
        self._drive.settle()
        end = self._drive.end(leg)
        cancelled = isinstance(end, Failed) and end.failure.kind is FailureKind.CANCELLED
        assert cancelled or isinstance(end, Finished), f"a halted leg ended as {end}"

    def a_halt_of_what_does_not_run_does_nothing(self) -> None:
        leg = self._drive.leg("train")
        self._drive.run(leg)
        never = self._drive.leg("train")
        for ended in (leg, never):
            self._drive.halt(ended)
        self._drive.settle()
        self._drive.end(leg)
        assert not self._drive.of(never), f"a leg that was never launched has events: {self._drive.of(never)}"
        after = self._drive.run(self._drive.leg("train"))
        assert isinstance(after, Finished), f"the leg after a halt of an ended one: {after}"

    def a_time_limit_is_kept(self) -> None:
        end = self._drive.run(self._drive.leg("dawdle"), time_limit=0.05)
        assert isinstance(end, Failed), "a leg finished beyond its time limit"
        assert end.failure.kind is FailureKind.TIMED_OUT, f"beyond its time limit a leg ended as {end.failure}"
        kept = self._drive.run(self._drive.leg("train"), time_limit=1000.0)
        assert isinstance(kept, Finished), f"a leg within its time limit failed: {kept}"

    def a_later_leg_goes_on_where_the_last_one_ended(self) -> None:
        first = self._drive.leg("train", until=2)
        second = self._drive.leg("train", until=6, after=first)
        for leg in (first, second):
            end = self._drive.run(leg)
            assert isinstance(end, Finished), f"the leg failed: {end}"
        started = self._check_reports(second).measurement.metrics["start"]
        assert started == 2, f"the second leg began at {started}, the first one ended at 2"

    def another_attempt_reports_once_and_finishes(self) -> None:
        leg = self._drive.leg("train")
        self._drive.run(leg)
        again = Leg(LegId(leg.id.trial, 0, 1), leg.candidate, leg.start, leg.until, leg.seed)
        end = self._drive.run(again)
        assert isinstance(end, Finished), f"a second attempt at a leg that has its checkpoint failed: {end}"
        self._check_reports(again)

    def legs_run_side_by_side(self) -> None:
        devices = min(self._drive.executor.cluster.devices, _MOST_AT_ONCE)
        legs = [self._drive.launch(self._drive.leg(act)) for act in ("train", "raise", "train", "dawdle")[:devices]]
        self._drive.settle()
        for leg in legs:
            end = self._drive.end(leg)
            fails = leg.candidate.architecture["act"] == "raise"
            assert isinstance(end, Failed if fails else Finished), f"{leg} ended as {end}"
            if not fails:
                self._check_reports(leg)

    def a_gang_reports_as_one(self) -> None:
        if first_fit(2, [(node, node.devices) for node in self._drive.executor.cluster]) is None:
            return
        leg = self._drive.leg("train", plan=Plan(data=2))
        end = self._drive.run(leg)
        assert isinstance(end, Finished), f"a leg on two devices failed: {end}"
        self._check_reports(leg)

    def events_never_go_back_in_time(self) -> None:
        times = [event.at for event in self._drive.events]
        for before, after in zip(times, times[1:], strict=False):
            assert before <= after, f"an event at {after} comes after one at {before}"
        nows = [now for now, _ in self._drive.nows]
        assert nows == sorted(nows), "now() goes back"
        for now, count in self._drive.nows:
            late = [at for at in times[:count] if at > now]
            assert not late, f"at {now} there were events of {late[-1]} already"

    def nothing_comes_where_nothing_runs(self) -> None:
        for event in self._drive.executor.poll(0.0):
            assert not isinstance(event, Progress | Reported | Finished | Failed), f"{event} came with no leg running"

    def closing_twice_does_no_harm(self) -> None:
        for _ in range(2):
            self._drive.executor.close(_PATIENCE_SECONDS)

    def _check_reports(self, leg: Leg) -> Reported:
        """Progress rises below the leg's end; the one report is at it, just before the leg finishes."""
        *progress, reported, _ = self._drive.of(leg)
        assert isinstance(reported, Reported), f"{leg.id} reported nothing before it ended: {reported}"
        assert reported.measurement.fidelity == leg.until, f"{leg.id} reported {reported.measurement}"
        assert all(isinstance(event, Progress) for event in progress), f"{leg.id} has {progress} before its report"
        levels = [event.measurement.fidelity for event in progress if isinstance(event, Progress)]
        assert levels == sorted(set(levels)), f"fidelities of {leg.id} do not rise: {levels}"
        assert all(leg.start < level < leg.until for level in levels), f"progress of {leg.id} at {levels}"
        return reported

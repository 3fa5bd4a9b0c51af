"""What follows a failure: another attempt, or an end (DESIGN, "Outcomes")."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nas.trial import Outcome
from trainers import Failure, FailureKind, Plan

CRASH_RETRIES = 2

_ENDS = {
    FailureKind.INFEASIBLE: Outcome.INFEASIBLE,
    FailureKind.DIVERGED: Outcome.DIVERGED,
    FailureKind.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
    FailureKind.ERROR: Outcome.ERROR,
    FailureKind.CRASHED: Outcome.CRASHED,
    FailureKind.TIMED_OUT: Outcome.TIMED_OUT,
}
_AT_NO_COST = (FailureKind.PREEMPTED, FailureKind.NODE_LOST, FailureKind.CANCELLED, FailureKind.STORAGE)


@dataclass(frozen=True, slots=True)
class Retry:
    """The same leg again, from the last checkpoint, under ``plan``."""

    plan: Plan


def next_attempt(before: Sequence[Failure], failure: Failure, plan: Plan, devices: int) -> Retry | None:
    """Whether ``failure`` of a trial that had those ``before`` is followed by another attempt, on ``devices`` at most.

    A crash is retried twice; memory running out once, with the batch over twice as many devices where there are as
    many, else in twice as many micro-batches where it is a pipeline's; a node's loss, a preemption or a halt always.
    """
    if failure.kind in _AT_NO_COST:
        return Retry(plan)
    if failure.kind is FailureKind.CRASHED and _count(before, FailureKind.CRASHED) < CRASH_RETRIES:
        return Retry(plan)
    if failure.kind is FailureKind.OUT_OF_MEMORY and not _count(before, FailureKind.OUT_OF_MEMORY):
        wider, finer = replace(plan, data=2 * plan.data), replace(plan, micro_batches=2 * plan.micro_batches)
        smaller = wider if wider.width <= devices else finer if plan.pipeline > 1 else None
        return Retry(smaller) if smaller else None
    return None


def _count(failures: Sequence[Failure], kind: FailureKind) -> int:
    return sum(failure.kind is kind for failure in failures)


def end_of(failure: Failure) -> Outcome:
    """The outcome of a trial that ends with ``failure``."""
    return _ENDS[failure.kind]

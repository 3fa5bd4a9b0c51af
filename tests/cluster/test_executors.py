"""All executors keep one contract: a line in the list is what another one needs."""

import pytest

from cluster import ClusterSpec, Failed, Finished, Halt, Halting, Launch, Leg, LegId, Node, Reported
from cluster.conformance import executor_checks, run_executor
from cluster.inline import InlineExecutor
from cluster.resources import Allocation
from cluster.simulated import SimulatedExecutor
from search_spaces import Architecture, Candidate, Reference
from trainers import FailureKind, Recipe

MACHINES = ClusterSpec((Node("a", 3), Node("b", 1)))

EXECUTORS = {
    "inline": InlineExecutor,
    "simulated": lambda recipe: SimulatedExecutor(recipe, MACHINES),
}


@pytest.mark.parametrize("make", EXECUTORS.values(), ids=EXECUTORS)
def test_conformance(make):
    assert run_executor(make) == []


@pytest.mark.ray
@pytest.mark.slow
def test_conformance_of_ray(local_ray):
    from cluster.ray_backend import RayExecutor

    assert run_executor(lambda recipe: RayExecutor(recipe, address="auto")) == []


# The suite finds what breaks the contract.


class Broken:
    """An executor around a good one."""

    def __init__(self, recipe):
        self.inner = SimulatedExecutor(recipe, MACHINES)
        self.cluster, self.close, self.now, self.execute = (
            MACHINES,
            self.inner.close,
            self.inner.now,
            self.inner.execute,
        )

    def poll(self, timeout):
        return [changed for event in self.inner.poll(timeout) for changed in self.change(event)]


class Repeating(Broken):
    def change(self, event):
        return [event, event] if isinstance(event, Failed) else [event]


class Rewinding(Broken):
    def change(self, event):
        return [Finished(0.0, event.id, 1.0)] if isinstance(event, Finished) else [event]


class Mute(Broken):
    def change(self, event):
        return [] if isinstance(event, Reported) else [event]


class Endless(Broken):
    def __init__(self, recipe):
        super().__init__(recipe)
        self.execute = lambda command: None if isinstance(command, Halt) else self.inner.execute(command)

    def change(self, event):
        return [event]


@pytest.mark.parametrize(
    ("executor", "check"),
    [
        (Repeating, "each_failure_has_its_kind"),
        (Rewinding, "events_never_go_back_in_time"),
        (Mute, "a_leg_reports_at_its_end_and_finishes"),
        (Endless, "a_halted_leg_ends_once"),
    ],
)
def test_the_suite_finds_a_broken_executor(executor, check):
    assert check in [finding.check for finding in run_executor(executor)]


def test_the_checks_have_names_and_one_executor_for_all():
    made = []
    with executor_checks(lambda recipe: made.append(recipe) or SimulatedExecutor(recipe, MACHINES)) as checks:
        names = [name for name, _ in checks]
    assert len(made) == 1
    assert len(set(names)) == len(names) >= 10


# The virtual clock


def timed(candidate, context):
    """Takes as many seconds as the candidate says."""
    context.report(context.until, {"value": 1.0}, seconds=float(candidate.architecture["seconds"]))


def simulated(tmp_path, origin=0.0):
    recipe = Recipe(Reference("mlp"), Reference("digits"), Reference(timed), 9, tmp_path)
    return SimulatedExecutor(recipe, MACHINES, origin)


def launch(executor, trial, seconds, since=None, time_limit=None):
    candidate = Candidate(Architecture({"seconds": seconds}))
    leg = Leg(LegId(trial, 0, 0), candidate, 0, 3, seed=0, since=since)
    executor.execute(Launch(executor.now(), (leg,), leg.plan, Allocation((("a", 1),)), time_limit))
    return leg


def drain(executor):
    events = []
    while batch := executor.poll(0.0):
        events += batch
    return events


def test_the_virtual_clock_goes_from_end_to_end_and_ties_go_in_order_of_launch(tmp_path):
    executor = simulated(tmp_path, origin=100.0)
    for trial, seconds in enumerate([5.0, 2.0, 2.0, 9.0]):
        launch(executor, trial, seconds)
    ends = [(event.id.trial, event.at) for event in drain(executor) if isinstance(event, Finished)]
    assert ends == [(1, 102.0), (2, 102.0), (0, 105.0), (3, 109.0)]
    assert executor.now() == 109.0


def test_a_virtual_leg_that_is_launched_again_counts_from_its_first_launch(tmp_path):
    executor = simulated(tmp_path, origin=10.0)
    launch(executor, 0, 5.0, since=7.0)
    launch(executor, 1, 5.0, since=1.0)  # over already
    ends = [(event.id.trial, event.at) for event in drain(executor) if isinstance(event, Finished)]
    assert ends == [(1, 10.0), (0, 12.0)]


def test_a_virtual_leg_is_halted_at_once_and_its_place_on_the_clock_is_empty(tmp_path):
    executor = simulated(tmp_path)
    halted, other = launch(executor, 0, 5.0), launch(executor, 1, 7.0)
    executor.execute(Halt(halted.id, Halting.STOP))
    events = drain(executor)
    assert [(type(event), event.id.trial, event.at) for event in events] == [
        (Failed, 0, 0.0),
        (Reported, 1, 7.0),
        (Finished, 1, 7.0),
    ]
    assert other.id.trial == 1


def test_a_virtual_leg_is_ended_at_its_time_limit(tmp_path):
    executor = simulated(tmp_path)
    launch(executor, 0, 5.0, time_limit=3.0)
    launch(executor, 1, 3.0, time_limit=3.0)
    late, *_ = (event for event in drain(executor) if isinstance(event, Failed))
    assert (late.id.trial, late.at, late.failure.kind) == (0, 3.0, FailureKind.TIMED_OUT)
    assert executor.now() == 3.0


def test_a_trainer_that_does_not_say_how_long_it_took_fails_on_a_virtual_clock(tmp_path):
    def untimed(candidate, context):
        context.report(context.until, {"value": 1.0})

    recipe = Recipe(Reference("mlp"), Reference("digits"), Reference(untimed), 9, tmp_path)
    executor = SimulatedExecutor(recipe, MACHINES)
    launch(executor, 0, 1.0)
    (failed,) = drain(executor)
    assert failed.failure.kind is FailureKind.ERROR
    assert "seconds" in failed.failure.message


def test_the_inline_executor_ends_its_leg_when_it_is_interrupted(tmp_path):
    came = []

    def training(candidate, context):
        for fidelity in (1, 2, 3):
            came.append(fidelity)
            context.report(fidelity, {"value": 1.0})

    recipe = Recipe(Reference("mlp"), Reference("digits"), Reference(training), 9, tmp_path)
    executor = InlineExecutor(recipe, 0.0, lambda: len(came) >= 2)
    launch(executor, 0, 1.0)
    *_, end = executor.poll(0.0)
    assert came == [1, 2]
    assert end.failure.kind is FailureKind.CANCELLED

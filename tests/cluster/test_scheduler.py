"""The scheduler's laws, on random sequences of events."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster import (
    Allocation,
    ClusterSpec,
    Ended,
    Failed,
    Finished,
    Halt,
    Halting,
    Launch,
    Leg,
    LegId,
    Node,
    NodeDraining,
    NodeGone,
    NodeJoined,
    Progress,
    Ready,
    Reported,
    Scheduler,
    Submitted,
    Want,
)
from cluster.placement import first_fit
from search_spaces import Architecture, Candidate
from trainers import Failure, FailureKind, Measurement, Plan
from trainers.parallelism.option import Option

CANDIDATE = Candidate(Architecture({}))
NAMES = ("a", "b", "c", "d")
KINDS = ("cpu", "gpu")


def leg(number, width=1, promoted=False, attempt=0, time_limit=None):
    return Leg(
        LegId(number, 0, attempt), CANDIDATE, 0, 1, seed=0, plan=Plan(data=width), promoted=promoted,
        time_limit=time_limit,
    )  # fmt: skip


def ids(commands):
    return [command.legs[0].id.trial for command in commands if isinstance(command, Launch)]


def nodes_fit(width, free):
    """Whether ``width`` devices of one kind are free."""
    return any(sum(count for node, count in free if node.kind == kind) >= width for kind in {n.kind for n, _ in free})


class Machine(RuleBasedStateMachine):
    """Feeds a scheduler and a second one the same events, and keeps its own account of who holds what."""

    @initialize(
        sizes=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(KINDS)), min_size=1, max_size=3),
        max_concurrent=st.none() | st.integers(1, 4),
        max_devices=st.none() | st.integers(1, 8),
        width=st.integers(1, 3),
    )
    def begin(self, sizes, max_concurrent, max_devices, width):
        self.nodes = {name: Node(name, count, kind) for name, (count, kind) in zip(NAMES, sizes, strict=False)}
        spec = ClusterSpec(tuple(self.nodes.values()))
        self.limits = (max_concurrent, max_devices)
        self.width = width
        self.scheduler, self.twin = (Scheduler(spec, max_concurrent, max_devices, width) for _ in range(2))
        self.draining, self.at, self.number, self.ended = set(), 0.0, 0, False
        self.holds, self.queue, self.launched = {}, ([], []), set()

    # Events

    def feed(self, event):
        commands = self.scheduler.handle(event)
        assert commands == self.twin.handle(event), "equal events gave different commands"
        for command in commands:
            if isinstance(command, Launch):
                self.take(command)
        self.judge_wants([command.legs for command in commands if isinstance(command, Want)])
        return commands

    def now(self):
        self.at += 1.0
        return self.at

    @rule()
    def ready(self):
        self.feed(Ready(self.now()))

    @rule(width=st.integers(1, 5), promoted=st.booleans())
    def submit(self, width, promoted):
        new = leg(self.number, width, promoted, time_limit=float(self.number))
        self.number += 1
        if not self.ended:
            self.queue[0 if promoted else 1].append(new)
        self.feed(Submitted(self.now(), new))

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), fails=st.booleans())
    def end_leg(self, data, fails):
        id = data.draw(st.sampled_from(sorted(self.holds)))
        del self.holds[id]
        lost = Failure(FailureKind.CRASHED, "")
        self.feed(Failed(self.now(), id, lost, 1.0) if fails else Finished(self.now(), id, 1.0))

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def report(self, data):
        id = data.draw(st.sampled_from(sorted(self.holds)))
        measurement = Measurement(1, {}, 1.0)
        assert self.feed(Progress(self.now(), id, measurement)) == []
        assert self.feed(Reported(self.now(), id, measurement)) == []

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4), kind=st.sampled_from(KINDS))
    def join(self, name, count, kind):
        if name not in self.nodes:
            self.nodes[name] = Node(name, count, kind)
            self.feed(NodeJoined(self.now(), self.nodes[name]))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def drain(self, data):
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        self.draining.add(name)
        self.feed(NodeDraining(self.now(), name, 30.0))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def lose(self, data):
        """A node goes; its legs have still to be failed, perhaps after a node of its name has come back."""
        self.go(data.draw(st.sampled_from(sorted(self.nodes))))

    @precondition(lambda self: any(self.holds.values()))
    @rule(data=st.data())
    def bounce(self, data):
        """A node that is in use goes, and is back before its legs have failed."""
        name = data.draw(st.sampled_from(sorted({name for parts in self.holds.values() for name, _ in parts})))
        node = self.nodes[name]
        self.go(name)
        self.nodes[name] = node
        self.feed(NodeJoined(self.now(), node))

    def go(self, name):
        del self.nodes[name]
        self.draining.discard(name)
        self.holds = {id: [part for part in parts if part[0] != name] for id, parts in self.holds.items()}
        self.feed(NodeGone(self.now(), name))

    @precondition(lambda self: not self.ended and self.number > 8)
    @rule(how=st.sampled_from(list(Halting)))
    def end(self, how):
        self.ended = True
        self.queue[0].clear()
        self.queue[1].clear()
        commands = self.feed(Ended(self.now(), how))
        assert sorted(command.id for command in commands) == sorted(self.holds)
        assert all(isinstance(command, Halt) and command.how is how for command in commands)

    # Laws

    def take(self, launch):
        """A launch is of one leg that waits, whole, on free devices of one kind, on nodes that stay."""
        assert not self.ended, "launched after the end"
        (new,) = launch.legs
        assert launch.at == self.at
        assert launch.plan == new.plan
        assert launch.time_limit == new.time_limit
        assert new.id not in self.launched, "launched twice"
        self.launched.add(new.id)
        queue = self.queue[0 if new.promoted else 1]
        self.judge_order(new)
        queue.remove(new)
        assert launch.allocation.devices == new.plan.width, "a gang is placed whole"
        assert all(count >= 1 for _, count in launch.allocation.parts)
        assert len({self.nodes[name].kind for name, _ in launch.allocation.parts}) == 1, "devices of two kinds"
        assert not {name for name, _ in launch.allocation.parts} & self.draining, "placed on a node that drains"
        self.holds[new.id] = list(launch.allocation.parts)

    def judge_order(self, new):
        """Those before it in its group, and promoted ones before all others, did not fit."""
        before = [] if new.promoted else list(self.queue[0])
        group = self.queue[0 if new.promoted else 1]
        before += group[: group.index(new)]
        for other in before:
            assert not self.fits(other.plan.width), f"{other.id} came first and fits"

    def free(self):
        held = dict.fromkeys(self.nodes, 0)
        for parts in self.holds.values():
            for name, count in parts:
                held[name] += count
        return [(node, node.devices - held[name]) for name, node in self.nodes.items() if name not in self.draining]

    def fits(self, width):
        max_concurrent, max_devices = self.limits
        if max_concurrent is not None and len(self.holds) >= max_concurrent:
            return False
        held = sum(count for parts in self.holds.values() for _, count in parts)
        if max_devices is not None and held + width > max_devices:
            return False
        return nodes_fit(width, self.free())

    def judge_wants(self, wants):
        assert len(wants) <= 1
        for legs in wants:
            assert legs > 0
            assert not self.ended
            assert not any(self.queue), "legs are wanted while some wait"
            self.judge_room(legs)

    def judge_room(self, legs):
        """As many legs as are wanted can be placed now, one after the other."""
        holds = dict(self.holds)
        for at in range(legs):
            assert self.fits(self.width), f"{legs} legs are wanted, {at} fit"
            allocation = first_fit(self.width, self.free())
            self.holds[LegId(-1 - at, 0, 0)] = list(allocation.parts)
        self.holds = holds

    @invariant()
    def no_node_is_overfull(self):
        if hasattr(self, "nodes"):
            assert all(count >= 0 for _, count in self.free())

    @invariant()
    def nothing_waits_that_fits(self):
        if hasattr(self, "nodes"):
            assert self.scheduler.waiting == [*self.queue[0], *self.queue[1]]
            for waiting in self.scheduler.waiting:
                assert not self.fits(waiting.plan.width), f"{waiting.id} waits though it fits"
            assert self.scheduler.busy == bool(self.holds or any(self.queue))


Machine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMachine = Machine.TestCase


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KINDS)), max_size=5),
)
def test_first_fit_places_whole_or_not_at_all(width, sizes):
    nodes = [(Node(f"n{at}", 9, kind), free) for at, (free, kind) in enumerate(sizes)]
    found = first_fit(width, nodes)
    if found is None:
        assert not nodes_fit(width, nodes)
        return
    assert found.devices == width
    room = {node.name: free for node, free in nodes}
    assert all(0 < count <= room[name] for name, count in found.parts)
    whole = [node.name for node, free in nodes if free >= width]
    if whole:
        assert found.parts == ((whole[0], width),)  # no node holds a part of a leg that another holds whole


# By hand


def test_promoted_legs_go_first_and_each_group_in_its_order():
    scheduler = Scheduler(ClusterSpec((Node("n", 1),)))
    assert ids(scheduler.handle(Submitted(0, leg(0)))) == [0]
    for number, promoted in [(1, False), (2, True), (3, False), (4, True)]:
        assert scheduler.handle(Submitted(1, leg(number, promoted=promoted))) == []
    order = []
    running = 0
    while scheduler.waiting:
        (running,) = ids(scheduler.handle(Finished(2, LegId(running, 0, 0), 1.0)))
        order.append(running)
    assert order == [2, 4, 1, 3]


def test_a_narrow_leg_goes_while_a_wide_one_waits_and_the_wide_one_keeps_its_place():
    scheduler = Scheduler(ClusterSpec((Node("n", 2),)))
    scheduler.handle(Submitted(0, leg(0)))
    assert ids(scheduler.handle(Submitted(0, leg(1, width=2)))) == []
    assert ids(scheduler.handle(Submitted(0, leg(2)))) == [2]
    assert ids(scheduler.handle(Finished(1, LegId(0, 0, 0), 1.0))) == []
    assert ids(scheduler.handle(Finished(1, LegId(2, 0, 0), 1.0))) == [1]


def test_wants_as_many_legs_as_there_is_room_for():
    scheduler = Scheduler(ClusterSpec((Node("a", 3), Node("b", 2))), width=2)
    assert scheduler.handle(Ready(0)) == [Want(2)]
    assert scheduler.handle(Submitted(0, leg(0, 2)))[1:] == [Want(1)]
    assert scheduler.handle(Submitted(0, leg(1, 2)))[1:] == []


def test_devices_of_two_kinds_do_not_make_a_leg():
    scheduler = Scheduler(ClusterSpec((Node("a", 1), Node("b", 1, "gpu"))), width=2)
    assert scheduler.handle(Ready(0)) == []
    assert scheduler.widest == 1


@pytest.mark.parametrize(
    ("concurrent", "devices", "width", "expected"), [(2, None, 1, 2), (None, 3, 1, 3), (9, 5, 2, 2), (1, 9, 2, 1)]
)
def test_limits_are_kept(concurrent, devices, width, expected):
    scheduler = Scheduler(ClusterSpec((Node("n", 8),)), concurrent, devices, width)
    assert scheduler.handle(Ready(0)) == [Want(expected)]


def test_a_node_that_comes_back_before_its_legs_have_failed_is_not_overfilled():
    scheduler = Scheduler(ClusterSpec((Node("n", 2),)))
    scheduler.handle(Submitted(0, leg(0)))
    scheduler.handle(NodeGone(1, "n"))
    assert scheduler.handle(NodeJoined(2, Node("n", 2))) == [Want(2)]
    lost = Failure(FailureKind.NODE_LOST, "")
    assert scheduler.handle(Failed(3, LegId(0, 0, 0), lost, 1.0)) == [Want(2)]


def test_what_is_left_of_a_gang_is_held_until_its_end():
    scheduler = Scheduler(ClusterSpec((Node("a", 1), Node("b", 1))))
    (launch,) = scheduler.handle(Submitted(0, leg(0, width=2)))
    assert launch.allocation == Allocation((("a", 1), ("b", 1)))
    assert scheduler.handle(NodeGone(1, "b")) == []
    lost = Failure(FailureKind.NODE_LOST, "")
    assert scheduler.handle(Failed(2, LegId(0, 0, 0), lost, 1.0)) == [Want(1)]


def test_a_draining_node_that_joins_again_is_used():
    scheduler = Scheduler(ClusterSpec((Node("n", 1),)))
    assert scheduler.handle(NodeDraining(0, "n", 30)) == []
    assert scheduler.handle(NodeJoined(1, Node("n", 1))) == [Want(1)]


def chosen(number, *widths):
    """A leg whose last width was chosen from priced ones."""
    options = tuple(Option(Plan(data=width), 1 / width, 0.0, 0.1) for width in widths)
    return replace(leg(number, widths[-1]), options=options)


def placed(sizes, *legs):
    """Devices on each node of each leg that is launched at once."""
    scheduler = Scheduler(ClusterSpec(tuple(Node(name, size) for name, size in zip(NAMES, sizes, strict=False))))
    launches = [command for one in legs for command in scheduler.handle(Submitted(0.0, one))]
    return [(str(one.plan), one.allocation.parts) for one in launches if isinstance(one, Launch)]


def test_a_priced_leg_is_not_spread_over_nodes_that_hold_it_in_parts():
    two = [chosen(number, 1, 2) for number in range(3)]
    assert placed((3, 3), *two) == [
        ("data=2", (("a", 2),)),
        ("data=2", (("b", 2),)),
        ("data=1", (("a", 1),)),
    ]
    assert placed((3, 3), leg(0, 2), leg(1, 2), leg(2, 2))[2] == ("data=2", (("a", 1), ("b", 1)))


def test_a_leg_that_was_priced_over_several_nodes_gets_them():
    assert placed((2, 2), chosen(0, 1, 2, 4)) == [("data=4", (("a", 2), ("b", 2)))]


def test_a_priced_leg_goes_on_narrower_where_a_node_is_lost():
    scheduler = Scheduler(ClusterSpec((Node("a", 1), Node("b", 1))))
    blocked = scheduler.handle(Submitted(0.0, leg(0, 2)))
    assert ids(blocked) == [0]
    assert not ids(scheduler.handle(Submitted(1.0, chosen(1, 1, 2))))
    assert not ids(scheduler.handle(NodeGone(2.0, "b")))
    lost = Failed(3.0, LegId(0, 0, 0), Failure(FailureKind.NODE_LOST, "", "train"), 1.0)
    (launch,) = [command for command in scheduler.handle(lost) if isinstance(command, Launch)]
    assert (launch.legs[0].id.trial, str(launch.plan), launch.allocation.parts) == (1, "data=1", (("a", 1),))

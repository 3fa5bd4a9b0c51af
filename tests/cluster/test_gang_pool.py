"""Gangs and their pool, driven by hand: no process, no Ray, no clock."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.gang import Answer
from cluster.gang_pool import GangPool
from cluster.installation import InstallationError
from cluster.patience import Keep, Patience
from cluster.protocol import ExecutorEvent, Failed, Finished, Halt, Halting, Launch, Leg, LegId, Progress, Reported
from cluster.resources import Allocation, Node
from cluster.worker import RankEnd
from search_spaces import Architecture, Candidate
from trainers import Failure, FailureKind, Measurement, Plan

CANDIDATE = Candidate(Architecture({}))
MIB = 2**20


@dataclass
class FakeRanks:
    """Remembers what was called."""

    allocation: Allocation
    calls: list[tuple[int, str, tuple[object, ...]]] = field(default_factory=list)
    killed: bool = False

    def call(self, rank: int, method: str, *arguments: object) -> None:
        self.calls.append((rank, method, arguments))

    def kill(self) -> None:
        self.killed = True


class FakeMachines:
    """Two nodes of four devices, and every gang that was made."""

    def __init__(self) -> None:
        self.gangs: dict[int, FakeRanks] = {}

    def nodes(self) -> list[Node]:
        return [Node("a", 4), Node("b", 4)]

    def gang(self, number: int, allocation: Allocation) -> FakeRanks:
        self.gangs[number] = FakeRanks(allocation)
        return self.gangs[number]


class Stage:
    """A pool whose workers answer as the test says."""

    def __init__(self, keep: Keep = Keep()) -> None:
        self.machines = FakeMachines()
        self.events: list[ExecutorEvent] = []
        self.at = 0.0
        self.pool = GangPool(self.machines, Patience(), keep, self.events.append)

    @property
    def made(self) -> list[FakeRanks]:
        return list(self.machines.gangs.values())

    def launch(self, trial: int, *parts: tuple[str, int], limit: float | None = None) -> LegId:
        allocation = Allocation(parts or (("a", 1),))
        plan = Plan(data=allocation.devices)
        leg = Leg(LegId(trial, 0, 0), CANDIDATE, 0, 3, seed=0, plan=plan)
        self.pool.launch(Launch(self.at, (leg,), plan, allocation, limit), self.at)
        return leg.id

    def answer(self, gang: int, rank: int, method: str, value: object = None, failure: Failure | None = None) -> None:
        self.pool.answered(Answer(gang, rank, method, value, failure), self.at)

    def up(self, gang: int) -> None:
        """All ranks of a gang start and join."""
        width = self.machines.gangs[gang].allocation.devices
        for rank in range(width):
            self.answer(gang, rank, "start", {"pid": 1, "port": 5})
        for rank in range(1, width):
            self.answer(gang, rank, "join", {})

    def end(self, gang: int, rank: int = 0, failure: Failure | None = None, bytes: int = MIB) -> None:
        last = Measurement(3, {}, 1.0) if failure is None else None
        self.answer(gang, rank, "run", RankEnd(failure, last, 1.0, bytes))

    def advance(self, seconds: float) -> None:
        self.at += seconds
        self.pool.tick(self.at)

    def kinds(self) -> list[FailureKind]:
        return [event.failure.kind for event in self.events if isinstance(event, Failed)]


def died() -> Failure:
    return Failure(FailureKind.CRASHED, "the worker process died")


def raised(message: str = "the real reason", error: str = "LookupError") -> Failure:
    return Failure(FailureKind.ERROR, message, error=error)


def test_a_leg_runs_on_all_ranks_once_all_have_joined_rank_0() -> None:
    stage = Stage()
    stage.launch(0, ("a", 1), ("b", 1))
    assert [(rank, method) for rank, method, _ in stage.made[0].calls] == [(0, "start"), (1, "start")]
    stage.answer(1, 1, "start", {"port": 0})
    stage.answer(1, 0, "start", {"port": 5})
    assert stage.made[0].calls[2:] == [(1, "join", (5,))]
    stage.answer(1, 1, "join", {})
    assert [(rank, method) for rank, method, _ in stage.made[0].calls[3:]] == [(0, "run"), (1, "run")]
    stage.end(1, 1)
    assert stage.events == []
    stage.end(1, 0)
    assert [type(event) for event in stage.events] == [Reported, Finished]


def test_an_idle_gang_of_the_same_devices_is_used_again_the_trials_own_first() -> None:
    stage = Stage()
    for gang, trial in ((1, 0), (2, 1)):
        stage.launch(trial)
        stage.up(gang)
    stage.end(1)
    stage.end(2)
    stage.launch(1)
    assert [len(made.calls) for made in stage.made] == [2, 3]
    stage.launch(7)
    assert [len(made.calls) for made in stage.made] == [3, 3]


def test_idle_gangs_make_place_the_longest_idle_first_and_a_group_waits_for_its_devices() -> None:
    stage = Stage()
    for gang in (1, 2, 3, 4):
        stage.launch(gang)
        stage.up(gang)
    for gang in (2, 1, 3, 4):
        stage.at += 1
        stage.end(gang)
    stage.launch(5, ("a", 2))
    assert [made.killed for made in stage.made] == [True, True, False, False]
    assert len(stage.made) == 4
    stage.advance(0.1)
    assert len(stage.made) == 4
    stage.advance(0.11)
    assert len(stage.made) == 5


def test_a_group_whose_devices_are_free_is_asked_for_at_once() -> None:
    stage = Stage()
    stage.launch(0, ("a", 2), ("b", 2))
    assert len(stage.made) == 1


@pytest.mark.parametrize(
    ("parts", "kind", "named"),
    [
        ([("c", 1)], FailureKind.NODE_LOST, "node c"),
        ([("a", 5)], FailureKind.ERROR, "which has 4 in all"),
    ],
)
def test_what_can_never_fit_is_refused_by_name(parts: list[tuple[str, int]], kind: FailureKind, named: str) -> None:
    stage = Stage()
    stage.launch(0, *parts)
    assert stage.made == []
    assert stage.kinds() == [kind]
    assert named in stage.events[0].failure.message  # type: ignore[union-attr]


def test_devices_in_use_are_not_given_twice() -> None:
    stage = Stage()
    stage.launch(0, ("a", 3))
    stage.launch(1, ("a", 2))
    assert stage.kinds() == [FailureKind.ERROR]
    assert "3 of its 4 are in use" in stage.events[0].failure.message  # type: ignore[union-attr]


def test_a_plan_has_the_width_of_its_allocation() -> None:
    stage = Stage()
    leg = Leg(LegId(0, 0, 0), CANDIDATE, 0, 3, seed=0)
    stage.pool.launch(Launch(0.0, (leg,), Plan(data=2), Allocation((("a", 1),)), None), 0.0)
    assert stage.kinds() == [FailureKind.ERROR]


def test_an_error_waits_for_the_other_ranks_for_its_grace_then_ends_the_gang() -> None:
    stage = Stage()
    stage.launch(0, ("a", 2))
    stage.up(1)
    stage.end(1, 1, raised())
    stage.advance(1.9)
    assert stage.events == []
    stage.advance(0.2)
    assert [event.failure.message for event in stage.events] == ["rank 1: the real reason"]  # type: ignore[union-attr]
    assert stage.made[0].killed


def test_the_cause_is_blamed_not_the_closed_connection_that_is_seen_first() -> None:
    stage = Stage()
    stage.launch(0, ("a", 2))
    stage.up(1)
    stage.end(1, 0, raised("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"))
    stage.answer(1, 1, "run", failure=died())
    assert stage.kinds() == [FailureKind.CRASHED]
    assert stage.made[0].killed


def test_a_gang_is_kept_after_a_users_error_that_all_ranks_returned() -> None:
    stage = Stage()
    stage.launch(0, ("a", 2))
    stage.up(1)
    stage.end(1, 0, raised())
    stage.end(1, 1, raised())
    stage.launch(1, ("a", 2))
    assert len(stage.made) == 1
    assert not stage.made[0].killed


@pytest.mark.parametrize("keep", [Keep(legs=2), Keep(growth_bytes=MIB)])
def test_a_worn_gang_makes_place_for_a_fresh_one(keep: Keep) -> None:
    stage = Stage(keep)
    stage.launch(0)
    stage.up(1)
    stage.end(1)
    assert not stage.made[0].killed
    stage.launch(1)
    stage.end(1, bytes=3 * MIB)
    assert stage.made[0].killed


def test_a_time_limit_counts_from_the_legs_start_and_ends_the_gang() -> None:
    stage = Stage()
    stage.launch(0, limit=10)
    stage.advance(20)
    stage.up(1)
    stage.advance(9.9)
    assert stage.kinds() == []
    stage.advance(0.1)
    assert stage.kinds() == [FailureKind.TIMED_OUT]
    assert stage.made[0].killed


def test_a_gang_that_does_not_start_says_what_it_waits_for() -> None:
    stage = Stage()
    stage.launch(0, ("a", 2))
    stage.answer(1, 0, "start", {"port": 5})
    stage.advance(Patience().start)
    assert stage.kinds() == [FailureKind.ERROR]
    message = stage.events[0].failure.message  # type: ignore[union-attr]
    assert "gang of 2 (2 on a): rank 1" in message
    assert stage.made[0].killed


@pytest.mark.parametrize(("how", "seconds"), [(Halting.PAUSE, 30), (Halting.STOP, 10), (Halting.CANCEL, 2)])
def test_a_halted_leg_has_its_grace(how: Halting, seconds: float) -> None:
    stage = Stage()
    leg = stage.launch(0)
    stage.up(1)
    stage.pool.halt(Halt(leg, how), stage.at)
    assert stage.made[0].calls[-1][1] == "halt"
    stage.advance(seconds - 0.1)
    assert stage.kinds() == []
    stage.advance(0.2)
    assert stage.kinds() == [FailureKind.CANCELLED]
    assert stage.made[0].killed


def test_a_leg_halted_before_it_began_ends_at_once_and_its_gang_is_kept() -> None:
    stage = Stage()
    leg = stage.launch(0)
    stage.pool.halt(Halt(leg, Halting.PAUSE), stage.at)
    assert stage.kinds() == [FailureKind.CANCELLED]
    stage.up(1)
    stage.launch(1)
    assert len(stage.made) == 1


def test_progress_is_shown_below_the_rung_while_the_leg_runs() -> None:
    stage = Stage()
    stage.launch(0)
    stage.up(1)
    stage.advance(0.5)
    _, method, (token, *_) = stage.made[0].calls[-1]
    assert method == "watch"
    stage.answer(1, 0, "watch", (token, Measurement(1, {}, 0.4)))
    stage.answer(1, 0, "watch", (token, Measurement(3, {}, 0.9)))
    stage.answer(1, 0, "watch", ("of another leg", Measurement(2, {}, 0.9)))
    stage.end(1)
    assert [type(event) for event in stage.events] == [Progress, Reported, Finished]


def test_a_lost_node_fails_what_it_held() -> None:
    stage = Stage()
    stage.launch(0, ("a", 1), ("b", 1))
    stage.launch(1)
    stage.up(1)
    stage.up(2)
    stage.pool.node_gone("b", Failure(FailureKind.NODE_LOST, "node b is gone"), stage.at)
    assert stage.kinds() == [FailureKind.NODE_LOST]
    stage.end(1, 0)
    stage.end(2, 0)
    assert [type(event) for event in stage.events] == [Failed, Reported, Finished]


def test_a_worker_with_other_code_stops_the_search() -> None:
    stage = Stage()
    stage.launch(0)
    with pytest.raises(InstallationError, match="other code"):
        stage.answer(1, 0, "start", {"mismatch": "other code"})


steps = st.lists(
    st.one_of(
        st.tuples(st.just("launch"), st.sampled_from([1, 2, 3])),
        st.tuples(st.just("halt"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["up", "end", "raise", "die"]), st.integers(1, 9)),
        st.tuples(st.just("wait"), st.sampled_from([1, 5, 200])),
        st.tuples(st.just("lose"), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_every_leg_ends_exactly_once_whatever_the_ranks_do(steps: list[tuple[str, int]]) -> None:
    """Ranks answer only calls that they were sent, in any order; after a long wait all legs have ended."""
    stage, launched = Stage(), []
    for step, number in steps:
        gang = stage.machines.gangs.get(number)
        if step == "launch":
            launched.append(stage.launch(len(launched), ("a", number), limit=100))
        elif step == "halt" and number < len(launched):
            stage.pool.halt(Halt(launched[number], Halting.PAUSE), stage.at)
        elif step == "wait":
            stage.advance(number)
        elif step == "lose":
            stage.pool.node_gone("a", Failure(FailureKind.NODE_LOST, ""), stage.at)
        elif gang is not None and step == "up" and not any(method == "join" for _, method, _ in gang.calls):
            stage.up(number)
        elif gang is not None and step in ("end", "raise", "die"):
            unanswered = Counter(rank for rank, method, _ in gang.calls if method == "run")
            unanswered.subtract(rank for rank in getattr(gang, "answered", ()))
            for rank in [rank for rank, left in unanswered.items() if left][:1]:
                gang.answered = [*getattr(gang, "answered", ()), rank]  # type: ignore[attr-defined]
                if step == "die":
                    stage.answer(number, rank, "run", failure=died())
                else:
                    stage.end(number, rank, raised() if step == "raise" else None)
    for _ in range(3):
        stage.advance(1000)
    ends = Counter(event.id for event in stage.events if isinstance(event, Finished | Failed))
    assert ends == Counter(launched)

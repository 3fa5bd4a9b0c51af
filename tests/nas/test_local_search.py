"""Local search: climbs of one change at a time to a local optimum, then another; nothing twice."""

import numpy as np
import pytest

from nas.conformance import run_strategy
from nas.fidelity import AsynchronousHalving, FullFidelity
from nas.objective import Direction, Objective, Objectives
from nas.proposal import WAIT
from nas.rehearsal import Rehearsal
from nas.strategies.local import LocalSearch
from nas.warm_start import hand_down
from search_spaces import Bound, CandidateSpace, Choice, Float, Integer, SearchSpace
from trainers import FailureKind


class Grid(SearchSpace):
    """Six decisions of five values: 24 neighbours each."""

    decisions = {f"d{at}": Choice(*range(5)) for at in range(6)}


class Cube(SearchSpace):
    """Three decisions of six values: 15 neighbours each."""

    decisions = {f"d{at}": Choice(*range(6)) for at in range(3)}


class Line(SearchSpace):
    """One decision of eight values: all are neighbours."""

    decisions = {"x": Integer(0, 7)}


class Smooth(SearchSpace):
    """Three floats."""

    decisions = {name: Float(0.0, 1.0) for name in "abc"}


SPACE = CandidateSpace(Grid())
ONE = Objectives((Objective("a", Direction.MAXIMIZE),))
BOUND = Objectives(ONE.objectives, (Bound("m", "<=", 3.0),))
TWO = Objectives((Objective("a", Direction.MAXIMIZE), Objective("b", Direction.MAXIMIZE)))


def search_of(space=SPACE, objectives=ONE, rule=None, seed=0, start=(), **arguments):
    rule = rule or FullFidelity(objectives, 1, 1, 3)
    return Rehearsal(space, objectives, rule, LocalSearch(space, objectives, **arguments), seed, start=start)


def values(trial):
    return list(trial.proposal.candidate.architecture.values())


def unimodal(trial):
    return -sum((value - goal) ** 2 for value, goal in zip(values(trial), (3, 0, 4, 1, 2, 2), strict=True))


def rugged(trial):
    """Many local optima."""
    return float(np.random.default_rng(values(trial)).random())


def changes(search, trial, parent):
    before = search.study[parent].proposal.candidate.architecture
    return sum(before[name] != value for name, value in trial.proposal.candidate.architecture.items())


@pytest.mark.parametrize("arguments", [{}, {"neighbours": 1}, {"neighbours": 5}])
def test_conformance(arguments):
    assert run_strategy(lambda *of: LocalSearch(*of, **arguments)) == []


@pytest.mark.parametrize("seed", range(5))
def test_one_climb_reaches_the_optimum_of_a_unimodal_function_and_then_another_begins(seed):
    search, best = search_of(seed=seed), -np.inf
    while True:
        trial = search.start()
        if trial.number and trial.proposal.operator == "sample":
            break
        search.advance(trial, {"a": float(unimodal(trial))})
        best = max(best, unimodal(trial))
    assert best == 0  # before the restart
    assert trial.proposal.notes == 1
    top = next(trial for trial in search.study.trials() if unimodal(trial) == 0)
    around = [one for one in search.study.trials() if changes(search, one, top.number) == 1]
    assert len(around) == 24  # a climb ends when all neighbours of its incumbent are known


def test_each_trial_is_a_neighbour_of_the_best_of_its_climb():
    search = search_of()
    for _ in range(300):
        trial = search.start()
        climb = [one for one in search.study.trials()[:-1] if one.proposal.notes == trial.proposal.notes]
        search.advance(trial, {"a": rugged(trial)})
        if trial.proposal.parents:
            (parent,) = trial.proposal.parents
            assert changes(search, trial, parent) == 1
            assert search.study[parent].metrics["a"] >= max(one.metrics["a"] for one in climb)
    starts = [trial for trial in search.study.trials() if not trial.proposal.parents]
    assert len(starts) > 3


def test_no_climb_ends_below_a_neighbour_that_is_known():
    search = search_of()
    for _ in range(300):
        trial = search.start()
        search.advance(trial, {"a": rugged(trial)})
    trials = search.study.trials()
    for climb in range(trials[-1].proposal.notes):
        members = [trial for trial in trials if trial.proposal.notes == climb]
        parents = {parent for trial in members for parent in trial.proposal.parents}
        top = max([*members, *map(search.study.__getitem__, parents)], key=lambda trial: trial.metrics["a"])
        around = [one for one in trials if one is not top and changes(search, one, top.number) == 1]
        better = [one for one in around if one.metrics["a"] > top.metrics["a"]]
        assert all(one.proposal.notes < climb for one in better)  # the climb has gone there, where all was known


def test_a_climb_joins_the_way_of_an_earlier_one_only_where_no_neighbour_is_untried():
    search = search_of(CandidateSpace(Cube()))
    for _ in range(150):
        trial = search.start()
        search.advance(trial, {"a": rugged(trial)})
    trials = search.study.trials()
    best, passed_by = {}, 0
    for trial in trials:
        climb = trial.proposal.notes
        for parent in trial.proposal.parents:
            around = [one for one in trials[: trial.number] if changes(search, one, best[climb].number) == 1]
            better = [one for one in around if one.metrics["a"] > best[climb].metrics["a"]]
            passed_by += bool(better)
            assert parent == best[climb].number or (len(around) == 15 and search.study[parent] in better)
            best[climb] = search.study[parent]
        best[climb] = max(best.get(climb, trial), trial, key=lambda one: one.metrics["a"])
    assert passed_by > 5


def test_many_workers_are_asked_different_candidates_and_none_waits():
    search = search_of()
    running = [search.start() for _ in range(60)]
    assert None not in running
    assert len({trial.proposal.candidate for trial in running}) == 60
    search.advance(running[0], {"a": 1.0})
    around = [search.start() for _ in range(30)]
    parents = [trial.proposal.parents for trial in around]
    assert parents.count((0,)) >= 20  # its 24 neighbours, but those under way; then new climbs begin
    assert parents[-1] == ()
    tried = [trial.proposal.candidate for trial in search.study.trials()]
    assert len(set(tried)) == len(tried) == 90


def test_all_of_a_small_space_is_tried_once_and_then_it_ends():
    search = search_of(CandidateSpace(Line()))
    trials = [search.start() for _ in range(8)]
    assert search.state.strategy.ask(trials, np.random.default_rng(0)) is WAIT
    for trial in trials:
        search.advance(trial, {"a": 1.0})
    assert search.start() is None
    assert "nothing left to propose" in search.over


@pytest.mark.parametrize("kind", [FailureKind.ERROR, FailureKind.DIVERGED, FailureKind.INFEASIBLE])
def test_what_fails_is_no_incumbent(kind):
    search = search_of(rule=AsynchronousHalving(ONE, 1, 9, 2))
    first = search.start()
    search.report(first, {"a": 1.0})
    assert search.state.strategy.ask([], np.random.default_rng(0)).parents == (0,)
    search.fail(first, kind)
    assert search.start().proposal.operator == "sample"


def test_a_climb_whose_incumbent_fails_begins_again_at_its_next_trial():
    search = search_of(rule=AsynchronousHalving(ONE, 1, 3, 3))
    first = search.start()
    search.report(first, {"a": 1.0})
    under_way = [search.start() for _ in range(2)]
    assert all(trial.proposal.parents == (first.number,) for trial in under_way)
    search.fail(first, FailureKind.ERROR)
    assert search.start().proposal.parents == ()  # the climb has ended
    search.advance(under_way[0], {"a": -5.0})
    following = search.start().proposal
    assert (following.parents, following.notes) == ((under_way[0].number,), first.proposal.notes)


def test_where_all_neighbours_are_refused_another_climb_begins():
    search = search_of()
    search.advance(search.start(), {"a": 1.0})
    search.refuse(24)
    trial = search.start()
    assert search.study.rejected == 24
    assert (trial.proposal.operator, trial.proposal.notes) == ("sample", 1)


def asked_parents(search):
    return search.state.strategy.ask(search.study.pending(), np.random.default_rng(0)).parents


def test_constraints_come_first_then_the_rung_then_the_objective():
    search = search_of(CandidateSpace(Line()), BOUND, AsynchronousHalving(BOUND, 1, 9, 2))
    trials = [search.start()]
    search.advance(trials[0], {"a": 9.0, "m": 9.0})
    trials.append(search.start())
    search.advance(trials[1], {"a": 1.0, "m": 0.0})
    assert asked_parents(search) == (1,)
    promoted = search.start()
    assert (promoted.number, promoted.until) == (1, 2)
    search.advance(promoted, {"a": 0.0, "m": 0.0})
    trials.append(search.start())
    search.advance(trials[2], {"a": 5.0, "m": 0.0})
    assert asked_parents(search) == (1,)  # worse by its number, but at fidelity 2


def test_of_several_objectives_only_what_dominates_is_better():
    search = search_of(CandidateSpace(Line()), TWO)
    for values_, parent in (((1, 1), 0), ((2, 0), 0), ((0, 2), 0), ((1, 2), 3), ((3, 1), 3)):
        search.advance(search.start(), dict(zip("ab", map(float, values_), strict=True)))
        assert asked_parents(search) == (parent,)


def test_the_first_climb_begins_at_the_best_that_is_known():
    older = search_of()
    for value in (1.0, 5.0, 3.0):
        older.advance(older.start(), {"a": value})
    search = search_of(seed=1)
    search.record(hand_down(older.study, ONE, "an older study"))
    assert asked_parents(search) == (-2,)
    known = [SPACE.sample(np.random.default_rng(at)) for at in range(3)]
    search = search_of(start=known)
    for value in (1.0, 5.0, 3.0):
        search.advance(search.start(), {"a": value})
    assert asked_parents(search) == (1,)


def test_floats_are_drawn_and_a_climb_ends_after_so_many_neighbours():
    search = search_of(CandidateSpace(Smooth()), neighbours=7)
    search.advance(search.start(), {"a": 1.0})
    for _ in range(7):
        trial = search.start()
        assert trial.proposal.parents == (0,)
        search.advance(trial, {"a": 0.0})
    assert search.start().proposal.parents == ()


def test_neighbours_must_be_some():
    with pytest.raises(ValueError, match="neighbours = 0"):
        LocalSearch(SPACE, ONE, neighbours=0)

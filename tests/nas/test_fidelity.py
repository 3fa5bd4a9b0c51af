"""Fidelity rules against their papers, on random orders of reports and ends."""

from math import inf, nan
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nas.conformance import run_rule
from nas.fidelity import (
    RULES,
    AsynchronousHalving,
    Continue,
    FullFidelity,
    MedianStopping,
    StoppingHalving,
    Verdict,
    rungs,
)
from nas.objective import Direction, Objective, Objectives
from nas.pareto import preference_order
from nas.proposal import Proposal
from nas.rehearsal import Rehearsal
from nas.rung import Rung
from nas.strategies.random import RandomSearch
from nas.trial import Outcome, State, Trial
from search_spaces import Architecture, Bound, Candidate, CandidateSpace, Choice, SearchSpace
from trainers import FailureKind, Measurement


class Wide(SearchSpace):
    """More candidates than any test proposes."""

    decisions = {f"d{at}": Choice(*range(10)) for at in range(9)}


SPACE = CandidateSpace(Wide())
ONE = Objectives((Objective("a", Direction.MAXIMIZE),))
TWO = Objectives((Objective("a", Direction.MAXIMIZE), Objective("b", Direction.MINIMIZE)))
BOUND = Objectives((Objective("a", Direction.MAXIMIZE),), (Bound("m", "<=", 3.0), Bound("n", "<=", 3.0)))
BOTH = Objectives(TWO.objectives, BOUND.constraints)
NUMBER = st.one_of(st.integers(0, 5).map(float), st.just(nan), st.just(inf), st.just(-inf))


def rehearsal(rule, objectives=ONE, seed=0):
    return Rehearsal(SPACE, objectives, rule, RandomSearch(SPACE, objectives), seed)


@pytest.mark.parametrize("name", RULES.builtin)
def test_conformance(name):
    assert run_rule(RULES.load(name)) == []


# Rungs


@pytest.mark.parametrize(
    ("minimum", "maximum", "eta", "expected"),
    [
        (3, 27, 3, (3, 9, 27)),
        (1, 100, 3, (1, 3, 9, 27, 81, 100)),
        (5, 5, 2, (5,)),
        (0.25, 1.0, 2, (0.25, 0.5, 1.0)),
        (1, 10, 2.5, (1, 2.5, 6.25, 10)),
        (0.09, 0.9, 10, (0.09, 0.9)),  # 0.09 * 10 is 0.8999999999999999 in floating point
        (0.11, 2.97, 3, (0.11, 0.33, 0.99, 2.97)),
    ],
)
def test_rungs_are_min_eta_to_the_k_and_max(minimum, maximum, eta, expected):
    assert rungs(minimum, maximum, eta) == pytest.approx(expected)
    assert len(rungs(minimum, maximum, eta)) == len(expected)


@given(st.floats(1e-3, 1e3), st.floats(1.01, 1e3), st.floats(1.1, 10))
def test_rungs_increase_by_no_less_than_a_trace(minimum, times, eta):
    levels = rungs(minimum, minimum * times, eta)
    assert levels[-1] == minimum * times
    assert levels[0] == minimum
    assert all(low * (1 + 1e-9) < high <= low * eta * (1 + 1e-9) for low, high in zip(levels, levels[1:], strict=False))


def test_rungs_of_whole_numbers_are_whole():
    assert [type(level) for level in rungs(1, 27, 3.0)] == [int] * 4


# ASHA


class Reference:
    """Li et al. 2020, algorithm 2, as it is written: get_job searches the rungs from the top."""

    def __init__(self, objectives, levels, eta):
        self.objectives, self.levels, self.eta = objectives, levels, eta
        self.completed = {level: {} for level in levels}
        self.promoted = {level: set() for level in levels}

    def complete(self, number, level, metrics):
        self.completed[level][number] = metrics

    def order(self, level):
        """All of a rung, best first: constraints kept, then the objectives, then the order of proposal."""
        numbers = sorted(self.completed[level])
        costs = {number: self.objectives.costs(self.completed[level][number]) for number in numbers}
        broken = {
            number: len(self.objectives.constraints) + 1  # what has diverged stands behind all that broke a bound
            if inf in costs[number]
            else len(self.objectives.violations(self.completed[level][number]))
            for number in numbers
        }
        good = [number for number in numbers if not broken[number]]
        if len(self.objectives.objectives) == 1:
            good.sort(key=lambda number: (costs[number], number))
        else:  # MO-ASHA (Schmucker et al. 2021)
            arrival = [number for number in self.completed[level] if not broken[number]]
            good = [arrival[at] for at in preference_order([costs[number] for number in arrival])]
        bad = sorted((number for number in numbers if broken[number]), key=lambda n: (broken[n], costs[n], n))
        return good + bad

    def get_job(self, waiting):
        for below, above in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            candidates = self.order(below)[: int(len(self.completed[below]) // self.eta)]
            promotable = [n for n in candidates if n not in self.promoted[below] and n in waiting]
            if promotable:
                self.promoted[below].add(promotable[0])
                return promotable[0], above
        return None


@settings(max_examples=120, deadline=None)
@given(
    objectives=st.sampled_from([ONE, TWO, BOUND, BOTH]),
    eta=st.sampled_from([2, 3, 2.5]),
    seed=st.integers(0, 2**32),
    kinds=st.sampled_from(["report", "mixed"]),
)
def test_asha_promotes_as_the_paper_does(objectives, eta, seed, kinds):
    rng = np.random.default_rng(seed)
    rule = AsynchronousHalving(objectives, 1, 30, eta)
    search, reference = rehearsal(rule, objectives), Reference(objectives, rule.rungs, eta)
    promotions = 0
    for _ in range(80):
        reported = [t for t in search.study.running() if t.until in t.rungs]
        training = [t for t in search.study.running() if t.until not in t.rungs]
        action = rng.choice(["start", "report", "finish", "fail"], p=[0.3, 0.35, 0.3, 0.05])
        if action == "start":
            expected = reference.get_job({t.number for t in search.study.paused()})
            got = rule.promote()
            assert got == expected
            trial = search.start()
            if expected is not None:
                promotions += 1
                assert (trial.number, trial.until) == expected
            else:
                assert trial.until == rule.rungs[0]
        elif action == "report" and training:
            trial = training[rng.integers(len(training))]
            metrics = draw(rng, kinds)
            search.report(trial, metrics)
            reference.complete(trial.number, trial.until, metrics)
        elif action == "finish" and reported:
            search.finish(reported[rng.integers(len(reported))])
        elif action == "fail" and kinds == "mixed" and (training or reported):
            search.fail([*training, *reported][0], FailureKind.CRASHED, retry=bool(rng.integers(2)))
            for waiting in search.study.active():
                if waiting.state is State.WAITING:
                    search.launch(waiting)


def draw(rng, kinds):
    values = rng.integers(0, 6, 4).astype(float).tolist()
    if kinds == "mixed" and rng.random() < 0.2:
        values[int(rng.integers(2))] = [nan, inf, -inf][int(rng.integers(3))]
    return dict(zip("abmn", values, strict=True))


def test_asha_promotes_the_top_third_and_no_more():
    rule = AsynchronousHalving(ONE, 1, 9, 3)
    search = rehearsal(rule)
    for value in range(9):
        trial = search.start()
        if trial.until == 1:
            search.advance(trial, {"a": float(value)})
    # Rung 1 has grown by one at a time; of n trials n // 3 are promoted at any time.
    for _ in range(20):
        trial = search.start()
        search.advance(trial, {"a": -1.0} if trial.until == 1 else {"a": float(trial.number)})
        at = {level: [t for t in search.study.trials() if level in t.rungs] for level in rule.rungs}
        assert len(at[3]) <= len(at[1]) // 3
        assert len(at[9]) <= len(at[3]) // 3


def test_asha_does_not_promote_a_trial_whose_leg_has_reported_but_not_ended():
    rule = AsynchronousHalving(ONE, 1, 9, 3)
    search = rehearsal(rule)
    trials = [search.start() for _ in range(3)]
    for value, trial in enumerate(trials):
        search.report(trial, {"a": float(value)})
    assert rule.promote() is None
    search.finish(trials[0])
    assert rule.promote() is None  # trial 2 is the one in the top third, and still holds its device
    search.finish(trials[2])
    assert rule.promote() == (2, 3)


@pytest.mark.parametrize("bad", [nan, inf, -inf])
@pytest.mark.parametrize("direction", list(Direction))
def test_what_is_not_finite_ranks_last(bad, direction):
    rule = AsynchronousHalving(Objectives((Objective("a", direction),)), 1, 9, 3)
    search = rehearsal(rule, Objectives((Objective("a", direction),)))
    trials = [search.start() for _ in range(3)]
    search.advance(trials[0], {"a": bad})
    search.advance(trials[1], {"a": 1.0})
    search.advance(trials[2], {"a": 1.0})
    assert trials[0].outcome is Outcome.DIVERGED
    assert rule.promote() == (1, 3)


def test_among_several_objectives_a_diverged_trial_takes_no_promotion():
    """The smallest network of all would be on the front, had its accuracy not diverged."""
    for diverged in range(4):
        rule = AsynchronousHalving(TWO, 1, 9, 3)
        search = rehearsal(rule, TWO)
        for number, trial in enumerate([search.start() for _ in range(9)]):
            accuracy = nan if number < diverged else number / 10
            search.advance(trial, {"a": accuracy, "b": number if number < diverged else 10 + number})
        promoted = []
        while (promotion := rule.promote()) is not None:
            promoted.append(promotion[0])
            search.study[promotion[0]].state = State.RUNNING
            rule._rungs[1].let_go(promotion[0])
        assert len(promoted) == 3
        assert min(promoted) >= diverged


def test_a_large_rung_of_several_objectives_is_ranked_at_sizes_that_depend_on_nothing_else():
    """Asked after every measurement or never before, it answers the same, as a resumed search has to."""
    rng = np.random.default_rng(3)
    points = rng.random((400, 2)).tolist()
    asked, silent = Rung(TWO), Rung(TWO)
    trials = [rehearsed(number) for number in range(400)]
    for trial, (a, b) in zip(trials, points, strict=True):
        for rung in (asked, silent):
            rung.add(trial, Measurement(1, {"a": a, "b": b}, 1.0))
        asked.best_held(len(asked) // 3)
    assert asked.best_held(133) == silent.best_held(133) is not None


def rehearsed(number):
    proposal = Proposal(Candidate(Architecture({})))
    return Trial(number, proposal, str(number), 0, 1, {}, state=State.PAUSED)


def test_asha_ranks_a_trial_without_its_objective_behind_all_that_break_constraints():
    rule = AsynchronousHalving(BOUND, 1, 9, 3)
    search = rehearsal(rule, BOUND)
    trials = [search.start() for _ in range(3)]
    search.advance(trials[0], {"m": 0.0, "n": 0.0})
    search.advance(trials[1], {"a": 1.0, "m": 9.0, "n": 9.0})
    search.advance(trials[2], {"a": 0.0, "m": 9.0, "n": 9.0})
    assert trials[0].outcome is Outcome.ERROR
    assert rule.promote() == (1, 3)


# The stopping form


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9).map(float), min_size=1, max_size=40), st.sampled_from([2, 3, 4]))
def test_asha_stop_goes_on_while_in_the_top_share_of_those_before(values, eta):
    rule = StoppingHalving(ONE, 1, 16, eta)
    search = rehearsal(rule)
    for at, value in enumerate(values):
        trial = search.start()
        search.report(trial, {"a": value})
        better = sum(other >= value for other in values[:at])  # equals that came before stand before
        decision = search.finish(trial)
        if better < (at + 1) / eta:
            assert decision == Continue(rule.rungs[1])
        else:
            assert decision is Verdict.STOP
            assert trial.outcome is Outcome.STOPPED
        assert rule.promote() is None


def test_asha_stop_trains_the_best_of_a_sequence_to_the_end():
    rule = StoppingHalving(ONE, 1, 9, 3)
    search = rehearsal(rule)
    trial = search.start()
    for level in (1, 3, 9):
        assert trial.until == level
        search.advance(trial, {"a": 1.0})
    assert trial.outcome is Outcome.COMPLETED


# The median rule


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 9).map(float)] * 3), min_size=1, max_size=30), st.booleans())
def test_median_stops_what_is_worse_than_the_median_of_the_means_of_the_others(curves, at_once):
    """Golovin et al. 2017, section 3.2.2, computed from all measurements at every report."""
    rule = MedianStopping(ONE, 1, 9, 3)
    search = rehearsal(rule)
    seen = []  # the curves of the trials before, as far as these went
    for curve in curves:
        trial, mine = search.start(), []
        for at, level in enumerate(rule.rungs[:-1]):
            assert trial.until == level
            mine.append(curve[at])
            search.report(trial, {"a": curve[at]})
            means = [sum(other[: at + 1]) / (at + 1) for other in seen if len(other) > at]
            stops = len(means) >= 5 and max(mine) < median(means)
            decision = search.finish(trial)
            assert decision == (Verdict.STOP if stops else Continue(rule.rungs[at + 1]))
            if stops:
                break
            search.launch(trial)
        seen.append(mine)
        if trial.state is State.RUNNING:
            search.advance(trial, {"a": curve[2]})
            assert trial.outcome is Outcome.COMPLETED
        assert rule.promote() is None


def test_median_lets_the_first_five_go_on_whatever_they_are():
    search = rehearsal(MedianStopping(ONE, 1, 9, 3))
    decisions = []
    for value in (5.0, 4.0, 3.0, 2.0, 1.0, 0.0):
        trial = search.start()
        search.report(trial, {"a": value})
        decisions.append(search.finish(trial))
    assert decisions == [Continue(3)] * 5 + [Verdict.STOP]


def test_median_puts_constraints_first():
    search = rehearsal(MedianStopping(BOUND, 1, 9, 3), BOUND)
    for value in range(6):
        search.advance(search.start(), {"a": float(value), "m": 0.0, "n": 0.0})
    broken, kept = search.start(), search.start()
    search.advance(broken, {"a": 99.0, "m": 9.0, "n": 0.0})
    search.advance(kept, {"a": 5.0, "m": 0.0, "n": 0.0})
    assert broken.outcome is Outcome.STOPPED
    assert kept.until == 3


def test_median_of_several_objectives_stops_by_dominance():
    search = rehearsal(MedianStopping(TWO, 1, 9, 3), TWO)
    for value in range(8):  # two fronts: eight on the first and the second
        search.advance(search.start(), {"a": value - value % 2, "b": float(value)})
    small, behind = search.start(), search.start()
    search.advance(small, {"a": -5.0, "b": -5.0})  # the worst accuracy of all, and the smallest
    search.advance(behind, {"a": -6.0, "b": 20.0})
    assert small.until == 3
    assert behind.outcome is Outcome.STOPPED


def test_rule_none_trains_everything_to_the_maximum():
    search = rehearsal(FullFidelity(ONE, 1, 9, 3))
    trial = search.start()
    assert trial.until == 9
    search.advance(trial, {"a": 0.0})
    assert trial.outcome is Outcome.COMPLETED

"""Successive halving and Hyperband: whole brackets against their papers, and no search that stands still."""

from collections import Counter, defaultdict
from math import nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nas import Outcome
from nas.fidelity import Hyperband, SuccessiveHalving
from nas.proposal import EXHAUSTED, WAIT
from nas.rehearsal import Rehearsal
from nas.strategies.random import RandomSearch
from nas.trial import State
from tests.nas.scripted import Line, Quartet, failure, search, value
from tests.nas.test_fidelity import BOTH, BOUND, ONE, SPACE, TWO, Reference, draw, rehearsal
from trainers import FailureKind

SHA = {"rule": "sha", "min": 1, "max": 9, "eta": 3}


def test_sha_of_nine_trains_the_three_best_longer_and_the_best_of_these_to_the_end():
    search = rehearsal(SuccessiveHalving(ONE, 1, 9, 3))
    first = [search.start() for _ in range(9)]
    assert {(trial.bracket, trial.until) for trial in first} == {(0, 1)}
    for trial in first[:-1]:
        search.advance(trial, {"a": float(trial.number)})
    assert search.state.rule.promote() is None  # the last may be the best of all
    search.advance(first[-1], {"a": 4.5})
    second = [search.start() for _ in range(3)]
    assert [(trial.number, trial.until) for trial in second] == [(7, 3), (6, 3), (5, 3)]
    assert (search.start().bracket, len(search.study)) == (1, 10)  # meanwhile another bracket begins
    for trial in second:
        search.advance(trial, {"a": -float(trial.number)})
    last = search.start()
    assert (last.number, last.until) == (5, 9)
    search.advance(last, {"a": 0.0})
    assert last.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("eta", "levels", "places"),
    [(3, (3, 27), 9), (2, (1, 16), 16), (2.5, (1, 6.25), 8), (3, (1, 100), 243), (3, (5, 5), 1)],
)
def test_a_bracket_of_sha_has_as_many_places_as_bring_one_to_the_maximum(eta, levels, places):
    rule = SuccessiveHalving(ONE, *levels, eta)
    search = rehearsal(rule)
    while not len(search.study) or search.study[len(search.study) - 1].bracket == 0:
        trial = search.start()
        search.advance(trial, {"a": 1.0})
    reached = Counter(level for trial in search.study.trials() if not trial.bracket for level in trial.rungs)
    for _ in range(1000):
        if reached[rule.rungs[-1]]:
            break
        search.advance(search.start(), {"a": 1.0})
        reached = Counter(level for trial in search.study.trials() if not trial.bracket for level in trial.rungs)
    counts = [reached[level] for level in rule.rungs]
    assert counts[0] == places
    assert counts[-1] == 1
    assert all(int(below / eta) == above for below, above in zip(counts, counts[1:], strict=False))


def test_brackets_of_hyperband_are_those_of_its_paper():
    """Li et al. 2018, table 1 (R = 81, eta = 3): n_i of each bracket, r_i from R eta^-s on."""
    rule = Hyperband(ONE, 1, 81, 3)
    search = rehearsal(rule)
    while len(search.study) < 81 + 34 + 15 + 8 + 5 or search.study.active() or rule.promote():
        search.advance(search.start(), {"a": 1.0})
    table = [dict.fromkeys(rule.rungs, 0) for _ in range(5)]
    for trial in search.study.trials():
        if trial.bracket < 5:
            for level in trial.rungs:
                table[trial.bracket][level] += 1
    assert [list(row.values()) for row in table] == [
        [81, 27, 9, 3, 1],
        [0, 34, 11, 3, 1],
        [0, 0, 15, 5, 1],
        [0, 0, 0, 8, 2],
        [0, 0, 0, 0, 5],
    ]


def test_hyperband_begins_anew_after_its_last_bracket():
    rule = Hyperband(ONE, 1, 9, 3)
    search = rehearsal(rule)
    for _ in range(60):
        search.advance(search.start(), {"a": 1.0})
    first = {trial.bracket: min(trial.rungs) for trial in reversed(search.study.trials())}
    assert [first[bracket] for bracket in sorted(first)][:4] == [1, 3, 9, 1]


@settings(max_examples=80, deadline=None)
@given(
    make=st.sampled_from([SuccessiveHalving, Hyperband]),
    objectives=st.sampled_from([ONE, TWO, BOUND, BOTH]),
    eta=st.sampled_from([2, 3, 2.5]),
    seed=st.integers(0, 2**32),
    trials=st.integers(1, 60),
    trouble=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_the_best_of_a_rung_go_on_when_nobody_is_under_way_to_it(make, objectives, eta, seed, trials, trouble):
    """Each promotion of a random search is looked at: when it came, whom it took, and how many there are in the end."""
    rng = np.random.default_rng(seed)
    rule = make(objectives, 1, 9, eta)
    search = Rehearsal(SPACE, objectives, rule, RandomSearch(SPACE, objectives), trials=trials)
    rungs = defaultdict(lambda: Reference(objectives, rule.rungs, eta))
    entered, promoted = Counter(), Counter()
    while True:
        running = search.study.running()
        if len(running) < 5 and (not running or rng.random() < 0.5):
            held = search.study.paused()
            trial = search.start()
            if trial is not None and trial.leg:
                bracket, level = trial.bracket, rule.rungs[rule.rungs.index(trial.until) - 1]
                others = [one for one in search.study.trials() if one.bracket == bracket and one is not trial]
                assert not [one for one in others if one.until == level and one.state in (State.RUNNING, State.WAITING)]
                there = {one.number for one in held if one.bracket == bracket and one.fidelity == level}
                best = next(n for n in rungs[bracket].order(level) if n in there)
                assert trial.number == best
                promoted[bracket, level] += 1
            if trial is not None:
                entered[trial.bracket, trial.until] += 1
            elif not running:
                break
        elif running:
            trial = running[rng.integers(len(running))]
            if rng.random() < trouble / 2:
                search.fail(trial, FailureKind.CRASHED)
                continue
            metrics = draw(rng, "mixed" if trouble else "report")
            rungs[trial.bracket].complete(trial.number, trial.until, metrics)
            search.advance(trial, metrics)
    assert not search.study.active()
    assert search.study.launched == trials
    for (bracket, level), count in entered.items():
        if level == rule.rungs[-1]:
            continue
        alive = [t for t in search.study.paused() if t.bracket == bracket and t.fidelity == level]
        expected = max(1, int(count / eta))
        assert promoted[bracket, level] == expected or (promoted[bracket, level] < expected and not alive)


def test_a_trial_that_fails_has_filled_its_place():
    search = rehearsal(SuccessiveHalving(ONE, 1, 9, 3))
    trials = [search.start() for _ in range(9)]
    kinds = [FailureKind.CRASHED, FailureKind.INFEASIBLE, FailureKind.ERROR, FailureKind.TIMED_OUT]
    for trial, kind in zip(trials, kinds, strict=False):
        search.fail(trial, kind)
    search.advance(trials[4], {"a": nan})
    assert trials[4].outcome is Outcome.DIVERGED
    for trial in trials[5:]:
        search.advance(trial, {"a": float(trial.number)})
    assert [search.start().number for _ in range(3)] == [8, 7, 6]  # three of nine places, by the best of four
    assert search.start().number == 9


def test_a_bracket_whose_trials_all_fail_holds_nothing_up():
    search = rehearsal(SuccessiveHalving(ONE, 1, 9, 3))
    for _ in range(9):
        search.fail(search.start(), FailureKind.CRASHED)
    trial = search.start()
    assert (trial.number, trial.bracket) == (9, 1)


def test_an_attempt_that_is_made_again_holds_its_rung():
    search = rehearsal(SuccessiveHalving(ONE, 1, 3, 3))
    trials = [search.start() for _ in range(3)]
    for trial in trials[:2]:
        search.advance(trial, {"a": 1.0})
    search.fail(trials[2], FailureKind.CRASHED, retry=True)
    assert search.state.rule.promote() is None
    assert search.state.rule.promote(final=True) is None
    search.launch(trials[2])
    search.advance(trials[2], {"a": 2.0})
    assert search.state.rule.promote() == (2, 3)


@pytest.mark.parametrize(("trials", "promoted"), [(1, 1), (2, 1), (5, 1), (7, 2), (8, 2)])
def test_a_rung_that_cannot_fill_is_decided_with_those_it_has(trials, promoted):
    search = Rehearsal(SPACE, ONE, SuccessiveHalving(ONE, 1, 9, 3), RandomSearch(SPACE, ONE), trials=trials)
    while (trial := search.start()) is not None:
        search.advance(trial, {"a": float(trial.number)})
    reached = Counter(level for trial in search.study.trials() for level in trial.rungs)
    assert reached == {1: trials, 3: promoted, 9: 1}
    assert search.study[trials - 1].outcome is Outcome.COMPLETED


def test_proposals_after_such_a_decision_begin_another_bracket():
    rule = SuccessiveHalving(ONE, 1, 9, 3)
    search = Rehearsal(SPACE, ONE, rule, RandomSearch(SPACE, ONE), trials=4)
    while (trial := search.start()) is not None:
        search.advance(trial, {"a": 1.0})
    again = SuccessiveHalving(ONE, 1, 9, 3)
    larger = Rehearsal(SPACE, ONE, again, RandomSearch(SPACE, ONE), trials=6)
    larger.replay(search.records)
    assert (larger.start().bracket, larger.start().bracket) == (1, 1)


def test_before_such_a_decision_they_fill_the_rung():
    search = rehearsal(SuccessiveHalving(ONE, 1, 9, 3))
    for _ in range(4):
        search.advance(search.start(), {"a": 1.0})
    assert search.state.rule.promote(final=True) == (0, 3)
    assert search.start().bracket == 0


class WaitsForEnds(RandomSearch):
    """Proposes two candidates, and two more only when these have ended."""

    def __init__(self, space, objectives):
        super().__init__(space, objectives)
        self.told, self.ends = set(), 0

    def ask(self, pending, rng):
        if len(self.told | {trial.number for trial in pending}) >= self.ends + 2:
            return WAIT
        return super().ask(pending, rng)

    def tell(self, trial, measurement, ended):
        self.told.add(trial.number)
        self.ends += ended is not None


@pytest.mark.parametrize("make", [SuccessiveHalving, Hyperband])
def test_a_strategy_that_waits_for_what_is_held_gets_a_decision(make):
    search = Rehearsal(SPACE, ONE, make(ONE, 1, 9, 3), WaitsForEnds(SPACE, ONE))
    for _ in range(4):
        trial = search.start()
        assert trial is not None
        search.advance(trial, {"a": float(trial.number)})
    assert search.study[1].outcome is Outcome.COMPLETED


class Quarter(RandomSearch):
    """Four candidates, then no more."""

    def ask(self, pending, rng):
        asked = super().ask(pending, rng)
        self.asked = getattr(self, "asked", 0) + 1
        return asked if self.asked <= 4 else EXHAUSTED


@pytest.mark.parametrize("rule", ["sha", "hyperband"])
def test_an_exhausted_space_is_trained_to_the_end(tmp_path, rule):
    ending, _ = search(
        tmp_path,
        lambda leg, launch: value(leg),
        devices=3,
        search={"trials": 50, "space": Quartet, "strategy": Quarter},
        fidelity={**SHA, "rule": rule},
    )
    assert ending.exit_code == 0
    assert ending.reason.startswith("exhausted")
    best = max(trial.proposal.candidate.architecture["x"] for trial in ending.study.trials())
    assert ending.study.best().proposal.candidate.architecture["x"] == best
    assert ending.study.highest() == 9


@pytest.mark.parametrize("rule", ["sha", "hyperband", "median"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_controller_with_trouble_launches_its_budget_and_comes_to_rest(tmp_path, rule, seed):
    rng = np.random.default_rng(seed)

    def outcome(leg, launch):
        if rng.random() < 0.25:
            return failure(str(rng.choice(["crashed", "error", "diverged", "timed_out", "infeasible", "node_lost"])))
        return value(leg)

    ending, _ = search(
        tmp_path,
        outcome,
        devices=4,
        seed=seed,
        search={"trials": 40, "space": Line, "max_same_errors": 100},
        fidelity={**SHA, "rule": rule},
    )
    assert (ending.exit_code, ending.study.launched) == (0, 40)
    assert ending.study.highest() == 9
    assert all(trial.outcome is not None for trial in ending.study.trials())

"""The contracts of a strategy and of a fidelity rule, as checks that their authors run; no test library is needed.

    for finding in run_strategy(lambda space, objectives: MyStrategy(space, objectives, population=10)):
        print(finding)

A check raises AssertionError where the contract is broken; whatever else a plug-in raises is a finding too. All checks
rehearse whole searches: the plug-in is asked and told as a controller would, live and on replay.
"""

import random
from collections.abc import Callable
from itertools import takewhile
from math import inf, nan
from typing import TypeAlias

import numpy as np
from numpy.random import Generator

from nas.event_log import Record
from nas.fidelity import AsynchronousHalving, Continue, Decision, FidelityRule, Verdict
from nas.objective import Direction, Objective, Objectives
from nas.proposal import AFTER_REPEATS, EXHAUSTED, WAIT, Proposal
from nas.rehearsal import Rehearsal
from nas.strategies import Strategy
from nas.strategies.random import RandomSearch
from nas.study import Study
from nas.trial import State, Trial
from nas.warm_start import hand_down
from search_spaces import Bound, CandidateSpace, Choice, Float, Integer, Repeat, SearchSpace, hyperparameter_domain
from search_spaces.conformance import Check, Finding, judge
from trainers import FailureKind, Fidelity, Measurement

StrategyMaker: TypeAlias = Callable[[CandidateSpace, Objectives], Strategy]
RuleMaker: TypeAlias = Callable[[Objectives, Fidelity, Fidelity, float], FidelityRule]

_STEPS = 150
_AT_ONCE = 4
_ENDS = (
    FailureKind.ERROR,
    FailureKind.CRASHED,
    FailureKind.TIMED_OUT,
    FailureKind.DIVERGED,
    FailureKind.OUT_OF_MEMORY,
    FailureKind.INFEASIBLE,
)


class _Varied(SearchSpace):
    decisions = {
        "depth": Integer(1, 3),
        "layer": Repeat("depth", {"width": Choice(8, 16, 32, ordered=True)}),
        "norm": Choice(None, "batch", "layer"),
        "momentum": Float(0.1, 0.9, when={"norm": "batch"}),
    }


class _Tiny(SearchSpace):
    decisions = {"a": Choice(0, 1), "b": Choice("x", "y")}


_VARIED = CandidateSpace(_Varied(), hyperparameter_domain({"rate": {"low": 1e-3, "high": 1e-1, "log": True}}))
_ONE = Objectives((Objective("accuracy", Direction.MAXIMIZE),))
_TWO = Objectives((*_ONE.objectives, Objective("size", Direction.MINIMIZE)), (Bound("memory", "<=", 0.8),))
_CASES = (_ONE, _TWO)


def strategy_checks(make: StrategyMaker) -> list[Check]:
    """All checks of a strategy; ``make`` is called anew for each search."""
    return _checks(_StrategySuite(make))


def rule_checks(make: RuleMaker) -> list[Check]:
    """All checks of a fidelity rule; ``make`` takes objectives, minimum, maximum and eta."""
    return _checks(_RuleSuite(make))


def run_strategy(make: StrategyMaker) -> list[Finding]:
    """Run all checks of a strategy; an empty list when it keeps the contract."""
    return _run(strategy_checks(make))


def run_rule(make: RuleMaker) -> list[Finding]:
    """Run all checks of a fidelity rule; an empty list when it keeps the contract."""
    return _run(rule_checks(make))


def _checks(suite: object) -> list[Check]:
    return [(name, getattr(suite, name)) for name in vars(type(suite)) if not name.startswith("_")]


def _run(checks: list[Check]) -> list[Finding]:
    return [finding for name, check in checks for finding in judge(name, check)]


# Rehearsed searches ---------------------------------------------------------------------------------------------------


def _play(search: Rehearsal, seed: int, steps: int = _STEPS, trouble: float = 0.35) -> Rehearsal:
    """Go on with a search: at each step a trial starts or one that runs gets on; a share of them meets ``trouble``."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        running = search.study.running()
        if len(running) < _AT_ONCE and (not running or rng.random() < 0.5):
            search.refuse(int(rng.random() < trouble / 4))
            if search.start() is None and not running:
                return search
        elif running:
            _advance(search, running[rng.integers(len(running))], rng, trouble)
    return search


def _advance(search: Rehearsal, trial: Trial, rng: Generator, trouble: float) -> None:
    if trial.until in trial.rungs:
        search.finish(trial)
        if trial.state is State.WAITING:
            search.launch(trial)
    elif rng.random() < trouble / 2:
        kind = _ENDS[rng.integers(len(_ENDS))]
        retry = kind is FailureKind.CRASHED and not trial.count(kind)
        search.fail(trial, kind, retry)
        if retry:
            search.launch(trial)
    else:
        search.report(trial, _metrics(rng, trouble / 2))


def _metrics(rng: Generator, trouble: float) -> dict[str, float]:
    metrics = {name: round(rng.random(), 2) for name in ("accuracy", "size", "memory")}
    if rng.random() < trouble:
        metrics[("accuracy", "size")[rng.integers(2)]] = (nan, inf, -inf)[rng.integers(3)]
    if rng.random() < trouble / 2:
        del metrics[("accuracy", "size", "memory")[rng.integers(3)]]
    return metrics


def _unhelped(search: Rehearsal) -> list[Record]:
    """The records before the first candidate that another than the strategy proposed, because it repeated itself."""
    return list(takewhile(lambda record: record.get("operator") != AFTER_REPEATS, search.records))


def _waits(search: Rehearsal) -> bool:
    return search.over is None and not search.study.running()


# Strategies -----------------------------------------------------------------------------------------------------------


class _StrategySuite:
    def __init__(self, make: StrategyMaker) -> None:
        self._make = make

    def proposals_are_valid(self) -> None:
        """Proposals are candidates of the space with an operator, their parents earlier trials.

        Make candidates by sample, mutate and crossover of the space; give trial.number as parents.
        """
        for objectives in _CASES:
            for trial in _play(self._search(objectives), 1).study.trials():
                proposal = trial.proposal
                _VARIED.check(proposal.candidate)
                assert proposal.operator, f"{trial} has no operator: say how its candidate was made"
                earlier = all(parent < trial.number for parent in proposal.parents)
                assert earlier, f"{trial} has parents {proposal.parents}: parents are earlier trials"
                source = proposal.start_from
                assert source is None or 0 <= source[0] < trial.number, f"{trial} starts from {source}: no such trial"

    def proposals_follow_the_generator_alone(self) -> None:
        """Equal results and generators give equal proposals; another seed gives others.

        Draw from rng alone, not from random or numpy.random.
        """
        before = random.getstate()
        first, second = (_play(self._search(_TWO), 2) for _ in range(2))
        assert first.records == second.records, "two searches of one seed and equal results propose differently"
        assert random.getstate() == before, "it draws from Python's global random state; draw from rng"
        other = _play(self._search(_TWO, seed=1), 2)
        assert _unhelped(other) != _unhelped(first), "it proposes the same whatever the seed; draw from rng"

    def asking_changes_nothing(self) -> None:
        """Asking twice gives the same answer: only what is told changes the state.

        Keep no state in the answering method; change it where you are told, in log order.
        """
        search = _play(self._search(_ONE), 3)
        strategy, pending = search.state.strategy, search.study.pending()
        asked = [strategy.ask(pending, np.random.default_rng(0)) for _ in range(2)]
        assert asked[0] == asked[1], (
            "asking twice with equal generators gives two answers; a resumed search tells again what was told, it does "
            "not ask again: keep what must be remembered in Proposal.notes, which comes back with every tell"
        )

    def telling_again_rebuilds_it(self) -> None:
        """What is told again after a kill rebuilds the state that there was.

        Make the state a fold over what is told; what must be remembered of a proposal goes into its notes.
        """
        for objectives in _CASES:
            live, again = _play(self._search(objectives), 4), self._search(objectives)
            again.replay(live.records)
            for search in (live, again):
                _play(search, 5, steps=60)
            assert again.records == live.records, "a strategy told everything again goes on differently"

    def trouble_is_survived(self) -> None:
        """Failures, NaN, missing metrics and infeasible candidates do not stop it.

        Allow for measurement None, metrics that lack a name, and values that are not finite.
        """
        for seed, objectives in enumerate(_CASES):
            search = _play(self._search(objectives), seed, trouble=1.0)
            assert not _waits(search), "it waits though nothing is pending: the search would end here"
            proposed = len(search.study)
            _play(search, seed, trouble=0.0)
            assert len(search.study) > proposed or search.over, "after many failures it proposes nothing any more"

    def nothing_told_is_survived(self) -> None:
        """It goes on proposing while no result has come.

        Sample at random until enough is told; WAIT only while something is pending.
        """
        search = self._search(_ONE)
        for _ in range(60):
            if search.start() is None:
                break
        assert not _waits(search), "it waits though nothing is pending: the search would end here"

    def repeats_are_survived(self) -> None:
        """In a small space repeats end it, and no candidate is trained twice.

        Answer EXHAUSTED where nothing is left; repeats are answered from the record.
        """
        space = CandidateSpace(_Tiny())
        search = Rehearsal(space, _ONE, AsynchronousHalving(_ONE, 1, 1, 3), self._make(space, _ONE))
        _play(search, 6, steps=40)
        accepted = search.study.accepted
        assert 1 <= accepted <= 4 + search.study.rejected, f"{accepted} of 4 candidates were accepted"
        keys = {trial.key for trial in search.study.trials() if trial.launches}
        assert len(keys) == search.study.launched, "a candidate was launched twice"

    def what_it_has_not_proposed_is_survived(self) -> None:
        """Known candidates that come first, and trials of an older study, are learnt from as its own are.

        Expect in tell() trials that ask() never proposed; those of an older study have numbers below 0.
        """
        rng = np.random.default_rng(8)
        for objectives in _CASES:
            older = _play(self._search(objectives), 9).study
            known = [_VARIED.sample(rng) for _ in range(3)]
            rule = AsynchronousHalving(objectives, 1, 9, 3)
            search = Rehearsal(_VARIED, objectives, rule, self._make(_VARIED, objectives), start=known)
            search.record(hand_down(older, objectives, "an older study"))
            _play(search, 10)
            assert [trial.proposal.candidate for trial in search.study.trials()][:3] == known
            assert not _waits(search), "after trials that it has not proposed it waits, and nothing is pending"
            inherited = len(search.study.inherited)
            for trial in search.study.trials():
                parents = trial.proposal.parents
                assert all(-inherited <= parent for parent in parents), f"{trial} has parents {parents}: no such trials"

    def answers_are_of_the_contract(self) -> None:
        """ask() answers a Proposal, WAIT or EXHAUSTED.

        Return nas.Proposal(candidate, ...), or one of nas.proposal's WAIT and EXHAUSTED.
        """
        search = _play(self._search(_ONE), 7)
        answer = search.state.strategy.ask(search.study.pending(), np.random.default_rng(1))
        legal = isinstance(answer, Proposal) or answer in (WAIT, EXHAUSTED)
        assert legal, f"ask() gave {answer!r}; it answers a Proposal, WAIT or EXHAUSTED"

    def _search(self, objectives: Objectives, seed: int = 0) -> Rehearsal:
        rule = AsynchronousHalving(objectives, 1, 9, 3)
        return Rehearsal(_VARIED, objectives, rule, self._make(_VARIED, objectives), seed)


# Fidelity rules -------------------------------------------------------------------------------------------------------


class _RuleSuite:
    def __init__(self, make: RuleMaker) -> None:
        self._make = make

    def rungs_increase_to_the_maximum(self) -> None:
        """Rungs increase strictly, from the minimum or above to the maximum.

        Make them of minimum, maximum and eta, the maximum last.
        """
        for minimum, maximum, eta in ((1, 27, 3.0), (0.1, 1.0, 2.5), (4, 4, 2.0), (3, 100, 4.0)):
            rungs = self._make(_ONE, minimum, maximum, eta).rungs
            assert rungs, f"no rungs from {minimum} to {maximum}"
            assert rungs[-1] == maximum, f"the last rung is {rungs[-1]}, must be the maximum {maximum}"
            assert list(rungs) == sorted(set(rungs)), f"rungs {rungs} do not increase strictly"
            assert rungs[0] >= minimum, f"the first rung is {rungs[0]}, below the minimum {minimum}"

    def an_empty_study_has_no_promotion(self) -> None:
        """Nothing is promoted before a trial was measured.

        Return None from promote() where no trial is held.
        """
        promotion = self._make(_ONE, 1, 27, 3.0).promote()
        assert promotion is None, f"promote() gave {promotion} before any trial"

    def decisions_are_legal(self) -> None:
        """Trials go on to a higher rung, and only those that are held are promoted.

        Check trial.fidelity and what was ended before a trial is named.
        """
        for objectives in _CASES:
            rule = _Watched(self._make(objectives, 1, 27, 3.0))
            search = self._search(objectives, rule)
            rule.study = search.study
            _play(search, 1)

    def asking_changes_nothing(self) -> None:
        """Asking twice gives the same answer: only what is told changes the state.

        Keep no state in the answering method; change it where you are told, in log order.
        """
        for objectives in _CASES:
            rule = self._make(objectives, 1, 27, 3.0)
            _play(self._search(objectives, rule), 3)
            for final in (False, True):
                first, second = rule.promote(final), rule.promote(final)
                assert first == second, f"promote() gave {first}, then {second}; it changes by what it is told only"

    def telling_again_rebuilds_it(self) -> None:
        """What is told again after a kill rebuilds the state that there was.

        Make the state a fold over what is told; what must be remembered of a proposal goes into its notes.
        """
        for objectives in _CASES:
            live, again = (self._search(objectives, self._make(objectives, 1, 27, 3.0)) for _ in range(2))
            _play(live, 4)
            again.replay(live.records)
            for search in (live, again):
                _play(search, 5, steps=60)
            assert again.records == live.records, "a rule told everything again decides differently"

    def trouble_is_survived(self) -> None:
        """Failures, NaN, missing metrics and infeasible candidates do not stop it.

        Allow for measurement None, metrics that lack a name, and values that are not finite.
        """
        for seed, objectives in enumerate(_CASES):
            search = self._search(objectives, self._make(objectives, 1, 27, 3.0))
            _play(search, seed, trouble=1.0)
            proposed = len(search.study)
            _play(search, seed, trouble=0.0)
            assert len(search.study) > proposed, "after many failures nothing starts any more"

    def the_last_proposal_is_survived(self) -> None:
        """When no proposal comes any more the rule still decides on all that it holds.

        Decide rungs that can no longer fill when promote(final=True) is asked.
        """
        for trials, objectives in enumerate(_CASES * 4, 1):
            rule = _Watched(self._make(objectives, 1, 27, 3.0))
            search = Rehearsal(_VARIED, objectives, rule, RandomSearch(_VARIED, objectives), trials=trials)
            rule.study = search.study
            _play(search, trials, steps=40 * trials)
            assert not search.study.active(), f"a search of {trials} trials does not come to rest"
            assert search.study.launched == trials, f"{search.study.launched} of {trials} trials were launched"

    def the_best_by_far_reaches_the_maximum(self) -> None:
        """A trial that is by far the best is trained to the maximum.

        Rank by the objectives' costs, the lowest first.
        """
        rule = self._make(_ONE, 1, 27, 3.0)
        search = self._search(_ONE, rule)
        for step in range(600):
            trial = search.study.running()[0] if search.study.running() else search.start()
            if trial is None or search.study[0].fidelity == rule.rungs[-1]:
                break
            search.advance(trial, {"accuracy": 1.0 if trial.number == 0 else -float(step)})
        reached = search.study[0].fidelity
        assert reached == rule.rungs[-1], f"the best of {len(search.study)} trials was trained to {reached} only"

    def _search(self, objectives: Objectives, rule: FidelityRule) -> Rehearsal:
        return Rehearsal(_VARIED, objectives, rule, RandomSearch(_VARIED, objectives))


class _Watched:
    """A rule whose answers are looked at; what it is told it is told."""

    def __init__(self, rule: FidelityRule) -> None:
        self._rule = rule
        self.rungs = rule.rungs
        self.proposed, self.observe, self.promoted, self.ended = rule.proposed, rule.observe, rule.promoted, rule.ended
        self.study: Study | None = None

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        bracket, until = self._rule.first(proposal)
        assert until in self.rungs, f"first() sends a new trial to {until}; rungs are {self.rungs}"
        return bracket, until

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        assert measurement.fidelity in trial.rungs, "observe() comes before on_report()"
        decision = self._rule.on_report(trial, measurement)
        if isinstance(decision, Continue):
            further = measurement.fidelity < decision.until <= self.rungs[-1]
            assert further, f"on_report() sends a trial from {measurement.fidelity} to {decision.until}"
        else:
            assert isinstance(decision, Verdict), f"on_report() gave {decision!r}"
        return decision

    def promote(self, final: bool = False) -> tuple[int, Fidelity] | None:
        promotion = self._rule.promote(final)
        if promotion is not None and self.study is not None:
            number, until = promotion
            trial = self.study[number]
            assert trial.state is State.PAUSED, f"promote() gave {trial}, which is {trial.state}, not paused"
            assert trial.fidelity < until <= self.rungs[-1], f"promote() sends {trial} from {trial.fidelity} to {until}"
        return promotion

"""Strategies: the shipped conformance suite, evolution's law of selection, and better than chance."""

from collections import Counter
from statistics import median

import numpy as np
import pytest

from nas import conformance
from nas.conformance import run_strategy
from nas.fidelity import AsynchronousHalving, FullFidelity
from nas.objective import Direction, Objective, Objectives
from nas.proposal import EXHAUSTED, WAIT, Proposal
from nas.rehearsal import Rehearsal
from nas.strategies.auto import Auto
from nas.strategies.evolution import RegularizedEvolution
from nas.strategies.predictor import Predictor
from nas.strategies.random import RandomSearch
from nas.trial import Outcome
from search_spaces import Bound, Candidate, CandidateSpace, Choice, SearchSpace
from trainers import FailureKind


class Grid(SearchSpace):
    """Twelve ordered decisions of ten values."""

    decisions = {f"d{at}": Choice(*range(10), ordered=True) for at in range(12)}


SPACE = CandidateSpace(Grid())
ONE = Objectives((Objective("a", Direction.MAXIMIZE),))
TWO = Objectives((Objective("a", Direction.MAXIMIZE), Objective("b", Direction.MAXIMIZE)))
BOUND = Objectives(ONE.objectives, (Bound("m", "<=", 3.0),))


@pytest.mark.parametrize(
    "make",
    [
        RandomSearch,
        RegularizedEvolution,
        lambda space, objectives: RegularizedEvolution(space, objectives, population=8, sample=3),
        lambda space, objectives: RegularizedEvolution(space, objectives, population=1, sample=1),
        Predictor,
        Auto,
    ],
    ids=["random", "evolution", "small-evolution", "population-of-one", "predictor", "auto"],
)
def test_conformance(make):
    assert run_strategy(make) == []


# The suite finds what breaks the contract.


class Base:
    def __init__(self, space, objectives):
        self.space, self.asked, self.told = space, 0, []

    def ask(self, pending, rng):
        self.asked += 1
        return self.answer(pending, rng)

    def tell(self, trial, measurement, ended):
        self.told.append(trial)


class Counting(Base):
    def answer(self, pending, rng):
        return Proposal(self.space.sample(np.random.default_rng([rng.integers(9), self.asked])))


class Seeded(Base):
    def answer(self, pending, rng):
        return Proposal(self.space.sample(np.random.default_rng(len(self.told))))


class Waiting(Base):
    def answer(self, pending, rng):
        return WAIT if len(self.told) > 20 else Proposal(self.space.sample(rng))


class Invalid(Base):
    def answer(self, pending, rng):
        sample = self.space.sample(rng)
        return Proposal(Candidate(sample.architecture))


class Trusting(Base):
    def answer(self, pending, rng):
        return Proposal(self.space.sample(rng))

    def tell(self, trial, measurement, ended):
        assert measurement.metrics["accuracy"] < 2


class Patient(Base):
    """Legal: waits for every result, and ends."""

    def answer(self, pending, rng):
        if pending:
            return WAIT
        return Proposal(self.space.sample(rng)) if len(self.told) < 60 else EXHAUSTED


@pytest.mark.parametrize(
    ("strategy", "check"),
    [
        (Counting, "asking_changes_nothing"),
        (Seeded, "proposals_follow_the_generator_alone"),
        (Waiting, "trouble_is_survived"),
        (Invalid, "proposals_are_valid"),
        (Trusting, "trouble_is_survived"),
    ],
)
def test_the_suite_finds_a_broken_strategy(strategy, check):
    assert check in [finding.check for finding in run_strategy(strategy)]


def test_the_suite_lets_a_patient_strategy_pass():
    assert run_strategy(Patient) == []


def test_the_suite_needs_no_test_library():
    assert not {"pytest", "hypothesis"} & set(vars(conformance))


# Regularised evolution


def evolution(objectives=ONE, rule=None, **arguments):
    rule = rule or FullFidelity(objectives, 1, 1, 3)
    strategy = RegularizedEvolution(SPACE, objectives, **arguments)
    return Rehearsal(SPACE, objectives, rule, strategy), strategy


def parents(search, strategy, draws=400):
    """How often each trial is the parent of a proposal."""
    pending = search.study.pending()
    proposals = [strategy.ask(pending, np.random.default_rng([3, at])) for at in range(draws)]
    return Counter(parent for proposal in proposals for parent in proposal.parents)


def measure(search, values):
    for value in values:
        metrics = value if isinstance(value, dict) else {"a": float(value)}
        search.advance(search.start(), metrics)


def test_the_first_population_is_sampled_and_those_under_way_count():
    search, _ = evolution(population=5, sample=2)
    first = search.start()
    search.advance(first, {"a": 1.0})
    trials = [search.start() for _ in range(6)]
    assert [trial.proposal.operator for trial in trials] == ["sample"] * 4 + ["mutate"] * 2


def test_a_child_differs_from_its_parent_in_one_decision():
    search, _ = evolution(population=4, sample=2)
    measure(search, range(30))
    children = [trial.proposal for trial in search.study.trials() if trial.proposal.operator == "mutate"]
    assert len(children) == len(search.study) - 4
    for child in children:
        (parent,) = child.parents
        before = search.study[parent].proposal.candidate.architecture
        assert sum(before[name] != child.candidate.architecture[name] for name in before) == 1


def test_the_oldest_dies_even_if_it_is_the_best():
    search, strategy = evolution(population=4, sample=4)
    measure(search, [100, 1, 2, 3])
    assert set(parents(search, strategy)) == {0}  # the sample is the whole population: its best is the parent
    measure(search, [0])
    assert set(parents(search, strategy)) == {3}
    measure(search, [0, 0, 0])
    assert set(parents(search, strategy)) == {4}  # all equal: the oldest


def test_the_parent_is_the_best_of_a_uniform_sample_without_replacement():
    population, sample = 6, 3
    search, strategy = evolution(population=population, sample=sample)
    measure(search, range(population))
    counts = parents(search, strategy, draws=4000)
    # P(best of 3 of 6 has rank r) is C(r, 2) / C(6, 3) with r better than r others.
    expected = {number: number * (number - 1) / 2 / 20 for number in range(population)}
    for number, share in expected.items():
        assert counts[number] / 4000 == pytest.approx(share, abs=0.03)


def test_a_trial_that_is_measured_again_keeps_its_age():
    rule = AsynchronousHalving(ONE, 1, 9, 2)
    search, strategy = evolution(rule=rule, population=4, sample=4)
    trials = [search.start() for _ in range(4)]
    for trial, value in zip(trials, (9, 1, 2, 3), strict=True):
        search.advance(trial, {"a": float(value)})
    promoted = search.start()
    assert (promoted.number, promoted.until) == (0, 2)
    search.advance(promoted, {"a": 9.0})
    assert set(parents(search, strategy)) == {0}
    other = search.start()
    assert (other.number, other.until) == (3, 2)
    fresh = search.start()
    search.advance(fresh, {"a": 0.0})
    assert 0 not in parents(search, strategy)


def test_the_dead_do_not_come_back_when_a_higher_rung_measures_them():
    rule = AsynchronousHalving(ONE, 1, 9, 2)
    search, strategy = evolution(rule=rule, population=3, sample=3)
    trials = [search.start() for _ in range(6)]
    search.advance(trials[0], {"a": 9.0})
    for trial in trials[1:]:
        search.advance(trial, {"a": float(trial.number)})  # trials 3, 4, 5 are the population now
    promoted = search.start()
    assert promoted.number == 0
    search.advance(promoted, {"a": 9.0})
    assert set(parents(search, strategy)) <= {3, 4, 5}


def test_a_higher_rung_outranks_a_lower_one_and_constraints_outrank_both():
    rule = AsynchronousHalving(BOUND, 1, 9, 2)
    search, strategy = evolution(BOUND, rule, population=4, sample=4)
    trials = [search.start() for _ in range(4)]
    for trial, metrics in zip(trials, [(5, 9), (2, 0), (1, 0), (0, 0)], strict=True):
        search.advance(trial, {"a": float(metrics[0]), "m": float(metrics[1])})
    assert set(parents(search, strategy)) == {1}
    promoted = search.start()
    assert promoted.number == 1
    search.advance(promoted, {"a": 0.0, "m": 0.0})
    assert set(parents(search, strategy)) == {1}  # worse by its number, but at fidelity 2


def test_of_several_objectives_the_parent_is_any_that_is_not_dominated_in_its_sample():
    search, strategy = evolution(TWO, population=6, sample=6)
    measure(search, [{"a": float(a), "b": float(b)} for a, b in [(0, 0), (1, 1), (3, 0), (0, 3), (2, 2), (1, 0)]])
    assert set(parents(search, strategy)) == {2, 3, 4}  # the ends, and the one between


@pytest.mark.parametrize("kind", [FailureKind.ERROR, FailureKind.CRASHED, FailureKind.DIVERGED, FailureKind.INFEASIBLE])
def test_what_fails_is_never_a_parent(kind):
    search, strategy = evolution(rule=AsynchronousHalving(ONE, 1, 9, 2), population=3, sample=3)
    trials = [search.start() for _ in range(4)]
    search.fail(trials[0], kind)
    search.report(trials[1], {"a": 9.0})
    search.fail(trials[1], kind)
    for trial in trials[2:]:
        search.advance(trial, {"a": 1.0})
    measure(search, [0])
    assert not {0, 1} & set(parents(search, strategy))


def test_a_duplicate_enters_the_population_with_the_answer_of_its_original():
    space = CandidateSpace(Pair())
    strategy = RegularizedEvolution(space, ONE, population=2, sample=2)
    search = Rehearsal(space, ONE, FullFidelity(ONE, 1, 1, 3), strategy)
    first = search.start()
    while not search.study.duplicates:
        trial = search.start()
        if trial is None:
            break
        search.advance(trial, {"a": 1.0})
    search.advance(first, {"a": 2.0})
    duplicates = [trial for trial in search.study.trials() if trial.duplicate_of is not None]
    assert duplicates
    assert all(trial.outcome in (Outcome.COMPLETED, Outcome.STOPPED) for trial in duplicates)


class Pair(SearchSpace):
    """Two architectures."""

    decisions = {"x": Choice(0, 1)}


@pytest.mark.parametrize(("population", "sample"), [(3, 4), (3, 0), (0, 0)])
def test_an_impossible_sample_is_refused(population, sample):
    with pytest.raises(ValueError, match=r"strategy\.sample"):
        RegularizedEvolution(SPACE, ONE, population=population, sample=sample)


def test_evolution_finds_better_than_random_search_on_a_smooth_problem():
    def best(make, seed):
        search = Rehearsal(SPACE, ONE, FullFidelity(ONE, 1, 1, 3), make(SPACE, ONE), seed)
        for _ in range(150):
            trial = search.start()
            values = trial.proposal.candidate.architecture.values()
            search.advance(trial, {"a": -sum((value - 6) ** 2 for value in values) / 12})
        return max(trial.metrics["a"] for trial in search.study.trials() if trial.rungs)

    evolved = [best(lambda *of: RegularizedEvolution(*of, population=20, sample=6), seed) for seed in range(5)]
    drawn = [best(RandomSearch, seed) for seed in range(5)]
    assert median(evolved) > median(drawn) + 2
    assert min(evolved) > max(drawn)

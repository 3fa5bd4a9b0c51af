"""Strategies by Optuna's samplers: the conformance suite, better than chance, and what the samplers are shown."""

import tracemalloc
from collections import Counter
from math import log10
from statistics import median
from time import perf_counter
from typing import ClassVar

import numpy as np
import pytest
from optuna.samplers import BaseSampler

from nas.conformance import run_strategy
from nas.fidelity import AsynchronousHalving, FullFidelity
from nas.objective import Direction, Objective, Objectives
from nas.pareto import hypervolume
from nas.proposal import Proposal
from nas.rehearsal import Rehearsal
from nas.strategies import STRATEGIES
from nas.strategies.gp import GaussianProcess
from nas.strategies.optuna_parameters import Parameters
from nas.strategies.optuna_sampler import Model, OptunaStrategy
from nas.strategies.random import RandomSearch
from nas.strategies.results import Result, Results, comparable_costs, constraint_excess
from nas.strategies.tpe import TreeParzenEstimator
from nas.trial import Outcome, Trial
from search_spaces import (
    Architecture,
    Bound,
    Candidate,
    CandidateSpace,
    Cell,
    Choice,
    Float,
    Integer,
    Repeat,
    SearchSpace,
    hyperparameter_domain,
)
from trainers import FailureKind, Measurement


class Smooth(SearchSpace):
    """Decisions of every kind, all ordered, best in the middle."""

    decisions = {
        "a": Choice(16, 32, 64, 128, 256, 512, 1024, ordered=True),
        "b": Integer(0, 40, step=2),
        "c": Integer(1, 100, log=True),
        "d": Float(1e-4, 1.0, log=True),
        "e": Choice(*(step / 10 for step in range(-10, 11)), ordered=True),
    }

    @staticmethod
    def value(values):
        """0 at the best, about -0.1 a decision at random."""
        shares = (
            Smooth.decisions["a"].index(values["a"]) / 6,
            values["b"] / 40,
            log10(values["c"]) / 2,
            log10(values["d"]) / 4 + 1,
            (values["e"] + 1) / 2,
        )
        return -sum((share - 0.6) ** 2 for share in shares)


class Conditional(SearchSpace):
    """Blocks of a count of their own, and a rate that only one operation has."""

    decisions = {
        "depth": Integer(1, 4),
        "layer": Repeat(
            "depth",
            {
                "width": Choice(8, 16, 32, 64, ordered=True),
                "operation": Choice("a", None, ("c", 1)),
                "rate": Float(1e-3, 1.0, log=True, when={"operation": ("c", 1)}),
            },
        ),
    }

    @staticmethod
    def value(values):
        """12 at most: four layers of 32, each with ("c", 1) at a rate near 0.03."""
        total = 0.0
        for layer in range(values["depth"]):
            total += {8: 0, 16: 1, 32: 2, 64: 1}[values[f"layer.{layer}.width"]]
            rate = values.get(f"layer.{layer}.rate")
            total += 0.0 if rate is None else 1 - abs(log10(rate) + 1.5)
        return total


class Small(SearchSpace):
    decisions = {"x": Choice(*"abc"), "y": Choice(1, True, 1.0), "z": Choice(0, 1)}


ONE = Objectives((Objective("a", Direction.MAXIMIZE),))
TWO = Objectives((Objective("a", Direction.MAXIMIZE), Objective("b", Direction.MINIMIZE)))
BOUND = Objectives(ONE.objectives, (Bound("m", "<=", 3.0), Bound("n", ">=", 1.0)))
SMOOTH = CandidateSpace(Smooth())
CONDITIONAL = CandidateSpace(Conditional(), hyperparameter_domain({"lr": {"low": 1e-3, "high": 1e-1, "log": True}}))
SLOW = pytest.mark.slow
BOTH = pytest.mark.parametrize("make", [TreeParzenEstimator, GaussianProcess], ids=["tpe", "gp"])


def rehearsal(make, space=SMOOTH, objectives=ONE, rule=None, seed=0):
    return Rehearsal(space, objectives, rule or FullFidelity(objectives, 1, 1, 3), make(space, objectives), seed)


def run(search, trials, measure):
    for _ in range(trials):
        trial = search.start()
        search.advance(trial, measure(trial.proposal.candidate.architecture))
    return search


def best(make, space, trials, seed):
    search = rehearsal(make, space, seed=seed)
    run(search, trials, lambda values: {"a": type(space.space).value(values)})
    return max(trial.metrics["a"] for trial in search.study.trials())


@pytest.mark.parametrize(
    "make",
    [TreeParzenEstimator, lambda space, objectives: GaussianProcess(space, objectives, startup=48)],
    ids=["tpe", "gp"],
)
def test_conformance(make):
    assert run_strategy(make) == []


def test_both_have_a_name():
    assert STRATEGIES.load("tpe") is TreeParzenEstimator
    assert STRATEGIES.load("gp") is GaussianProcess


def test_a_model_needs_a_first_result():
    with pytest.raises(ValueError, match=r"strategy\.startup = 0"):
        TreeParzenEstimator(SMOOTH, ONE, startup=0)


# Better than chance ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "trials"), [(TreeParzenEstimator, 60), pytest.param(GaussianProcess, 16, marks=SLOW)], ids=["tpe", "gp"]
)
def test_it_beats_random_search_on_a_smooth_problem(make, trials):
    seeds = range(5 if make is TreeParzenEstimator else 3)  # a fit of `gp` takes half a second
    modelled = [best(make, SMOOTH, trials, seed) for seed in seeds]
    drawn = [best(RandomSearch, SMOOTH, trials, seed) for seed in seeds]
    assert -median(modelled) < -median(drawn) / 2
    assert min(modelled) > median(drawn)


@pytest.mark.parametrize(
    ("make", "trials"), [(TreeParzenEstimator, 80), pytest.param(GaussianProcess, 18, marks=SLOW)], ids=["tpe", "gp"]
)
def test_it_beats_random_search_where_decisions_come_and_go(make, trials):
    seeds = range(5 if make is TreeParzenEstimator else 2)
    modelled = [best(make, CONDITIONAL, trials, seed) for seed in seeds]
    drawn = [best(RandomSearch, CONDITIONAL, trials, seed) for seed in seeds]
    assert median(modelled) > median(drawn) + (1 if make is TreeParzenEstimator else 0.5)
    assert min(modelled) > median(drawn)


@pytest.mark.parametrize(
    ("make", "trials"), [(TreeParzenEstimator, 60), pytest.param(GaussianProcess, 16, marks=SLOW)], ids=["tpe", "gp"]
)
def test_it_covers_more_of_two_objectives_than_random_search(make, trials):
    def measure(values):
        return {"a": Smooth.value(values), "b": (values["e"] - 1) ** 2 + values["b"] / 40}

    def volume(make, seed):
        search = run(rehearsal(make, objectives=TWO, seed=seed), trials, measure)
        return hypervolume([TWO.costs(trial.metrics) for trial in search.study.trials()], (1.0, 2.0))

    modelled = [volume(make, seed) for seed in range(2)]
    drawn = [volume(RandomSearch, seed) for seed in range(2)]
    assert median(modelled) > median(drawn) + 0.05


@pytest.mark.parametrize(("make", "trials"), [(TreeParzenEstimator, 30), (GaussianProcess, 16)], ids=["tpe", "gp"])
def test_it_learns_to_keep_constraints(make, trials):
    def measure(values):
        return {"a": float(values["b"]), "m": values["b"] / 5, "n": 2.0 * values["e"]}

    search = run(rehearsal(make, objectives=BOUND), trials, measure)
    kept = [not BOUND.violations(trial.metrics) for trial in search.study.trials()]
    assert sum(kept[:10]) < 5  # at random 0.1: b up to 15 of 40 and e above 0.5 of -1 to 1
    assert sum(kept[10:]) > (trials - 10) / 3


# State ----------------------------------------------------------------------------------------------------------------


@BOTH
def test_a_resumed_search_proposes_what_the_unbroken_one_does(make):
    rule = AsynchronousHalving(TWO, 1, 9, 3)
    live = rehearsal(make, CONDITIONAL, TWO, rule)
    for _ in range(24):
        trial = live.start()
        live.advance(trial, {"a": Conditional.value(trial.proposal.candidate.architecture), "b": 1.0})
    for kind in (FailureKind.ERROR, FailureKind.DIVERGED):
        live.fail(live.start(), kind)
    live.start()
    again = rehearsal(make, CONDITIONAL, TWO, AsynchronousHalving(TWO, 1, 9, 3))
    again.replay(live.records)
    asked = [
        search.state.strategy.ask(search.study.pending(), np.random.default_rng([0, 99])) for search in (live, again)
    ]
    assert asked[0] == asked[1]
    assert asked[0].operator == ("tpe" if make is TreeParzenEstimator else "gp")
    assert asked[0].fitted_on is not None


@BOTH
def test_what_is_under_way_is_not_proposed_again(make):
    search = rehearsal(make, CandidateSpace(Small()))
    run(search, 10, lambda values: {"a": float(values["z"])})
    tried = [trial.proposal.candidate for trial in search.study.trials() if trial.duplicate_of is None]
    for _ in range(4):
        tried.append(search.start().proposal.candidate)
    assert len(set(tried)) == 14
    asked = [search.state.strategy.ask(search.study.pending(), np.random.default_rng(at)).candidate for at in range(10)]
    assert not set(asked) & set(tried)


@BOTH
def test_a_small_space_is_tried_to_the_end(make):
    search = rehearsal(make, CandidateSpace(Small()))
    run(search, 18, lambda values: {"a": float(values["z"])})
    assert search.study.accepted == 18
    assert search.study.duplicates == 0


class Symmetric(SearchSpace):
    """The order of the two does not matter."""

    decisions = {"x": Choice(*range(20)), "y": Choice(*range(20))}

    def canonical(self, architecture):
        return Architecture(dict(zip("xy", sorted(architecture.values()), strict=True)))


def test_repeats_in_a_row_are_followed_by_random_candidates():
    search = rehearsal(TreeParzenEstimator, CandidateSpace(Symmetric()))
    run(search, 150, lambda values: {"a": -float(abs(values["x"] - 7) + abs(values["y"] - 12))})
    trials = search.study.trials()
    in_a_row = 0
    for trial in trials[10:]:
        if in_a_row >= 3:
            assert trial.proposal.operator == "sample-after-repeats"
        in_a_row = in_a_row + 1 if trial.duplicate_of is not None else 0
    assert search.study.accepted == 150


# What a sampler is shown ----------------------------------------------------------------------------------------------


def told(results, number, costs, fidelity=1, ended=None, **metrics):
    """Tell of a trial whose candidate has its number."""
    candidate = Candidate(Architecture({"n": number}))
    measured = None if costs is None else Measurement(fidelity, {"a": -costs, **metrics}, 1.0)
    trial = Trial(number, Proposal(candidate), "", 0, fidelity, metrics)
    results.tell(trial, measured, ended)


def test_a_higher_rung_outranks_a_lower_one_and_failures_are_the_worst():
    results = Results(ONE)
    for number, (cost, fidelity) in enumerate([(1.0, 1), (2.0, 1), (5.0, 3), (7.0, 3), (6.0, 9)]):
        told(results, number, cost, fidelity)
    told(results, 5, None, ended=Outcome.INFEASIBLE)
    told(results, 6, 0.5, ended=Outcome.DIVERGED)
    window = results.window(10)
    costs = dict(
        zip([one.candidate.architecture["n"] for one in window], comparable_costs(window, 1)[:, 0], strict=True)
    )
    # The best of fidelity 3 comes to 6, the worst above it; the best of fidelity 1 to 8, the worst above it.
    assert costs == {0: 8.0, 1: 9.0, 2: 6.0, 3: 8.0, 4: 6.0, 5: 9.0, 6: 9.0}


def test_a_trial_counts_once_by_its_highest_rung():
    results = Results(ONE)
    told(results, 0, 3.0, fidelity=1)
    told(results, 0, 2.0, fidelity=3)
    told(results, 0, 3.0, fidelity=1, ended=Outcome.STOPPED)
    assert [(one.costs, one.fidelity) for one in results.window(10)] == [((2.0,), 3)]
    assert (results.count, results.telling) == (1, 1)


def test_what_a_constraint_is_exceeded_by():
    results = Results(BOUND)
    told(results, 0, 1.0, m=5.0, n=4.0)
    told(results, 1, None, ended=Outcome.INFEASIBLE, m=9.0)
    told(results, 2, 1.0, m=float("nan"), n=0.0)
    assert constraint_excess(results.window(10), 2).tolist() == [[2.0, -3.0], [6.0, 1.0], [6.0, 1.0]]


def test_of_many_results_the_best_and_the_newest_stay():
    results = Results(ONE)
    costs = np.random.default_rng(0).permutation(3_000).astype(float)
    for number, cost in enumerate(costs.tolist()):
        told(results, number, cost)
    kept = [one.candidate.architecture["n"] for one in results.window(200)]
    assert len(kept) == 200
    assert kept == sorted(kept)
    assert set(np.argsort(costs)[:50].tolist()) <= set(kept)
    assert set(range(2_860, 3_000)) <= set(kept)
    assert results.count == 3_000


def test_results_are_of_bounded_number():
    results = Results(TWO)
    for number in range(2_000):
        told(results, number, float(number % 97), b=float(number % 89))
    assert len(results.window(10**9)) <= 600


class Same(BaseSampler):
    """Suggests the first option of each decision, and keeps how often each candidate was shown it."""

    shown: ClassVar[list[Counter]] = []

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        self.shown.append(Counter(tuple(one.params.values()) for one in study.get_trials()))
        return {}

    def sample_independent(self, study, trial, param_name, param_distribution):
        return param_distribution.choices[0]


class Stubborn(OptunaStrategy):
    def model(self, results):
        return Model("same", lambda seed: Same(), self.parameters.point, results=16, pending=4, again=1 / 3)


def stubborn(space, start=()):
    return Rehearsal(space, ONE, FullFidelity(ONE, 1, 1, 3), Stubborn(space, ONE, startup=1), start=start)


def test_what_a_sampler_suggests_again_counts_once_more_from_then_on():
    first = Candidate(Architecture({"x": "a", "y": 1, "z": 0}))
    live = stubborn(CandidateSpace(Small()), start=[first])
    live.advance(live.start(), {"a": 1.0})
    Same.shown.clear()
    for _ in range(3):
        trial = live.start()
        assert trial.proposal.notes == {"again": [0, 0]}
        assert trial.proposal.candidate != first
        live.advance(trial, {"a": 0.0})
    assert [shown[0, 0, 0] for shown in Same.shown] == [1, 2, 3, 4, 5, 6]
    assert [shown.total() for shown in Same.shown] == [1, 2, 4, 5, 7, 8]
    waiting = live.start()
    again = stubborn(CandidateSpace(Small()))
    again.replay(live.records)
    for search in (live, again):
        Same.shown.clear()
        search.state.strategy.ask([waiting], np.random.default_rng(0))
        assert Same.shown[0][0, 0, 0] == 6  # what is under way has noted it too


def test_the_newest_repeats_are_those_of_the_newest_proposals_whoever_is_told_first():
    space = CandidateSpace(Small())
    orders = [0, 1, 2, 3], [0, 3, 1, 2]
    shown = []
    for order in orders:
        strategy, rng = Stubborn(space, ONE, startup=1), np.random.default_rng(0)
        made = [space.mutate(space.sample(rng), rng) for _ in order]
        for number in order:
            notes = {"again": [number - 1] * 3} if number else None
            trial = Trial(number, Proposal(made[number], notes=notes), "", 0, 1, {})
            strategy.tell(trial, Measurement(1, {"a": 1.0}, 1.0), Outcome.COMPLETED)
        Same.shown.clear()
        strategy.ask([], rng)
        shown.append(Same.shown[0])
    assert shown[0] == shown[1]
    assert shown[0].total() == 4 + 5


def test_repeats_count_again_in_densities_over_categories_alone():
    assert TreeParzenEstimator(CandidateSpace(Grid()), ONE).model(50).again > 0
    assert TreeParzenEstimator(SMOOTH, ONE).model(50).again == 0
    assert TreeParzenEstimator(CONDITIONAL, ONE).model(50).again == 0
    assert GaussianProcess(CandidateSpace(Grid()), ONE).model(50).again == 0


@pytest.mark.parametrize("notes", [{"again": 0}, {"again": [[0], None, "0"]}, ["again"], 3])
def test_notes_of_another_form_as_of_another_version_or_strategy_count_nothing(notes):
    space = CandidateSpace(Small())
    strategy, rng = Stubborn(space, ONE, startup=1), np.random.default_rng(0)
    trial = Trial(0, Proposal(space.sample(rng), notes=notes), "", 0, 1, {})
    strategy.tell(trial, Measurement(1, {"a": 1.0}, 1.0), Outcome.COMPLETED)
    Same.shown.clear()
    strategy.ask([], rng)
    assert Same.shown[0].total() == 1


def test_of_repeats_the_newest_count_a_third_of_what_is_shown():
    search = stubborn(CandidateSpace(Symmetric()), start=[Candidate(Architecture({"x": 0, "y": 0}))])
    run(search, 60, lambda values: {"a": -float(values["x"] + values["y"])})
    Same.shown.clear()
    search.start()
    assert Same.shown[0][0, 0] == 1 + 5
    assert Same.shown[0].total() == 16


class Grid(SearchSpace):
    """Few enough candidates that a sampler mostly suggests what was tried."""

    decisions = {f"d{at}": Choice(*"abcde") for at in range(6)}

    @staticmethod
    def value(values):
        return float(sum("abcde".index(value) for value in values.values()))


@pytest.mark.clock
@pytest.mark.parametrize("space", [CONDITIONAL, CandidateSpace(Grid())], ids=lambda space: space.space.name)
@BOTH
def test_after_5000_trials_an_answer_is_quick_and_says_what_it_was_fitted_to(make, space):
    strategy = make(space, ONE)
    rng = np.random.default_rng(0)
    candidates = [space.sample(rng) for _ in range(5_000)]
    for number, candidate in enumerate(candidates):
        measurement = Measurement(1, {"a": type(space.space).value(candidate.architecture)}, 1.0)
        notes = {"again": [int(rng.integers(max(1, number)))]}
        strategy.tell(Trial(number, Proposal(candidate, notes=notes), "", 0, 1, {}), measurement, Outcome.COMPLETED)
    seconds = []
    for at in range(15):
        began = perf_counter()
        proposal = strategy.ask([], np.random.default_rng(at))
        seconds.append(perf_counter() - began)
    assert proposal.operator == "tpe"
    assert proposal.notes["of"] == len(set(candidates))
    assert 66 <= proposal.notes["results"] <= 400
    assert proposal.fitted_on == 4_999
    assert median(seconds) < 0.02


def test_every_candidate_becomes_parameters_of_its_active_decisions():
    parameters = Parameters(CONDITIONAL)
    assert parameters.conditional
    assert parameters.count == 1 + 4 * 3 + 1
    rng = np.random.default_rng(0)
    for _ in range(50):
        candidate = CONDITIONAL.sample(rng)
        values, distributions = parameters.point(candidate)
        active = {*candidate.architecture, *(f"hyperparameters.{name}" for name in candidate.hyperparameters)}
        assert set(values) == set(distributions) == active
        assert parameters.suggest(_Given(values), rng) == candidate


class _Given:
    """Suggests what it is given, as a trial of Optuna's would."""

    def __init__(self, values):
        self._values = values

    def _suggest(self, name, *_, **__):
        return self._values[name]

    suggest_int = suggest_float = suggest_categorical = _suggest


class Huge(SearchSpace):
    decisions = {
        "n": Integer(-(2**63), 2**63 - 1),
        "m": Integer(1, 2**63 - 1, log=True),
        "o": Choice(*range(50_000), ordered=True),
        "u": Choice(*map(str, range(50_000))),
        "s": Integer(0, 10**6, step=7),
    }


def test_of_many_options_a_parameter_is_a_share():
    space = CandidateSpace(Huge())
    parameters, rng = Parameters(space), np.random.default_rng(0)
    for _ in range(30):
        candidate = space.sample(rng)
        values, distributions = parameters.point(candidate)
        assert all(map((0.0).__le__, values.values()))
        assert all(distribution.low == 0 and distribution.high == 1 for distribution in distributions.values())
        back = parameters.suggest(_Given(values), rng).architecture
        exact = candidate.architecture
        assert [back[name] for name in "ous"] == [exact[name] for name in "ous"]
        assert back["n"] == pytest.approx(exact["n"], abs=2**13)  # a float tells 2^53 shares apart
        assert back["m"] == pytest.approx(exact["m"], rel=1e-12)
    for end in (0.0, 1.0):
        space.check(parameters.suggest(_Given(dict.fromkeys(Huge.decisions, end)), rng))


@pytest.mark.parametrize(("make", "trials"), [(TreeParzenEstimator, 30), (GaussianProcess, 13)], ids=["tpe", "gp"])
def test_huge_ranges_are_searched_within_memory(make, trials):
    search = rehearsal(make, CandidateSpace(Huge()))
    tracemalloc.start()
    run(search, trials, lambda values: {"a": -abs(values["n"] / 2**63 - 0.3)})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert search.study[trials - 1].proposal.operator == ("tpe" if make is TreeParzenEstimator else "gp")
    assert most < 100 * 2**20


EXTREMES = [
    {"x": Integer(2**60, 2**60 + 900)},
    {"x": Integer(2**63 - 101, 2**63 - 1)},
    {"x": Integer(-(2**63), -(2**63) + 500, step=7)},
    {"x": Integer(2**60, 2**60 + 900, log=True)},
    {"x": Float(0.0, 1.0), "b": Integer(2**50, 2**50 + 900, log=True)},
    {"x": Float(0.0, 1.0), "b": Float(0.0, 5e-324)},
    {"x": Float(0.0, 1.0), "b": Float(1e-310, 2e-310)},
    {"x": Float(5e-324, 1.7e308, log=True)},
]


@pytest.mark.parametrize("decisions", EXTREMES, ids=str)
@pytest.mark.parametrize(("make", "trials"), [(TreeParzenEstimator, 40), (GaussianProcess, 14)], ids=["tpe", "gp"])
def test_at_the_ends_of_numbers_suggestions_stay_in_range(make, trials, decisions):
    space = CandidateSpace(type("Extreme", (SearchSpace,), {"decisions": decisions})())
    search = rehearsal(make, space)
    run(search, trials, lambda values: {"a": (hash(values["x"]) % 997) / 997})
    for trial in search.study.trials():
        space.check(trial.proposal.candidate)
    parameters, rng = Parameters(space), np.random.default_rng(0)
    values = space.sample(rng)
    assert parameters.suggest(_Given(parameters.point(values)[0]), rng) == values


class Celled(SearchSpace):
    decisions = {"cell": Cell(6, ("a", "b"), inputs=(0, 5), edges=(2, 5))}


def test_suggestions_keep_the_limit_on_edges():
    search = rehearsal(TreeParzenEstimator, CandidateSpace(Celled()))
    cell = Celled.decisions["cell"]
    run(search, 40, lambda values: {"a": float(len(cell.graph(values, "cell").edges))})
    for trial in search.study.trials():
        Celled().check(trial.proposal.candidate.architecture)
    assert max(trial.metrics["a"] for trial in search.study.trials()) == 5


def test_options_that_python_calls_equal_stay_apart():
    parameters = Parameters(CandidateSpace(Small()))
    points = [parameters.point(Candidate(Architecture({"x": "a", "y": one, "z": 0})))[0]["y"] for one in (1, True, 1.0)]
    assert points == [0, 1, 2]


def test_a_result_without_costs_tells_only_of_constraints():
    assert Result(0, None, None, (None, 1.0), 0).tells
    assert not Result(0, None, None, (None,), 0).tells

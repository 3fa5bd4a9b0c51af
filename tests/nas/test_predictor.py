"""Guided Bayesian optimisation: constraints, failures, older studies, ends; and `auto`, which builds on it."""

from statistics import mean, median
from time import perf_counter

import numpy as np
import pytest
from scipy.special import ndtri

from nas.fidelity import FullFidelity
from nas.objective import Direction, Objective, Objectives
from nas.proposal import EXHAUSTED, Proposal
from nas.rehearsal import Rehearsal
from nas.strategies import HeedsTime
from nas.strategies.auto import Auto
from nas.strategies.evolution import RegularizedEvolution
from nas.strategies.local import LocalSearch
from nas.strategies.nsga2 import NSGA2
from nas.strategies.predictor import Predictor, _half_ranks
from nas.surrogate import Surrogate
from nas.trial import Outcome, Trial
from nas.warm_start import hand_down
from search_spaces import Bound, CandidateSpace, Choice, Float, Integer, Repeat, SearchSpace
from search_spaces.cell201 import Cell201
from trainers import FailureKind, Measurement


class Sums(SearchSpace):
    decisions = {f"d{at}": Choice(*range(6), ordered=True) for at in range(8)}


class Bowl(SearchSpace):
    decisions = {
        "operation": Choice(*"abcdef"),
        **{f"x{at}": Float(0.0, 1.0) for at in range(3)},
        "rate": Float(1e-4, 1.0, log=True, when={"operation": ["a", "b", "c"]}),
    }

    @staticmethod
    def cost(architecture):
        """0 at operation b, x = (0.3, 0.5, 0.7) and a rate of 0.01."""
        away = sum((architecture[f"x{at}"] - (0.3 + 0.2 * at)) ** 2 for at in range(3))
        rate = (np.log10(architecture["rate"]) + 2) ** 2 / 16 if "rate" in architecture else 0.0
        return float(away + rate) + 0.05 * abs("abcdef".index(architecture["operation"]) - 1)


class Grid(SearchSpace):
    decisions = {"x": Choice(*"abcdefgh"), "y": Choice(*range(8), ordered=True)}


ONE = Objectives((Objective("a", Direction.MAXIMIZE),))
TWO = Objectives((Objective("a", Direction.MAXIMIZE), Objective("b", Direction.MINIMIZE)))
CHEAP = Objectives(ONE.objectives, (Bound("cost", "<=", 8.0),))


def rehearsal(make, space, objectives, seed=0):
    space = CandidateSpace(space)
    return Rehearsal(space, objectives, FullFidelity(objectives, 1, 1, 3), make(space, objectives), seed)


@pytest.mark.parametrize("make", [Predictor, RegularizedEvolution, LocalSearch])
def test_where_what_is_better_costs_more_the_search_comes_to_what_is_allowed(make):
    """At random 1 candidate in 500 is allowed, and accuracy is the cost itself."""
    search = rehearsal(make, Sums(), CHEAP)
    costs = []
    for _ in range(110):
        trial = search.start()
        cost = float(sum(trial.proposal.candidate.architecture.values()))
        costs.append(cost)
        search.advance(trial, {"a": cost, "cost": cost})
    assert mean(costs[:4]) > 15
    assert mean(costs[-20:]) < 12
    assert sum(cost <= 8 for cost in costs) > 8


def asked(search, draws=60):
    strategy, pending = search.state.strategy, search.study.pending()
    return [strategy.ask(pending, np.random.default_rng(at)) for at in range(draws)]


def test_failures_do_not_move_the_weights_of_objectives():
    def leaders(failures):
        search = rehearsal(Predictor, Sums(), TWO)
        rng = np.random.default_rng(1)
        for _ in range(40):
            a, b = rng.random(2).tolist()
            search.advance(search.start(), {"a": a, "b": 100 + b})
        for _ in range(failures):
            search.fail(search.start(), FailureKind.ERROR)
        strategy = search.state.strategy
        weights = [np.array([share, 1 - share]) for share in np.linspace(0.02, 0.98, 25)]
        return [strategy._known(weight, 500).leaders[0].number for weight in weights]

    assert leaders(0) == leaders(40)


def test_what_an_older_study_has_tried_may_be_tried_again():
    older = rehearsal(Predictor, Grid(), ONE)
    for _ in range(64):
        older.advance(older.start(), {"a": 1.0})
    assert older.start() is None
    search = rehearsal(Predictor, Grid(), ONE)
    search.record(hand_down(older.study, ONE, "older"))
    assert all(answer is not EXHAUSTED for answer in asked(search, 5))


@pytest.mark.parametrize("make", [Predictor, Auto])
def test_a_small_space_is_tried_to_its_end_without_a_repeat(make):
    search = rehearsal(make, Grid(), ONE)
    for _ in range(64):
        trial = search.start()
        search.advance(trial, {"a": -abs(trial.proposal.candidate.architecture["y"] - 5.0)})
    assert search.study.duplicates == 0
    assert search.start() is None
    first = {trial.proposal.candidate.architecture["x"] for trial in search.study.trials()[:12]}
    assert len(first) > 4  # not in the order of the declaration


def test_only_measured_trials_count_as_results():
    search = rehearsal(Auto, Sums(), ONE)
    for _ in range(20):
        trial = search.start()
        search.advance(trial, {"a": float(trial.number)})
    rng = np.random.default_rng(5)
    for number in range(20, 1_100):
        refused = Trial(number, Proposal(CandidateSpace(Sums()).sample(rng)), "", 0, 1, {})
        search.state.strategy.tell(refused, None, Outcome.INFEASIBLE)
    assert {proposal.operator for proposal in asked(search, 4)} == {"improve"}


@pytest.mark.parametrize(
    ("costs", "places"),
    [
        ([1.0, 2.0, 3.0, 5.0], [-1.0, -0.75, -0.5, 0.0]),
        ([0.0, 1e-170, 2e-170, 4e-170], [-1.0, -0.75, -0.5, 0.0]),
        ([-1.7e308, 0.0, 0.0, 1.7e308], [-1.0, -0.5, -0.5, 0.0]),
    ],
)
def test_the_better_half_is_spread_by_value_whatever_the_scale(costs, places):
    keys = np.array([*[[0.0, -9.0, cost] for cost in costs], *[[0.0, -3.0, 1.0]] * 2, *[[np.inf, 0.0, 0.0]] * 2])
    scores = _half_ranks(keys)
    by_rank = ndtri((np.arange(4) + 0.5) / 8)
    if costs[1] != costs[2]:
        assert scores[:4].std() == pytest.approx(by_rank.std())
        assert scores[3] == pytest.approx(by_rank[3])
    assert (scores[:4] - scores[3]) / (scores[3] - scores[0]) == pytest.approx(places)
    assert (np.diff(scores) >= 0).all()


@pytest.mark.parametrize("make", [Predictor, Auto])
def test_a_continuum_is_searched_finely(make):
    """80 random candidates come to about 0.1, evolution by steps of a fifth of the range to about 0.007."""
    best = []
    for seed in range(3):
        search = rehearsal(make, Bowl(), Objectives((Objective("cost", Direction.MINIMIZE),)), seed)
        costs = []
        for _ in range(80):
            trial = search.start()
            costs.append(Bowl.cost(trial.proposal.candidate.architecture))
            search.advance(trial, {"cost": costs[-1]})
        best.append(min(costs))
    assert median(best) < 1e-3


@pytest.mark.parametrize("failing", [None, "improve", "mutate"])
def test_with_floats_every_fourth_proposal_of_auto_is_from_evolution_whoever_fails(failing):
    search = rehearsal(Auto, Bowl(), Objectives((Objective("cost", Direction.MINIMIZE),)))
    for _ in range(90):
        trial = search.start()
        if trial.number >= 30 and trial.proposal.operator == failing:
            search.fail(trial, FailureKind.ERROR)
        else:
            search.advance(trial, {"cost": Bowl.cost(trial.proposal.candidate.architecture)})
    for trial in search.study.trials():
        begun = "sample" if trial.number < 4 else "improve"
        assert trial.proposal.operator == ("mutate" if trial.number >= 30 and trial.number % 4 == 0 else begun)


class Mixed(SearchSpace):
    decisions = {
        **{f"d{at}": Choice(*"abcd") for at in range(8)},
        **{f"x{at}": Float(0.0, 1.0) for at in range(4)},
    }


class Wide(SearchSpace):
    """A block that repeats, of 80 decisions in all, 20 of them floats."""

    block = {"kind": Choice("a", "b"), "width": Choice(8, 16, 32), "skip": Choice(False, True), "x": Float(0, 1)}
    decisions = {"count": Integer(1, 20), "block": Repeat("count", block)}


def looked_at(monkeypatch, columns, trials):
    """How many rows an answer predicts, and what it notes."""
    space = CandidateSpace(
        type("Flat", (SearchSpace,), {"decisions": {f"d{at}": Choice(0, 1) for at in range(columns)}})()
    )
    strategy, rng, counts = Predictor(space, ONE), np.random.default_rng(0), []
    for number in range(trials):
        trial = Trial(number, Proposal(space.sample(rng)), "", 0, 1, {})
        strategy.tell(trial, Measurement(1, {"a": float(rng.random())}, 1.0), Outcome.COMPLETED)
    predict = Surrogate.predict
    with monkeypatch.context() as patch:
        patch.setattr(Surrogate, "predict", lambda self, rows: counts.append(len(rows)) or predict(self, rows))
        proposal = strategy.ask([], rng)
    assert proposal.operator == "improve"
    return sum(counts), proposal.notes


def test_of_many_decisions_and_of_results_left_out_fewer_candidates_are_looked_at(monkeypatch):
    few, _ = looked_at(monkeypatch, 20, 50)
    assert looked_at(monkeypatch, 120, 50)[0] < 0.5 * few
    assert looked_at(monkeypatch, 600, 20)[0] > 50
    cut, notes = looked_at(monkeypatch, 20, 450)
    assert notes == {"known": 400, "of": 450}
    assert cut < 0.8 * few


@pytest.mark.clock
@pytest.mark.parametrize("space", [Cell201(), Mixed(), Wide()], ids=lambda space: space.name)
@pytest.mark.parametrize("objectives", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("make", [Predictor, Auto, RegularizedEvolution, LocalSearch, NSGA2])
def test_the_median_answer_after_5000_trials_takes_at_most_20_ms(make, objectives, space):
    candidates, rng = CandidateSpace(space), np.random.default_rng(0)
    strategy = make(candidates, objectives)
    if isinstance(strategy, HeedsTime):
        strategy.heed_time()
    for number in range(5_000):
        candidate = candidates.sample(rng)
        values = candidate.architecture.values()
        metrics = {"a": float(sum(value in ("a", "nor_conv_3x3") for value in values)), "b": float(rng.random())}
        trial = Trial(number, Proposal(candidate), "", 0, 1, {})
        for ended in (None, Outcome.COMPLETED):
            strategy.tell(trial, Measurement(1, metrics, 1.0 + rng.random()), ended)
    for _ in range(20_000 if isinstance(space, Cell201) else 0):
        space.features(space.sample(rng))  # of all cells: a search that has asked so often knows them
    seconds = []
    for at in range(21):
        began = perf_counter()
        strategy.ask([], np.random.default_rng(at))
        seconds.append(perf_counter() - began)
    assert median(seconds) < 0.02

"""What candidates take, and how a limit on time makes the search weigh it."""

import tracemalloc
from math import log

import numpy as np
import pytest

from nas.budget import Budget
from nas.conformance import run_strategy
from nas.fidelity import AsynchronousHalving, FullFidelity
from nas.objective import Direction, Objective, Objectives
from nas.proposal import Proposal
from nas.rehearsal import Rehearsal
from nas.strategies import HeedsTime
from nas.strategies.auto import Auto
from nas.strategies.predictor import Predictor
from nas.strategies.random import RandomSearch
from nas.strategies.running_cost import RunningCost
from nas.trial import Outcome, Trial
from search_spaces import CandidateSpace, Choice, Float, Integer, SearchSpace, hyperparameter_domain
from search_spaces.encoding import Encoding
from trainers import Failure, FailureKind, Measurement


class Layers(SearchSpace):
    decisions = {
        "width": Choice(8, 16, 32, 64, ordered=True),
        "operation": Choice("a", "b", "c"),
        "depth": Integer(1, 4),
        "ratio": Float(1.0, 4.0, when={"operation": "c"}),
    }

    @staticmethod
    def seconds(values):
        return values["width"] * {"a": 1.0, "b": 3.0, "c": 5.0}[values["operation"]] * 2.0 ** values["depth"]


SPACE = CandidateSpace(Layers(), hyperparameter_domain({"batch_size": [16, 32, 64]}))
ONE = Objectives((Objective("a", Direction.MAXIMIZE),))


def test_costs_that_multiply_are_learnt_from_few_candidates():
    rng = np.random.default_rng(0)
    encoding = Encoding(SPACE)
    known, new = ([SPACE.sample(rng) for _ in range(count)] for count in (40, 100))
    cost = RunningCost(encoding.columns)
    assert cost.logarithm(np.array([encoding.row(one) for one in new])).tolist() == [0.0] * 100
    for one in known:
        cost.observe(encoding.row(one), Layers.seconds(one.architecture))
    predicted = cost.logarithm(np.array([encoding.row(one) for one in new]))
    true = np.array([log(Layers.seconds(one.architecture)) for one in new])
    assert np.abs(predicted - true).max() < 0.1 * true.std()


def test_one_observation_says_the_same_of_all():
    rng = np.random.default_rng(0)
    encoding = Encoding(SPACE)
    cost = RunningCost(encoding.columns)
    first = encoding.row(SPACE.sample(rng))
    cost.observe(first, 100.0)
    rows = np.array([first, *(encoding.row(SPACE.sample(rng)) for _ in range(20))])
    assert cost.logarithm(rows) == pytest.approx(np.full(21, log(100.0)))


# Improvement per second -----------------------------------------------------------------------------------------------


class Even(SearchSpace):
    """What is good and what takes long have nothing to do with one another."""

    decisions = {"good": Choice(*range(8), ordered=True), **{f"long{at}": Choice(*"abcd") for at in range(3)}}

    @staticmethod
    def seconds(values, epochs):
        return epochs * 4.0 ** sum("abcd".index(values[f"long{at}"]) for at in range(3))


def proposed(heeds, rule=None, trials=25):
    """Logarithms (base 4) of the seconds an epoch of what is proposed after 10 trials."""
    strategy = Predictor(CandidateSpace(Even()), ONE)
    if heeds:
        strategy.heed_time()
    search = Rehearsal(CandidateSpace(Even()), ONE, rule or FullFidelity(ONE, 1, 1, 3), strategy)
    for _ in range(trials):
        trial = search.start()
        values = trial.proposal.candidate.architecture
        epochs = trial.until - trial.fidelity
        search.advance(trial, {"a": float(values["good"])}, Even.seconds(values, epochs))
    asked = [trial.proposal.candidate.architecture for trial in search.study.trials()[10:]]
    return np.array([log(Even.seconds(values, 1), 4) for values in asked])


def test_where_time_is_limited_equals_are_tried_cheapest_first():
    assert proposed(True).mean() < 2.5
    assert 3.5 < proposed(False).mean() < 5.5  # as at random: 4.5


def test_what_a_promotion_takes_is_counted_by_the_epoch():
    assert proposed(True, AsynchronousHalving(ONE, 1, 9, 3)).mean() < 2.5


@pytest.mark.parametrize(
    ("budget", "heeds"),
    [
        ({"trials": 10}, False),
        ({"hours": 1.0}, True),
        ({"device_hours": 1.0}, True),
        ({"hours": 1.0, "target": 1.0}, True),
        ({"trials": 10, "device_hours": 1.0}, False),
        ({"trials": 10, "target": 1.0}, False),
    ],
)
def test_time_counts_where_the_budget_limits_it(budget, heeds):
    assert Budget(**budget).limits_time is heeds


def told(**of_trial):
    """What a strategy thinks that a candidate takes, of whose trial it was told; None where it learnt nothing."""
    strategy = Predictor(SPACE, ONE)
    strategy.heed_time()
    changed = {"number": 0, "devices": 1, **of_trial}
    trial = Trial(changed.pop("number"), Proposal(SPACE.sample(np.random.default_rng(0))), "", 0, 9, {})
    measurement = Measurement(changed.pop("fidelity", 9), {"a": 1.0}, changed.pop("seconds", 90.0))
    trial.rungs[measurement.fidelity] = measurement
    for name, value in changed.items():
        setattr(trial, name, value)
    strategy.tell(trial, measurement, None)
    strategy.tell(trial, measurement, Outcome.COMPLETED)
    row = Encoding(SPACE).row(trial.proposal.candidate)[None]
    learnt = strategy._cost.logarithm(row)[0]
    return np.exp(learnt) if learnt else None


def test_rates_are_of_device_seconds_and_of_whole_first_legs():
    assert told() == pytest.approx(10.0)
    assert told(devices=2) == pytest.approx(20.0)
    assert told(fidelity=3) == pytest.approx(30.0)
    failed = Failure(FailureKind.PREEMPTED, "its node went")
    for without in ({"number": -1}, {"duplicate_of": 3}, {"failures": [failed]}, {"seconds": 0.0}):
        assert told(**without) is None


def test_auto_hands_it_on_and_the_operator_says_so():
    strategy = Auto(CandidateSpace(Even()), ONE)
    strategy.heed_time()
    search = Rehearsal(CandidateSpace(Even()), ONE, FullFidelity(ONE, 1, 1, 3), strategy)
    for _ in range(12):
        search.advance(search.start(), {"a": 1.0})
    operators = [trial.proposal.operator for trial in search.study.trials()]
    assert operators == ["sample"] * 4 + ["improve-per-second"] * 8


def heeding(space, objectives):
    strategy = Predictor(space, objectives)
    strategy.heed_time()
    return strategy


def test_a_strategy_that_heeds_time_keeps_the_contract():
    assert run_strategy(heeding) == []


def test_an_answer_is_quick_where_decisions_have_many_options():
    class Wide(SearchSpace):
        decisions = {f"d{at}": Choice(*range(1_000)) for at in range(3)}

    space = CandidateSpace(Wide())
    encoding, rng = Encoding(space), np.random.default_rng(0)
    cost = RunningCost(encoding.columns)
    for _ in range(2_000):
        cost.observe(encoding.row(space.sample(rng)), 1 + rng.random())
    rows = np.array([encoding.row(space.sample(rng)) for _ in range(10)])
    tracemalloc.start()
    try:
        cost.logarithm(rows)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_of_the_strategies_those_with_a_model_of_their_own_heed_time():
    assert isinstance(Predictor(SPACE, ONE), HeedsTime)
    assert isinstance(Auto(SPACE, ONE), HeedsTime)
    assert not isinstance(RandomSearch(SPACE, ONE), HeedsTime)

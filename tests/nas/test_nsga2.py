"""NSGA-II: selection against the paper's definitions, the steady state, mates, crossover."""

from math import inf, nan

import numpy as np
import pytest

from nas.conformance import run_strategy
from nas.fidelity import AsynchronousHalving, FullFidelity
from nas.objective import Direction, Objective, Objectives
from nas.pareto import crowding_distances, dominates
from nas.rehearsal import Rehearsal
from nas.strategies.nsga2 import NSGA2, Member, Ranking, member
from search_spaces import Bound, Candidate, CandidateSpace, Choice, SearchSpace
from trainers import FailureKind, Measurement


class Grid(SearchSpace):
    """Eight ordered decisions of six values."""

    decisions = {f"d{at}": Choice(*range(6), ordered=True) for at in range(8)}


class Pair(SearchSpace):
    """Four architectures."""

    decisions = {"a": Choice(0, 1), "b": Choice(0, 1)}


SPACE = CandidateSpace(Grid())
TWO = Objectives(
    (Objective("a", Direction.MINIMIZE), Objective("b", Direction.MINIMIZE)),
    (Bound("m", "<=", 2.0), Bound("n", ">=", 0)),
)
FREE = Objectives(TWO.objectives)


@pytest.mark.parametrize(
    "make", [NSGA2, lambda *of: NSGA2(*of, population=4), lambda *of: NSGA2(*of, population=2, crossover=0.0)]
)
def test_conformance(make):
    assert run_strategy(make) == []


# Selection, against the definitions


def violation(metrics):
    if not np.isfinite([metrics["a"], metrics["b"]]).all():
        return inf
    return max(metrics["m"] - 2, 0) / 2 + max(-metrics["n"], 0)


def beats(one, other):
    """Definition 1 of the paper, with the rung between constraints and objectives."""
    mine, yours = violation(one["metrics"]), violation(other["metrics"])
    if mine != yours:
        return mine < yours
    if one["fidelity"] != other["fidelity"]:
        return one["fidelity"] > other["fidelity"]
    return dominates(*(TWO.costs(each["metrics"]) for each in (one, other)))


def brute_force(told, count):
    """Peel fronts off; cut the last one by crowding."""
    left, chosen = list(range(len(told))), []
    while left:
        front = [at for at in left if not any(beats(told[other], told[at]) for other in left)]
        crowding = crowding_distances([TWO.costs(told[at]["metrics"]) for at in front])
        front.sort(key=dict(zip(front, crowding, strict=True)).get, reverse=True)
        chosen += front[: count - len(chosen)]
        left = [at for at in left if at not in front]
    return chosen


def random_population(rng, count):
    def metrics():
        values = {name: float(rng.integers(low, 5)) for name, low in (("a", 0), ("b", 0), ("m", 0), ("n", -2))}
        if rng.random() < 0.05:
            values["a"] = nan
        return values

    return [{"fidelity": int(rng.choice([1, 3])), "metrics": metrics()} for _ in range(count)]


def test_selection_is_that_of_the_definitions():
    rng = np.random.default_rng(0)
    for _ in range(150):
        told = random_population(rng, int(rng.integers(2, 25)))
        members = [
            member(SPACE.sample(rng), at, Measurement(one["fidelity"], one["metrics"], 1.0), TWO)
            for at, one in enumerate(told)
        ]
        count = int(rng.integers(1, len(told) + 1))
        chosen = [one.trial for one in Ranking(members).best(count)]
        assert chosen == sorted(brute_force(told, count))


def test_violation_is_the_excess_as_a_share_of_the_limit():
    metrics = {"a": 0.0, "b": 0.0, "m": 3.0, "n": -0.25}
    assert member(SPACE.sample(np.random.default_rng(0)), 0, Measurement(1, metrics, 1.0), TWO).level == (0.75, -1)


# The steady state


def search_of(population, objectives=FREE, rule=None, space=SPACE, **arguments):
    strategy = NSGA2(space, objectives, population=population, **arguments)
    return Rehearsal(space, objectives, rule or FullFidelity(objectives, 1, 1, 3), strategy), strategy


def measure(trial):
    values = list(trial.proposal.candidate.architecture.values())
    return {"a": float(sum(values)), "b": float(sum((5 - value) ** 2 for value in values))}


def member_of(trial):
    return member(trial.proposal.candidate, trial.number, trial.measurement, FREE)


def test_the_first_population_is_sampled_and_all_others_are_bred():
    search, _ = search_of(6)
    for _ in range(20):
        trial = search.start()
        search.advance(trial, measure(trial))
    operators = [trial.proposal.operator for trial in search.study.trials()]
    assert operators[:6] == ["sample"] * 6
    assert set(operators[6:]) == {"crossover", "mutate"}


def test_what_cannot_be_measured_counts_towards_the_first_population():
    search, _ = search_of(6)
    search.advance(search.start(), {"a": 1.0, "b": 1.0})
    search.refuse(5)
    assert search.start().proposal.parents == (0,)


def test_no_worker_waits_for_a_population():
    search, _ = search_of(6)
    running = [search.start() for _ in range(9)]
    assert [trial.proposal.operator for trial in running] == ["sample"] * 9  # nothing is measured: nothing to mate
    for trial in running[:3]:
        search.advance(trial, measure(trial))
    early = search.start()
    assert early.proposal.parents
    assert set(early.proposal.parents) <= {0, 1, 2}


def test_each_measurement_changes_the_population_and_the_worst_leaves():
    search, strategy = search_of(6)
    population = []
    for _ in range(40):
        trial = search.start()
        search.advance(trial, measure(trial))
        population = Ranking([*population, member_of(trial)]).best(6)
        asked = [strategy.ask([], np.random.default_rng([1, at])) for at in range(100)]
        mated = {parent for proposal in asked for parent in proposal.parents}
        ranking = Ranking(population)
        ends = {one.trial for one in population if ranking.standing(population.index(one))[:2] == (0, -inf)}
        if len(population) == 6:
            assert ends <= mated <= {one.trial for one in population}


def test_the_mate_is_the_nearest_of_ten_winners():
    """Mates are nearer than partners of independent tournaments, in shares of the population's range."""
    search, strategy = search_of(20, crossover=1.0)
    for _ in range(60):
        trial = search.start()
        search.advance(trial, measure(trial))
    ranking = Ranking([*strategy._population.values()])
    place = {one.trial: at for at, one in enumerate(ranking.ordered)}
    parents = [strategy.ask([], np.random.default_rng([1, at])).parents for at in range(300)]
    mates = [ranking.distances_from(place[pair[0]])[place[pair[1]]] for pair in parents if len(pair) == 2]
    rng = np.random.default_rng(0)
    drawn = rng.integers(20, size=(3000, 2, 3)).min(axis=2)
    strangers = [ranking.distances_from(first)[second] for first, second in drawn.tolist() if first != second]
    assert np.mean(mates) < 0.5 * np.mean(strangers)


def test_distances_are_in_shares_of_each_range():
    rng = np.random.default_rng(0)
    costs = [(0.0, 10.0, 1.0), (1.0, 30.0, 1.0), (4.0, 20.0, 1.0), (2.0, inf, 1.0)]
    violating = [(inf,) if inf in one else (0.0,) for one in costs]
    members = [
        Member(SPACE.sample(rng), at, (bad, -1), one)
        for at, (one, (bad,)) in enumerate(zip(costs, violating, strict=True))
    ]
    whole, part = Ranking(members[:3]), Ranking(members)
    first, third = (next(at for at, one in enumerate(whole.ordered) if one.trial == trial) for trial in (0, 2))
    assert whole.distances_from(first)[third] == pytest.approx(1.0 + 0.25)  # the third cost has no range
    first, third = (next(at for at, one in enumerate(part.ordered) if one.trial == trial) for trial in (0, 2))
    assert part.distances_from(first)[third] == pytest.approx(1.0)  # the second's is infinite


def test_a_child_is_a_crossover_of_two_or_one_change():
    search, _ = search_of(6, crossover=0.7)
    for _ in range(300):
        trial = search.start()
        search.advance(trial, measure(trial))
    trials = search.study.trials()
    bred = [trial.proposal for trial in trials if trial.proposal.parents]
    crossed = [proposal for proposal in bred if proposal.operator == "crossover"]
    assert 0.6 < len(crossed) / len(bred) < 0.85  # those that were known already are drawn again
    pure = 0
    for proposal in bred:
        parents = [trials[number].proposal.candidate.architecture for number in proposal.parents]
        child = proposal.candidate.architecture
        fresh = sum(all(child[name] != parent[name] for parent in parents) for name in child)
        assert fresh == 1 if len(parents) == 1 else fresh <= 1
        pure += len(parents) == 2 and fresh == 0
    assert pure > 50  # neither parent nor a mutation: crossover did it


def test_without_crossover_a_child_is_a_mutation():
    search, _ = search_of(6, crossover=0.0)
    for _ in range(40):
        trial = search.start()
        search.advance(trial, measure(trial))
    assert {trial.proposal.operator for trial in search.study.trials()} == {"sample", "mutate"}


def test_a_higher_rung_brings_a_trial_back_above_all_others():
    rule = AsynchronousHalving(FREE, 1, 9, 2)
    search, strategy = search_of(4, rule=rule)
    trials = [search.start() for _ in range(4)]
    for trial, value in zip(trials, (3, 2, 1, 0), strict=True):
        search.advance(trial, {"a": float(value), "b": float(value)})
    promoted = search.start()
    assert (promoted.number, promoted.until) == (3, 2)
    search.advance(promoted, {"a": 9.0, "b": 9.0})  # worse by its numbers, but at fidelity 2
    ranking = Ranking([*strategy._population.values()])
    assert min(ranking.members, key=lambda one: ranking.standing(ranking.members.index(one))).trial == 3


@pytest.mark.parametrize("kind", [FailureKind.ERROR, FailureKind.DIVERGED, FailureKind.INFEASIBLE])
def test_what_fails_is_never_a_parent(kind):
    search, strategy = search_of(3, rule=AsynchronousHalving(FREE, 1, 9, 2))
    trials = [search.start() for _ in range(4)]
    search.report(trials[0], {"a": 0.0, "b": 0.0})
    search.fail(trials[0], kind)
    for trial, a in zip(trials[1:], (1, 2, 3), strict=True):
        search.advance(trial, {"a": float(a), "b": float(-a)})
    asked = [strategy.ask([], np.random.default_rng([1, at])) for at in range(100)]
    assert {parent for proposal in asked for parent in proposal.parents} <= {1, 2, 3}


def test_all_of_a_small_space_is_tried_once_and_then_it_ends():
    search, _ = search_of(2, space=CandidateSpace(Pair()))
    while (trial := search.start()) is not None:
        search.advance(trial, {"a": 1.0, "b": 1.0})
    assert search.study.launched == 4
    assert "nothing left to propose" in search.over


def test_where_all_children_are_refused_it_goes_on():
    search, _ = search_of(4)
    for _ in range(6):
        trial = search.start()
        search.advance(trial, measure(trial))
    search.refuse(100)
    assert search.start() is not None
    assert search.study.rejected == 100


@pytest.mark.parametrize(("arguments", "message"), [({"population": 1}, "population = 1"), ({"crossover": 1.5}, "1.5")])
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        NSGA2(SPACE, FREE, **arguments)


def test_a_candidate_of_a_population_is_never_tried_again():
    search, _ = search_of(4)
    for _ in range(100):
        trial = search.start()
        search.advance(trial, measure(trial))
    tried = [trial.proposal.candidate for trial in search.study.trials()]
    assert all(isinstance(one, Candidate) for one in tried)
    assert len(set(tried)) == len(tried)

"""Cuts against all cuts, in the given order and over all topological orders."""

from itertools import combinations, permutations

import numpy as np
import pytest

from trainers.parallelism.line_balancing import balance
from trainers.parallelism.stages import cut, fewest_stages, stage_costs


def best_of_all(costs, borders, stages):
    every = combinations(range(1, len(costs)), stages - 1)
    return min(max(stage_costs(costs, borders, starts)) for starts in every)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("bordered", [False, True])
def test_the_program_finds_the_best_of_all_cuts_and_proves_it(seed, bordered):
    rng = np.random.default_rng(seed)
    costs = rng.lognormal(0, 1, rng.integers(4, 10))
    borders = rng.exponential(2.0, len(costs) + 1) * bordered
    borders[[0, -1]] = 0
    for stages in (1, 2, 3, 4):
        found = cut(costs, borders, stages)
        assert found.largest == pytest.approx(best_of_all(costs, borders, stages))
        assert found.stage_costs == stage_costs(costs, borders, found.starts)
        assert len(found.stage_costs) == stages
        assert found.largest >= found.lower_bound * (1 - 1e-12)
        assert fewest_stages(costs, borders, found.largest * (1 + 1e-9)) <= stages
        if not bordered:  # with borders a finer cut may be worse
            assert fewest_stages(costs, borders, found.largest * (1 - 1e-9)) > stages


def test_equal_units_are_cut_evenly():
    found = cut(np.ones(12), np.zeros(13), 4)
    assert found.starts == (3, 6, 9)
    assert found.largest == found.lower_bound == 3.0


def test_a_border_that_costs_much_is_avoided():
    borders = np.array([0.0, 0.1, 9.0, 0.1, 0.0])
    assert cut(np.ones(4), borders, 2).starts in ((1,), (3,))


@pytest.mark.parametrize("stages", [0, 5])
def test_more_stages_than_units_are_refused(stages):
    with pytest.raises(ValueError, match="at least one"):
        cut(np.ones(4), np.zeros(5), stages)


def orders(inputs):
    for order in permutations(range(len(inputs))):
        place = {unit: at for at, unit in enumerate(order)}
        if all(place[source] < place[unit] for unit, sources in enumerate(inputs) for source in sources):
            yield list(order)


@pytest.mark.parametrize("seed", range(8))
def test_balancing_finds_the_best_cut_of_all_topological_orders(seed):
    rng = np.random.default_rng(seed)
    costs = rng.lognormal(0, 0.7, 6)
    inputs = [tuple(source for source in range(unit) if rng.random() < 0.3) for unit in range(6)]
    for stages in (2, 3):
        best = min(best_of_all(costs[order], np.zeros(7), stages) for order in orders(inputs))
        found = balance(costs.tolist(), inputs, stages)
        assert found.lower_bound * (1 - 1e-9) <= best <= found.largest * (1 + 1e-9)
        assert found.largest <= found.lower_bound * (1 + 2e-4)
        assert list(found.order) in list(orders(inputs))
        assert cut(costs[list(found.order)], np.zeros(7), stages).largest <= found.largest * (1 + 1e-9)


def test_too_many_orders_are_said():
    assert balance([1.0] * 20, [()] * 20, 2, ideals=1000) is None

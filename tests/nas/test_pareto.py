"""Dominance, ranks, crowding and hypervolume against their definitions."""

from itertools import combinations, pairwise
from math import inf, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nas.pareto import crowding_distances, dominates, hypervolume, non_dominated_ranks, preference_order

SMALL = st.integers(0, 6).map(float)
COST = st.one_of(SMALL, st.just(inf), st.floats(-1e6, 1e6))


def fronts(cost=SMALL, axes=(1, 2, 3, 4), most=14):
    """Lists of cost vectors with many ties."""
    return st.sampled_from(axes).flatmap(lambda count: st.lists(st.tuples(*[cost] * count), max_size=most))


def ranks_by_definition(costs):
    """Peel off the non-dominated, again and again (Deb et al. 2002, section III.A)."""
    ranks, left, rank = [None] * len(costs), set(range(len(costs))), 0
    while left:
        front = {
            at
            for at in left
            if not any(
                all(x <= y for x, y in zip(costs[other], costs[at], strict=True))
                and any(x < y for x, y in zip(costs[other], costs[at], strict=True))
                for other in left
            )
        }
        for at in front:
            ranks[at] = rank
        left, rank = left - front, rank + 1
    return ranks


def volume_by_inclusion_and_exclusion(costs, reference):
    """Sum over subsets: the boxes of two points meet in the box of their component-wise maximum."""
    boxes = [cost for cost in costs if all(c < r for c, r in zip(cost, reference, strict=True))]
    total = 0.0
    for size in range(1, len(boxes) + 1):
        for subset in combinations(boxes, size):
            corner = [max(axis) for axis in zip(*subset, strict=True)]
            total -= (-1) ** size * prod(r - c for c, r in zip(corner, reference, strict=True))
    return total


@given(fronts(COST))
def test_ranks_follow_the_definition(costs):
    assert non_dominated_ranks(costs) == ranks_by_definition(costs)


@given(fronts(COST))
def test_dominance_is_a_strict_partial_order(costs):
    for a in costs:
        assert not dominates(a, a)
        for b in costs:
            assert not (dominates(a, b) and dominates(b, a))
            for c in costs:
                assert not (dominates(a, b) and dominates(b, c)) or dominates(a, c)


@given(fronts(COST, axes=(2, 3)), st.randoms(use_true_random=False))
def test_ranks_do_not_depend_on_the_order(costs, random):
    order = list(range(len(costs)))
    random.shuffle(order)
    ranks = non_dominated_ranks(costs)
    assert non_dominated_ranks([costs[at] for at in order]) == [ranks[at] for at in order]


def test_ranks_of_many_vectors_of_two_and_of_three_objectives_agree():
    rng = np.random.default_rng(0)
    pairs = [tuple(map(float, pair)) for pair in rng.integers(0, 40, (300, 2))]
    assert non_dominated_ranks(pairs) == non_dominated_ranks([(*pair, 1.0) for pair in pairs])


def test_crowding_distance_of_a_worked_example():
    # Section III.B: per axis the distance between the two neighbours over the range; the ends are infinite.
    costs = [(0.0, 10.0), (1.0, 6.0), (4.0, 5.0), (10.0, 0.0)]
    assert crowding_distances(costs) == pytest.approx([inf, 4 / 10 + 5 / 10, 9 / 10 + 6 / 10, inf])


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50), st.floats(-50, 50)), min_size=1, max_size=9))
def test_crowding_distance_follows_the_definition_where_no_two_are_equal_on_an_axis(costs):
    if any(len(set(axis)) < len(costs) for axis in zip(*costs, strict=True)):
        return
    expected = [0.0] * len(costs)
    for axis in zip(*costs, strict=True):
        ordered = sorted(axis)
        for at, value in enumerate(axis):
            place = ordered.index(value)
            if place in (0, len(ordered) - 1):
                expected[at] = inf
            else:
                expected[at] += (ordered[place + 1] - ordered[place - 1]) / (ordered[-1] - ordered[0])
    assert crowding_distances(costs) == pytest.approx(expected)


@given(fronts(COST))
def test_preference_goes_by_rank_then_by_crowding_then_by_position(costs):
    order = preference_order(costs)
    assert sorted(order) == list(range(len(costs)))
    ranks = non_dominated_ranks(costs)
    crowding = {}
    for rank in set(ranks):
        members = [at for at in range(len(costs)) if ranks[at] == rank]
        distances = crowding_distances([costs[at] for at in members])
        crowding.update(zip(members, distances, strict=True))
    keys = [(ranks[at], -crowding[at], at) for at in order]
    assert all(a < b for a, b in pairwise(keys))


@settings(max_examples=60)
@given(fronts(axes=(1, 2, 3, 4), most=7), st.integers(1, 8).map(float))
def test_hypervolume_is_that_of_inclusion_and_exclusion(costs, limit):
    reference = (limit,) * (len(costs[0]) if costs else 2)
    assert hypervolume(costs, reference) == pytest.approx(volume_by_inclusion_and_exclusion(costs, reference))


@given(fronts(axes=(2, 3), most=6), st.data())
def test_hypervolume_never_falls_and_grows_exactly_with_what_is_not_dominated(costs, data):
    axes = len(costs[0]) if costs else 2
    reference = (7.5,) * axes
    more = data.draw(st.tuples(*[SMALL] * axes))
    before, after = hypervolume(costs, reference), hypervolume([*costs, more], reference)
    covered = any(dominates(cost, more) or cost == more for cost in costs)
    assert after == pytest.approx(before) if covered else after > before


def test_hypervolume_leaves_out_what_is_not_below_the_reference():
    assert hypervolume([(3.0, 0.0), (0.0, 3.0), (inf, 0.0)], (3.0, 3.0)) == 0.0
    assert hypervolume([], (1.0, 1.0)) == 0.0

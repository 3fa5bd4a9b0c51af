"""One order across rungs: laws that any search by halving has to keep."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from nas.strategies.across_rungs import across_rungs


@st.composite
def halved(draw):
    """Costs of a search by halving [3 rungs, n]: each rung is reached by some of those below."""
    count = draw(st.integers(1, 12))
    rungs = [np.array(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)), float)]
    for _ in range(2):
        costs = np.array(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)), float)
        reached = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
        rungs.append(np.where(reached & (rungs[-1] < inf), costs, inf))
    return rungs


def test_one_rung_ranks():
    costs = np.array([3.0, 1.0, inf, 2.0, 2.0])
    places = across_rungs([costs])
    assert places.tolist()[2] == inf
    assert rankdata(places[costs < inf]).tolist() == rankdata(costs[costs < inf]).tolist()


@st.composite
def bracketed(draw):
    """The same where others enter at each rung, as in Hyperband."""
    rungs = draw(halved())
    for at in range(1, len(rungs)):
        more = draw(st.integers(0, 5))
        costs = np.array(draw(st.lists(st.integers(0, 20), min_size=more, max_size=more)), float)
        rungs = [np.append(one, costs if number == at else np.full(more, inf)) for number, one in enumerate(rungs)]
    return rungs


@given(bracketed())
def test_the_highest_rung_orders_whom_it_knows(rungs):
    places = across_rungs(rungs)
    top = rungs[-1] < inf
    before, after = rungs[-1][top], places[top]
    for one in range(len(before)):
        assert all(after[one] < after[before > before[one]])
        assert all(after[one] == after[before == before[one]])


@given(halved())
def test_who_is_not_promoted_keeps_his_order(rungs):
    below, places = across_rungs(rungs[:-1]), across_rungs(rungs)
    stayed = (rungs[-1] == inf) & (below < inf)
    before, after = below[stayed], places[stayed]
    for one in range(len(before)):
        assert all(after[one] <= after[before > before[one]])


@given(halved())
def test_the_promoted_share_the_places_that_they_had(rungs):
    if any(len({*costs[costs < inf]}) < (costs < inf).sum() for costs in rungs):
        return  # of equal ones the places are means
    below, places = across_rungs(rungs[:-1]), across_rungs(rungs)
    top, stayed = rungs[-1] < inf, (rungs[-1] == inf) & (below < inf)
    assert sorted(places[top]) == pytest.approx(sorted(below[top]))
    assert places[stayed].tolist() == below[stayed].tolist()


def test_equal_costs_below_are_told_apart_above():
    first, second = np.array([1.0, 1.0, 1.0]), np.array([5.0, 3.0, 4.0])
    assert across_rungs([first, second]).argsort().tolist() == [1, 2, 0]


def test_an_early_promotion_is_no_merit():
    first = np.array([5.0, 1.0, 2.0, 9.0])
    second = np.array([4.0, inf, inf, inf])
    assert across_rungs([first, second]).argsort().tolist() == [1, 2, 0, 3]


def test_whom_no_lower_rung_knows_stands_between_those_whom_one_does():
    first = np.array([1.0, 2.0, 3.0, inf, inf, inf])
    second = np.array([10.0, inf, 30.0, 22.0, 5.0, 40.0])
    places = across_rungs([first, second])
    assert places[[4, 0, 3, 2, 5]].tolist() == sorted(places[[4, 0, 3, 2, 5]])
    assert places[0] < places[1] < places[2]


def test_rungs_of_different_trials_rank_the_higher_first():
    assert across_rungs([np.array([1.0, inf]), np.array([inf, 9.0])]).argsort().tolist() == [1, 0]
    assert across_rungs([np.array([inf, inf])]).tolist() == [inf, inf]

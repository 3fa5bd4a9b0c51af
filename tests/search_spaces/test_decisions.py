"""Decisions judge their own arguments, draw within their options, and move to every other option."""

from collections import Counter
from math import log
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Choice, Float, Integer, Repeat, When

MALFORMED = [
    (lambda: Choice(), "at least one option"),
    (lambda: Choice([16, 32]), r"one by one, as in Choice\(16, 32, 64\)"),
    (lambda: Choice("a", "b", "a"), "'a' is given 2 times"),
    (lambda: Choice((1, 1), (1, 1)), r"\(1, 1\) is given 2 times"),
    (lambda: Choice("two\nlines"), "printable text"),
    (lambda: Choice(float("nan")), "finite float"),
    (lambda: Choice(2**63), "64 bits"),
    (lambda: Choice(object()), "cannot be an option"),
    (lambda: Integer(3, 2), "low = 3 is above high = 2"),
    (lambda: Integer(1, 2, step=0), "step = 0 must be at least 1"),
    (lambda: Integer(0, 2, log=True), "low = 0 must be at least 1 where log"),
    (lambda: Integer(1, 9, step=2, log=True), "step = 2 must be 1 where log"),
    (lambda: Integer(1.0, 2), "low = 1.0 must be an int"),
    (lambda: Integer(True, 2), "low = True must be an int"),
    (lambda: Float(1.0, 0.0), "low = 1.0 is above high = 0.0"),
    (lambda: Float(0.0, 1.0, log=True), "low = 0.0 must be above 0 where log"),
    (lambda: Float(0.0, float("inf")), "high = inf must be a finite number"),
    (lambda: Float(-1e308, 1e308), "too wide"),
    (lambda: Float("0", 1.0), "low = '0' must be a finite number"),
    (lambda: Repeat("n", {}), "at least one name"),
    (lambda: Repeat(0, {"a": Choice(1)}), "count = 0 must name a decision"),
    (lambda: Repeat(True, {"a": Choice(1)}), "count = True must name a decision"),
    (lambda: When("a"), "at least one value"),
    (lambda: When(3, 4), "first the name of a decision"),
    (lambda: Choice(1, when="optimizer"), "write When"),
    (lambda: Choice(1, when=[When("a", 1), When("a", 2)]), "name each decision once"),
]


@pytest.mark.parametrize(("declare", "message"), MALFORMED)
def test_a_malformed_declaration_says_what_is_wrong(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()


def test_options_differ_by_type():
    choice = Choice(1, True, 1.0, "1", None, (1, 1), (1, True))
    assert [choice.index(option) for option in choice.options] == list(range(7))
    assert not Choice(1).allows(True)
    assert not Choice(1).allows(1.0)
    assert not Choice((1, 1)).allows([1, 1])
    assert not Integer(0, 1).allows(True)
    assert not Float(0, 1).allows(1)


def test_many_options_take_time_in_proportion():
    before = process_time()
    choice = Choice(*range(200_000))
    assert choice.index(choice.options[-1]) == 199_999
    assert len(choice.schema()["options"]) == 200_000
    assert process_time() - before < 10  # with a comparison of all pairs it was an hour


def test_many_options_are_told_in_few_words():
    with pytest.raises(ValueError, match=r"-1 is not one of 0, 1, .*, 19 and 199,980 more$"):
        Choice(*range(200_000)).index(-1)


def nested(depth):
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


def test_tuples_in_tuples_have_an_end():
    endless = [1]
    endless.append(endless)
    for value in (endless, nested(5_000)):
        with pytest.raises(ValueError, match="Choice: tuples stand in each other more than 32 deep, or one in itself"):
            Choice(value, 1)
    assert Choice(nested(30)).index(nested(30)) == 0


def test_numpy_scalars_become_numbers():
    assert [type(option) for option in Choice(np.int64(1), np.float64(2.0), np.bool_(True)).options] == [
        int,
        float,
        bool,
    ]


uniform = st.floats(0, 1, exclude_max=True)
ends = st.integers(1, 250) | st.integers(-(2**63), 2**63 - 1) | st.integers(2**62, 2**62 + 5)


@st.composite
def integers(draw):
    low, high = sorted((draw(ends), draw(ends)))
    if low >= 1 and draw(st.booleans()):
        return Integer(low, high, log=True)
    return Integer(low, high, step=draw(st.integers(1, 9) | st.integers(1, 2**63 - 1)))


leaves = st.one_of(
    integers(),
    st.tuples(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.booleans()).map(
        lambda range_: Float(min(range_[:2]), max(range_[:2]), range_[2])
    ),
    st.tuples(st.lists(st.integers(), min_size=1, unique=True, max_size=9), st.booleans()).map(
        lambda drawn: Choice(
            *(option % 2**40 for option in dict.fromkeys(o % 2**40 for o in drawn[0])), ordered=drawn[1]
        )
    ),
)


@given(leaves, uniform, st.tuples(uniform, uniform, uniform))
def test_draws_and_moves_stay_within_the_options(leaf, at, u):
    value = leaf.draw(at)
    assert leaf.allows(value)
    assert leaf.allows(leaf.nudge(value, 0.1, u[0]))
    if leaf.count != 1:
        moved = leaf.move(value, u)
        assert leaf.allows(moved)
        assert moved != value


@given(integers(), uniform)
def test_every_integer_has_its_place(leaf, u):
    place = int(u * leaf.count)
    assert leaf.index(leaf.options[place]) == place
    assert leaf.index(leaf.options[-1]) == leaf.count - 1
    assert leaf.draw(0.0) == leaf.low
    assert leaf.weight(place) > 0


@pytest.mark.parametrize(
    "leaf",
    [Choice("a", "b", "c", "d"), Choice(1, 2, 3, 4, ordered=True), Integer(2, 20, step=3), Integer(1, 9, log=True)],
)
def test_a_move_can_reach_every_other_value(leaf):
    rng = np.random.default_rng(0)
    for value in leaf.options:
        reached = {leaf.move(value, rng.random(3).tolist()) for _ in range(600)}
        assert reached == set(leaf.options) - {value}


def test_a_move_of_an_ordered_choice_prefers_neighbours():
    rng = np.random.default_rng(0)
    choice = Choice(*range(10), ordered=True)
    moved = Counter(choice.move(5, rng.random(3).tolist()) for _ in range(4_000))
    near = (moved[4] + moved[6]) / 4_000
    assert near == pytest.approx(0.5 + 0.5 * 2 / 9, abs=0.04)


def test_log_scales_are_drawn_log_uniformly():
    rng = np.random.default_rng(0)
    floats = [Float(1e-4, 1e-1, log=True).draw(u) for u in rng.random(3_000)]
    assert np.mean([value < 1e-3 for value in floats]) == pytest.approx(1 / 3, abs=0.03)
    ints = [Integer(1, 100, log=True).draw(u) for u in rng.random(3_000)]
    assert np.mean([value == 1 for value in ints]) == pytest.approx(log(3) / log(201), abs=0.03)


def test_the_last_value_of_a_stepped_range_is_on_the_grid():
    assert list(Integer(1, 10, step=4).options) == [1, 5, 9]
    assert Integer(1, 10, step=4).allowed == "an int from 1 to 9 by 4"


def test_steps_on_the_widest_logarithmic_scale_stay_in_the_range():
    wide = Float(1e-200, 1e200, log=True)
    for value in (1e-200, 1.0, 1e200):
        for u in (0.001, 0.3, 0.999):
            assert 1e-200 <= wide.nudge(value, 1.0, u) <= 1e200
            assert 1e-200 <= wide.move(value, [u, u, u]) <= 1e200

"""Candidates as rows of numbers."""

import tracemalloc

import numpy as np
import pytest

from search_spaces import Architecture, Candidate, CandidateSpace, Choice, Domain, Float, Integer, SearchSpace
from search_spaces.encoding import Encoding


class Mixed(SearchSpace):
    decisions = {  # noqa: RUF012
        "kind": Choice("a", "b", "c"),
        "width": Choice(16, 32, 64, ordered=True),
        "depth": Integer(1, 5),
        "rate": Float(1e-4, 1e-2, log=True),
        "only_b": Choice(1, True, when={"kind": "b"}),
    }


SPACE = CandidateSpace(Mixed(), Domain({"batch": Integer(1, 1024, log=True)}))


def row(**values):
    hyperparameters = {"batch": values.pop("batch", 1)}
    return Encoding(SPACE).row(SPACE.from_plain({"architecture": values, "hyperparameters": hyperparameters}))


def test_places_by_kind_of_decision():
    values = row(kind="b", width=32, depth=2, rate=1e-3, only_b=True, batch=32)
    np.testing.assert_allclose(values, [1, 0.5, 0.25, 0.5, 1, 0.5])


def test_what_does_not_apply_is_nan():
    values = row(kind="a", width=16, depth=5, rate=1e-4)
    np.testing.assert_array_equal(values, [0, 0, 1, 0, np.nan, 0])


def test_options_of_equal_value_and_other_type_stay_apart():
    one = row(kind="b", width=16, depth=1, rate=1e-4, only_b=1)
    true = row(kind="b", width=16, depth=1, rate=1e-4, only_b=True)
    assert one[4] != true[4]


def test_columns_say_how_they_compare():
    columns = {column.name: column for column in Encoding(SPACE).columns}
    assert columns["kind"].options == 3
    assert columns["width"].levels == (0, 0.5, 1)
    assert columns["rate"].levels == ()
    assert columns["batch"].levels == ()  # more than 64
    assert columns["only_b"].conditional
    assert not columns["kind"].conditional


def test_one_hot_has_one_per_option_and_is_zero_where_nothing_applies():
    wide = Encoding(SPACE).one_hot(
        np.array([row(kind="b", width=32, depth=1, rate=1e-4, only_b=1), row(kind="a", width=32, depth=1, rate=1e-4)])
    )
    np.testing.assert_allclose(wide[0], [0, 1, 0, 0.5, 1, 0, 1, 0, 1, 1, 0, 0, 1])
    np.testing.assert_allclose(wide[1], [1, 0, 0, 0.5, 1, 0, 1, 0, 1, 0, 0, 0, 1])


@pytest.mark.parametrize("seed", range(3))
def test_rows_tell_candidates_apart(seed):
    rng = np.random.default_rng(seed)
    candidates = [SPACE.sample(rng) for _ in range(50)]
    rows = Encoding(SPACE).rows(candidates)
    assert rows.shape == (50, 6)
    assert len({row.tobytes() for row in rows}) == len({str(candidate) for candidate in candidates})


class Huge(SearchSpace):
    decisions = {
        "seed": Integer(-(2**63), 2**63 - 1),
        "narrow": Integer(2**62, 2**62 + 4, log=True),
        "word": Choice(*map(str, range(2_001))),
    }


def test_huge_integers_and_many_options_stand_on_a_scale():
    encoding = Encoding(CandidateSpace(Huge()))
    assert [column.options for column in encoding.columns] == [0, 0, 0]
    ends = [(-(2**63), 2**62, "0"), (-1, 2**62 + 2, "1000"), (2**63 - 1, 2**62 + 4, "2000")]
    rows = encoding.rows(Candidate(Architecture(dict(zip(Huge.decisions, end, strict=True)))) for end in ends)
    assert np.allclose(rows, [[0, 0, 0], [0.5, 0.5, 0.5], [1, 1, 1]])


def test_an_encoding_keeps_nothing_of_candidates():
    class Wide(SearchSpace):
        decisions = {"few": Integer(1, 20), "many": Integer(1, 10**9), "scale": Integer(1, 2**40, log=True)}  # noqa: RUF012

    space, rng = CandidateSpace(Wide()), np.random.default_rng(0)
    encoding = Encoding(space)
    candidates = [space.sample(rng) for _ in range(500)]
    tracemalloc.start()
    try:
        for candidate in candidates:
            encoding.row(candidate)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10_000


def test_options_that_are_equal_numbers_have_rows_of_their_own():
    class Zeros(SearchSpace):
        decisions = {"x": Choice(0.0, -0.0, 0, False, 1)}

    space = CandidateSpace(Zeros())
    encoding = Encoding(space)
    rows = [encoding.row(Candidate(Architecture({"x": option}))).tolist() for option in (-0.0, 0.0, False, 0, 1)]
    assert rows == [[1.0], [0.0], [3.0], [2.0], [4.0]]


def encoded(leaf, value):
    space = CandidateSpace(type("One", (SearchSpace,), {"decisions": {"x": leaf}})())
    return Encoding(space).row(Candidate(Architecture({"x": value})))[0]


@pytest.mark.parametrize("low", [0.0, -0.0])
def test_either_zero_has_the_place_of_the_other_where_a_float_is_but_zero(low):
    assert encoded(Float(low, 0.0), 0.0) == encoded(Float(low, 0.0), -0.0) == 0


@pytest.mark.parametrize("leaf", [Choice("a", "b"), Choice(0.5, 1.5), Choice(*range(2_000))])
def test_what_is_no_option_is_named(leaf):
    with pytest.raises(ValueError, match="'c' is not one of"):
        encoded(leaf, "c")


@pytest.mark.parametrize(("low", "high"), [(1e-300, 1e300), (5e-324, 1.7e308), (5e-324, 1.0)])
def test_log_places_are_even_in_the_logarithm_however_wide_the_range(low, high):
    shares = np.linspace(0, 1, 9)
    values = np.exp(np.log(low) + shares * (np.log(high) - np.log(low))).clip(low, high).tolist()
    places = [encoded(Float(low, high, log=True), value) for value in values]
    assert places == pytest.approx(shares, abs=2e-3)


def test_rows_are_of_floats_where_all_decisions_are_categories():
    assert (
        Encoding(CandidateSpace(type("One", (SearchSpace,), {"decisions": {"x": Choice(1, 2)}})()))
        .row(Candidate(Architecture({"x": 2})))
        .dtype
        == np.float64
    )

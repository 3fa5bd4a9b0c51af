"""Values keep every type through text and JSON; bounds judge numbers."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Architecture, Bound, Values, broken
from search_spaces.values import check_value, from_json

texts = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"]) | st.just(" "))
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(scalars | texts, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
names = st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True)


def exact(value):
    """Value and types, -0.0 apart from 0.0."""
    return tuple(map(exact, value)) if isinstance(value, tuple) else (type(value), repr(value))


@given(st.dictionaries(names, values))
def test_text_and_json_keep_every_value_with_its_type(mapping):
    original = Values({name: check_value(value, name) for name, value in mapping.items()})
    for back in (Values.parse(str(original)), {name: from_json(v) for name, v in json.loads(original.json()).items()}):
        assert {name: exact(value) for name, value in back.items()} == {n: exact(v) for n, v in mapping.items()}


def test_alike_values_of_six_types_stay_apart():
    alike = [Values({"x": value}) for value in (1, True, 1.0, "1", None, (1, 1), (1, True), ("1",), -0.0, 0.0)]
    assert len(set(alike)) == len(alike)
    assert [Values.parse(str(value)) for value in alike] == alike


def test_equality_ignores_order_and_the_text_keeps_it():
    assert Values({"a": 1, "b": 2}) == Values({"b": 2, "a": 1})
    assert str(Values({"b": 2, "a": 1})) == "b=2, a=1"
    assert Architecture({"a": 1}) != {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "at 0: expected name=value"),
        ("a=relu", "a JSON value for 'a', found 'relu' .text needs double quotes"),
        ("a=1 b=2", "at 3: expected a comma"),
        ("a=1, a=2", "'a' is given twice"),
        ("a=NaN", "expected a JSON value"),
        ('a={"b": 1}', "cannot be an option"),
        ('a="two\\nlines"', "printable text"),
        ("a=99999999999999999999", "int of 64 bits"),
        ("a=1e999", "finite float"),
    ],
)
def test_text_that_is_none_is_refused_with_its_place(text, message):
    with pytest.raises(ValueError, match=message):
        Values.parse(text)


@pytest.mark.parametrize("value", [float("inf"), "a\nb", "\x00", "\ud800", {1}, {"a": 1}, b"a", 2**63, np.zeros(2), 1j])
def test_what_the_record_cannot_keep_is_no_value(value):
    with pytest.raises(ValueError, match="width: .* cannot be an option"):
        check_value(value, "width")


def test_a_limit_is_a_number_that_a_float_holds():
    assert Bound.parse("x", "<= 1e308").limit == 1e308
    assert Bound.parse("x", ">= " + "9" * 300).limit == pytest.approx(1e300)
    for text in ("<= 1e400", ">= -1e309", "<= " + "9" * 400):
        with pytest.raises(ValueError, match="x = .*the limit must be finite, at most 1.798e"):
            Bound.parse("x", text)
    for text in ("<= nan", "<= inf", ">= -Infinity"):
        with pytest.raises(ValueError, match="a constraint is"):
            Bound.parse("x", text)
    for limit in (float("nan"), float("inf"), 10**400, -(10**400)):
        with pytest.raises(ValueError, match="x: the limit of a constraint must be a finite number"):
            Bound("x", "<=", limit)
    with pytest.raises(ValueError, match="relation = '<' must be"):
        Bound("x", "<", 1.0)


def test_a_bound_reads_holds_and_explains():
    bound = Bound.parse("parameters", "<= 100_000")
    assert bound == Bound("parameters", "<=", 100_000)
    assert bound.holds(100_000)
    assert not bound.holds(100_001)
    assert not bound.holds(float("nan"))
    assert broken((bound, Bound("x", ">=", 1)), {"parameters": 2e5}) == [
        "parameters is 200000, the constraint is parameters <= 100000"
    ]
    with pytest.raises(ValueError, match="parameters = '< 3': a constraint is"):
        Bound.parse("parameters", "< 3")

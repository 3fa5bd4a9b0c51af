"""What changed between two versions of a space: nothing where nothing did, and each change by its name."""

import copy

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import CandidateSpace, Cell, Choice, Domain, Float, Integer, Repeat, SearchSpace
from search_spaces.diff import space_changes


class Old(SearchSpace):
    decisions = {
        "depth": Integer(1, 3),
        "stage": Repeat("depth", {"width": Choice(8, 16, ordered=True), "skip": Choice(False, True)}),
        "norm": Choice(None, "batch"),
        "momentum": Float(0.1, 0.9, when={"norm": "batch"}),
    }


def schema(decisions, rates=None, name="Old"):
    hyperparameters = Domain({"rate": rates}) if rates else None
    space = type(name, (SearchSpace,), {"decisions": decisions})()
    return orjson.loads(orjson.dumps(CandidateSpace(space, hyperparameters).schema()))


def told(new, old=Old.decisions):
    return [str(change) for change in space_changes(schema(old), schema(new))]


def changed(**new):
    return {name: new.get(name, decision) for name, decision in Old.decisions.items()}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({**Old.decisions, "drop": Float(0, 0.5)}, ["drop is new (a float with low 0.0, high 0.5, log false)"]),
        (
            {name: decision for name, decision in Old.decisions.items() if name != "momentum"},
            ['momentum is gone (it was a float with low 0.1, high 0.9, log false, when {"norm":["batch"]})'],
        ),
        (changed(norm=Choice(None, "layer", "batch")), ['norm: options was [null,"batch"], is [null,"layer","batch"]']),
        (changed(depth=Integer(1, 4)), ["depth: high was 3, is 4"]),
        (
            changed(momentum=Float(0.1, 0.9)),
            ['momentum: when was {"norm":["batch"]}, is none'],
        ),
        (
            changed(depth=Choice(1, 2, 3)),
            [
                "depth was an integer with low 1, high 3, step 1, log false, "
                "is a choice with options [1,2,3], ordered false"
            ],
        ),
        (
            changed(stage=Repeat("depth", {"width": Choice(8, 32, ordered=True), "skip": Choice(False, True)})),
            ["stage.width: options was [8,16], is [8,32]"],
        ),
        (
            changed(stage=Repeat("depth", {"width": Choice(8, 16, ordered=True)})),
            ["stage.skip is gone (it was a choice with options [false,true], ordered false)"],
        ),
    ],
)
def test_each_change_is_named(new, expected):
    assert told(new) == expected


def test_another_order_is_a_change():
    old = {"norm": Choice(None, "batch"), "depth": Integer(1, 3)}
    order = 'the space: order of decisions was ["norm","depth"], is ["depth","norm"]'
    assert told(dict(reversed(old.items())), old) == [order]


def test_values_of_other_types_are_other_options():
    assert told({"a": Choice(1, True)}, {"a": Choice(1, 1.0)}) == ["a: options was [1,1.0], is [1,true]"]


def test_a_limit_on_edges_is_a_change_and_none_is_none():
    limited = {"cell": Cell(4, ("a", "b"), inputs=(0, 3), edges=(0, 4))}
    free = {"cell": Cell(4, ("a", "b"), inputs=(0, 3))}
    assert told(limited, free) == ["cell: edges was none, is [0,4]"]
    assert told(free, free) == []


def test_hyperparameters_and_the_name_of_the_space_are_told():
    before, after = schema(Old.decisions, Float(0, 1)), schema(Old.decisions, Float(0, 2), name="New")
    assert [str(change) for change in space_changes(before, after)] == [
        'the space: space was "Old", is "New"',
        "hyperparameters.rate: high was 1.0, is 2.0",
    ]
    assert str(space_changes(before, schema(Old.decisions))[0]).startswith("hyperparameters.rate is gone")


def leaves(value, at=()):
    """Paths of all that is neither a dict nor a list."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if pairs is None:
        return [at]
    return [path for name, item in pairs for path in leaves(item, (*at, name))]


PLAIN = schema(Old.decisions, Float(0.1, 1, log=True))


@given(st.sampled_from(leaves(PLAIN)), st.one_of(st.integers(-9, 9), st.booleans(), st.text(max_size=3), st.none()))
def test_no_change_is_overlooked_and_none_is_invented(path, value):
    assert space_changes(PLAIN, copy.deepcopy(PLAIN)) == []
    other = copy.deepcopy(PLAIN)
    at = other
    for name in path[:-1]:
        at = at[name]
    before, at[path[-1]] = at[path[-1]], value
    same = orjson.dumps(before) == orjson.dumps(value)
    assert bool(space_changes(PLAIN, other)) != same
    assert bool(space_changes(other, PLAIN)) != same

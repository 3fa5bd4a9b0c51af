"""Cells that say what their operations are: keys and features of the networks, in spaces of a user's own."""

from itertools import product

import numpy as np
import pytest

from nas.keys import KeyMaker
from search_spaces import Architecture, Candidate, CandidateSpace, Cell, Choice, Integer, Repeat, SearchSpace
from search_spaces.canonical import canonical_form
from search_spaces.decisions import decisions_from_schema, decisions_schema

OPERATIONS = ("zero", "skip", "conv", "pool")
KINDS = {"none": ("zero",), "identity": ("skip",), "parameter_free": ("pool",)}


class Own(SearchSpace):
    decisions = {"cell": Cell(4, OPERATIONS, **KINDS), "width": Choice(8, 16)}


class OnNodes(SearchSpace):
    decisions = {"": Cell(5, ("a", "b", 1, True), on="nodes", inputs=(0, 2), none=(), identity=(1,))}


class Stacked(SearchSpace):
    decisions = {"count": Integer(1, 3), "block": Repeat("count", {"cell": Cell(3, OPERATIONS, **KINDS)})}


def own(*operations, width=8):
    names = ["cell.1<-0", "cell.2<-0", "cell.2<-1", "cell.3<-0", "cell.3<-1", "cell.3<-2"]
    return Architecture({**dict(zip(names, operations, strict=True)), "width": width})


ISOMORPHIC = (
    own("conv", "pool", "zero", "zero", "conv", "skip"),  # 0 -conv-> 1 -conv-> 3, 0 -pool-> 2 -> 3
    own("pool", "conv", "zero", "zero", "skip", "conv"),  # the middle nodes exchanged
    own("conv", "zero", "skip", "pool", "zero", "conv"),  # by way of an identity, and the pool at once
)


def test_the_same_network_has_one_key():
    keys = {Own().key(architecture) for architecture in ISOMORPHIC}
    assert len(keys) == 1
    maker = KeyMaker(Own(), ())
    assert len({maker.key(Candidate(one)) for one in ISOMORPHIC}) == 1
    exact = KeyMaker(Own(), (), merge="exact")
    assert len({exact.key(Candidate(one)) for one in ISOMORPHIC}) == 3


def test_other_networks_have_other_keys():
    others = [
        own("conv", "pool", "zero", "zero", "conv", "skip", width=16),
        own("conv", "pool", "zero", "zero", "conv", "conv"),
        own("conv", "pool", "zero", "conv", "conv", "skip"),
    ]
    assert len({Own().key(one) for one in (ISOMORPHIC[0], *others)}) == 4


def test_dead_branches_make_no_difference():
    assert Own().key(own("conv", "zero", "conv", "conv", "zero", "zero")) == Own().key(
        own("zero", "zero", "pool", "conv", "skip", "conv")
    )


def test_keys_are_as_many_as_canonical_forms():
    space, cell = Own(), Own.decisions["cell"]
    keys, forms = set(), set()
    for operations in product(OPERATIONS, repeat=6):
        architecture = own(*operations)
        keys.add(space.key(architecture))
        forms.add(canonical_form(cell.graph(architecture, "cell"), **KINDS))
    assert len(keys) == len(forms) < 4**6


@pytest.mark.parametrize("space", [Own(), OnNodes(), Stacked()], ids=lambda space: space.name)
def test_equal_keys_have_equal_features(space):
    rng = np.random.default_rng(0)
    by_key = {}
    for _ in range(3_000):
        architecture = space.sample(rng)
        features = space.features(architecture)
        assert by_key.setdefault(space.key(architecture), features) == features
    assert len(by_key) < 3_000
    assert len(set(by_key.values())) > len(by_key) / 4
    assert len({tuple(map(len, features)) for features in by_key.values()}) == 1


def test_features_are_paths_without_identities_and_counts_of_what_has_weights():
    paths, convolutions = Own().features(ISOMORPHIC[2])
    assert len(paths) == 1 + 2 + 4 + 8  # nothing, then sequences of conv and pool
    assert np.flatnonzero(paths).tolist() == [2, 3]  # pool; conv, conv
    assert convolutions == (1.0,)


def test_options_of_different_types_stay_apart():
    decisions = {f"{node}.inputs": (node - 1,) for node in range(1, 5)}
    chain = [
        Architecture({**decisions, "1.operation": "a", "2.operation": one, "3.operation": "b"}) for one in (1, True)
    ]
    assert OnNodes().key(chain[0]) != OnNodes().key(chain[1])


def test_cells_that_are_not_there_have_features_of_nothing():
    edges = {f"block.0.cell.{edge}": "conv" for edge in ("1<-0", "2<-0", "2<-1")}
    groups = Stacked().features(Architecture({"count": 1, **edges}))
    assert all(map(any, groups[:2]))
    assert not any(map(any, groups[2:]))
    assert len(groups) == 6


def test_a_cell_that_says_nothing_is_taken_as_it_is():
    class Silent(SearchSpace):
        decisions = {"cell": Cell(4, OPERATIONS), "width": Choice(8, 16)}

    assert len({Silent().key(architecture) for architecture in ISOMORPHIC}) == 3
    assert Silent().features(ISOMORPHIC[0]) == ()


def test_the_schema_says_it_and_is_read_back():
    plain = decisions_schema(Own.decisions)
    assert plain[0]["none"] == ["zero"]
    assert decisions_schema(decisions_from_schema(plain)) == plain
    assert "none" not in Cell(4, OPERATIONS).schema()


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"none": "zero"}, "none = 'zero' must be a list"),
        ({"none": ("nil",)}, "'nil' is not in operations"),
        ({"none": ("zero",), "identity": ("zero",)}, "'zero' stands in none and in identity"),
    ],
)
def test_what_is_said_must_be_of_its_operations(kinds, message):
    with pytest.raises(ValueError, match=message):
        Cell(4, OPERATIONS, **kinds)


def test_large_cells_are_described_too():
    class Large(SearchSpace):
        decisions = {"": Cell(14, OPERATIONS, on="nodes", inputs=(1, 2), **KINDS)}

    space = CandidateSpace(Large())
    candidate = space.sample(np.random.default_rng(0))
    assert len(Large().features(candidate.architecture)) == 1  # too many paths to follow: convolutions alone
    assert Large().key(candidate.architecture)

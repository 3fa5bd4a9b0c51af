"""Cells: their decisions by name, exact sizes, limits on inputs, and the graphs that architectures give."""

import json
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Cell, Choice, Domain, Integer, Repeat, Values

OPERATIONS = ("none", "conv", "pool")


def names(decisions):
    return [slot.name for slot in Domain(decisions).slots]


def test_operations_on_edges_are_named_by_target_and_source():
    assert names({"": Cell(4, OPERATIONS)}) == ["1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2"]
    assert names({"normal": Cell(3, OPERATIONS)}) == ["normal.1<-0", "normal.2<-0", "normal.2<-1"]


def test_operations_on_nodes_leave_input_and_output_without():
    assert names({"cell": Cell(4, OPERATIONS, on="nodes")}) == ["cell.1.operation", "cell.2.operation"]
    with_inputs = names({"": Cell(3, OPERATIONS, on="nodes", inputs=1)})
    assert with_inputs == ["1.inputs", "1.operation", "2.inputs"]


def test_cells_stand_in_blocks_and_under_conditions():
    cell = Cell(2, OPERATIONS, when={"kind": "cell"})
    decisions = {"kind": Choice("cell", "none"), "n": Integer(1, 2), "stage": Repeat("n", {"": cell, "other": cell})}
    domain = Domain(decisions)
    assert names(decisions)[2:4] == ["stage.0.1<-0", "stage.0.other.1<-0"]
    assert domain.size() == 2 + 3**2 + 3**4
    values = {"stage.0.1<-0": "conv", "stage.0.other.1<-0": "pool"}
    assert cell.graph(values, "stage.0").operations == {(0, 1): "conv"}
    assert cell.graph(values, "stage.0.other").operations == {(0, 1): "pool"}


def subsets(before, least, most):
    return sum(comb(before, count) for count in range(min(least, before), min(most, before) + 1))


@pytest.mark.parametrize("limits", [(0, 3), (1, 2), (2, 2), (3, 4)])
def test_sizes_of_cells_with_limited_inputs(limits):
    on_nodes = Cell(5, OPERATIONS, on="nodes", inputs=limits)
    assert Domain({"": on_nodes}).size() == prod(subsets(node, *limits) for node in range(1, 5)) * 3**3
    on_edges = Cell(4, OPERATIONS, inputs=limits)
    counts = [range(min(limits[0], node), min(limits[1], node) + 1) for node in range(1, 4)]
    expected = prod(sum(comb(node, c) * 3**c for c in some) for node, some in enumerate(counts, 1))
    assert Domain({"": on_edges}).size() == expected


cells = st.builds(
    lambda nodes, on, limits: Cell(nodes, OPERATIONS, on, limits and tuple(sorted(limits))),
    st.integers(3, 5),
    st.sampled_from(["edges", "nodes"]),
    st.none() | st.tuples(st.integers(0, 3), st.integers(1, 3)),
)


@given(cells, st.sampled_from(["", "cell"]), st.integers(0, 2**32 - 1))
def test_laws_of_every_cell(cell, name, seed):
    domain, rng = Domain({name: cell}), np.random.default_rng(seed)
    parent, other = domain.sample(rng), domain.sample(rng)
    child = domain.mutate(parent, rng)
    for values in (parent, child, domain.crossover(parent, other, rng)):
        domain.check(values)
        assert domain.from_plain(json.loads(values.json())) == domain.from_plain(Values.parse(str(values))) == values
    changed = [key for key in parent if key in child and parent[key] != child[key]]
    assert len(changed) == min(1, domain.changeable(parent))
    again = Domain.from_schema(json.loads(json.dumps(domain.schema())))
    assert again.schema() == domain.schema()
    assert again.sample(np.random.default_rng(seed)) == parent


@given(cells, st.integers(0, 2**32 - 1))
def test_graphs_keep_the_limits_and_hold_every_value(cell, seed):
    values = Domain({"cell": cell}).sample(np.random.default_rng(seed))
    graph = cell.graph(values, "cell")
    for node in range(1, cell.nodes):
        taken = sum(target == node for _, target in graph.edges)
        least, most = cell.inputs or (node, node)
        assert min(least, node) <= taken <= min(most, node)
    places = graph.edges if cell.on == "edges" else range(1, cell.nodes - 1)
    assert set(graph.operations) == set(places)
    assert len(values) == len(graph.operations) + (cell.nodes - 1) * (cell.inputs is not None)


def test_samples_are_uniform_over_cells_with_conditions():
    domain = Domain({"": Cell(3, ("a", "b"), inputs=(1, 2))})
    rng, draws = np.random.default_rng(0), 16 * 400
    counts = dict.fromkeys(domain.assignments(), 0)
    for _ in range(draws):
        counts[domain.sample(rng)] += 1
    assert len(counts) == 2 * (2 + 2 + 4)
    assert sum((count - 400) ** 2 for count in counts.values()) / 400 < 15 + 6 * 30**0.5


MALFORMED = [
    (lambda: Cell(1, OPERATIONS), "nodes = 1 must be an int of at least 2"),
    (lambda: Cell(2, OPERATIONS, on="nodes"), "nodes = 2 must be an int of at least 3"),
    (lambda: Cell(True, OPERATIONS), "nodes = True must be an int"),
    (lambda: Cell(3, "conv"), "operations = 'conv' must be a list"),
    (lambda: Cell(3, []), "at least one option"),
    (lambda: Cell(3, ["a", "a"]), "'a' is given 2 times"),
    (lambda: Cell(3, OPERATIONS, on="edge"), 'on = \'edge\' must be "edges" or "nodes"'),
    (lambda: Cell(3, OPERATIONS, inputs=0), "inputs = 0: .* most at least 1"),
    (lambda: Cell(3, OPERATIONS, inputs=(2, 1)), r"inputs = \(2, 1\): least"),
    (lambda: Cell(3, OPERATIONS, inputs="two"), "inputs = 'two' must be an int, or a pair"),
    (lambda: Cell(15, OPERATIONS, inputs=(0, 14)), "16,384 sets of inputs, more than 4,096; allow fewer"),
    (lambda: Cell(3, OPERATIONS, when="a"), "write When"),
]


@pytest.mark.parametrize(("declare", "message"), MALFORMED)
def test_a_malformed_cell_says_what_is_wrong(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()


def test_a_cell_has_no_value_of_its_own():
    with pytest.raises(ValueError, match="'cell' is a block and has no value"):
        Domain({"cell": Cell(2, OPERATIONS), "a": Choice(1, when={"cell": 1})})

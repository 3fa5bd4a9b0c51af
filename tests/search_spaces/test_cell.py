"""Cells: their decisions by name, exact sizes, limits on inputs, and the graphs that architectures give."""

import json
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Cell, Choice, Domain, Integer, Repeat, Values
from search_spaces.counting import Counter

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


@st.composite
def cells(draw):
    nodes, on = draw(st.integers(3, 5)), draw(st.sampled_from(["edges", "nodes"]))
    inputs = draw(st.none() | st.tuples(st.integers(0, 3), st.integers(1, 3)).map(sorted).map(tuple))
    if inputs is None or draw(st.booleans()):
        return Cell(nodes, OPERATIONS, on, inputs)
    counts = Cell(nodes, OPERATIONS, on, inputs).input_counts.values()
    fewest, most = sum(map(min, counts)), sum(map(max, counts))
    least = draw(st.integers(0, most))
    return Cell(nodes, OPERATIONS, on, inputs, edges=(least, draw(st.integers(max(least + 1, fewest), most + 1))))


@given(cells(), st.sampled_from(["", "cell"]), st.integers(0, 2**32 - 1))
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


@given(cells(), st.integers(0, 2**32 - 1))
def test_graphs_keep_the_limits_and_hold_every_value(cell, seed):
    values = Domain({"cell": cell}).sample(np.random.default_rng(seed))
    graph = cell.graph(values, "cell")
    for node in range(1, cell.nodes):
        taken = sum(target == node for _, target in graph.edges)
        least, most = cell.inputs or (node, node)
        assert min(least, node) <= taken <= min(most, node)
    assert cell.edges is None or cell.edges[0] <= len(graph.edges) <= cell.edges[1]
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


def test_the_cells_of_nas_bench_101_are_counted_exactly():
    """Ying et al. 2019, section 2.1: 7 nodes, at most 9 of the 21 edges, 3 operations on 5 nodes."""
    cell = Cell(7, ("conv1x1", "conv3x3", "maxpool"), on="nodes", inputs=(0, 6), edges=(0, 9))
    assert Domain({"": cell}).size() == sum(comb(21, edges) for edges in range(10)) * 3**5


@pytest.mark.parametrize(("nodes", "most"), [(7, 9), (12, 20)])
def test_operations_of_limited_edges_are_a_factor(nodes, most):
    """Of 12 nodes the last has 2,048 sets of inputs: what follows must not be counted for each of them."""
    domain = Domain({"": Cell(nodes, OPERATIONS, inputs=(0, nodes - 1), edges=(0, most))})
    counter = Counter(domain.slots)
    assert counter.plan().count == sum(comb(comb(nodes, 2), edges) * 3**edges for edges in range(most + 1))
    assert len(counter._plans) < 4 * 2 ** (nodes - 1)


@given(cells(), st.integers(0, 2**32 - 1))
def test_edges_are_limited_in_lists_sizes_and_neighbours(cell, seed):
    def kept(values):
        return cell.edges is None or cell.edges[0] <= len(cell.graph(values, "cell").edges) <= cell.edges[1]

    free = Domain({"cell": Cell(cell.nodes, OPERATIONS[:2], cell.on, cell.inputs)})
    domain = Domain({"cell": Cell(cell.nodes, OPERATIONS[:2], cell.on, cell.inputs, edges=cell.edges)})
    if free.size() > 3_000:
        return
    expected = [values for values in free.assignments() if kept(values)]
    assert list(domain.assignments()) == expected
    assert domain.size() == len(expected)
    values = domain.sample(np.random.default_rng(seed))
    near = list(domain.neighbours(values))
    assert set(near) == {one for one in free.neighbours(values) if kept(one)}
    assert len(near) == len(set(near))
    assert domain.changeable(values) == len({key for one in near for key in values if one.get(key) != values[key]})


def test_what_breaks_the_limit_is_refused_or_mended():
    domain = Domain({"cell": Cell(4, ("a",), on="nodes", inputs=(0, 3), edges=(1, 2))}, "space")
    full = {"cell.1.inputs": (0,), "cell.1.operation": "a", "cell.2.inputs": (0, 1), "cell.2.operation": "a"}
    full["cell.3.inputs"] = ()
    with pytest.raises(ValueError, match="space.cell has 3 edges: it must have 1 to 2"):
        domain.check(full)
    mended = domain.complete(full, np.random.default_rng(0))
    domain.check(mended)
    assert mended["cell.1.inputs"] == (0,)


def test_every_cell_of_a_limit_can_be_reached_by_mutation():
    domain = Domain({"": Cell(4, ("a", "b"), inputs=(0, 3), edges=(2, 3))})
    start = next(domain.assignments())
    reached, new = {start}, [start]
    while new:
        new = [near for near in domain.neighbours(new.pop()) if near not in reached] + new
        reached.update(new)
    assert reached == set(domain.assignments())


def test_children_of_crossover_keep_the_limit_and_come_from_their_parents():
    domain, rng = Domain({"": Cell(6, ("a", "b"), on="nodes", inputs=(0, 5), edges=(2, 4))}), np.random.default_rng(0)
    mixed = 0
    for _ in range(200):
        a, b = domain.sample(rng), domain.sample(rng)
        child = domain.crossover(a, b, rng)
        domain.check(child)
        assert all(child[name] in (a[name], b[name]) for name in child)
        mixed += child not in (a, b)
    assert mixed > 100


def test_cells_with_limits_stand_in_blocks():
    cell = Cell(3, ("a",), on="nodes", inputs=(0, 2), edges=(1, 2))
    domain = Domain({"n": Integer(0, 2), "stage": Repeat("n", {"cell": cell})})
    one = comb(3, 1) + comb(3, 2)
    assert domain.size() == 1 + one + one**2 == len(set(domain.assignments()))
    rng = np.random.default_rng(0)
    counts = dict.fromkeys(domain.assignments(), 0)
    for _ in range(43 * 100):
        counts[domain.sample(rng)] += 1
    assert sum((count - 100) ** 2 for count in counts.values()) / 100 < 42 + 6 * 84**0.5


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
    (lambda: Cell(3, OPERATIONS, inputs=2, edges=3), r"edges = 3 must be a pair of ints, least and most, as \(0, 9\)"),
    (lambda: Cell(3, OPERATIONS, edges=(0, 3)), "give inputs too"),
    (
        lambda: Cell(3, OPERATIONS, inputs=(1, 2), edges=(0, 1)),
        r"\(1, 2\) give 2 to 3 edges in all; let",
    ),
    (
        lambda: Cell(4, OPERATIONS, inputs=(0, 3), edges=(7, 9)),
        r"\(7, 9\): inputs = \(0, 3\) give 0 to 6 edges",
    ),
    (lambda: Cell(4, OPERATIONS, inputs=(0, 3), edges=(3, 3)), r"least must be below most.*; say \(2, 3\) for example"),
    (lambda: Cell(4, OPERATIONS, inputs=(0, 3), edges=(-1, 9)), r"edges = \(-1, 9\): no cell has fewer than 0"),
    (lambda: Cell(3, OPERATIONS, inputs=(1, 2), edges=(4, 9)), r"inputs = \(1, 2\) give 2 to 3 edges in all"),
    (lambda: Cell(3, OPERATIONS, inputs=(0, 2), edges=(2, 2)), "least must be below most"),
]


@pytest.mark.parametrize(("declare", "message"), MALFORMED)
def test_a_malformed_cell_says_what_is_wrong(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()


def test_a_cell_has_no_value_of_its_own():
    with pytest.raises(ValueError, match="'cell' is a block and has no value"):
        Domain({"cell": Cell(2, OPERATIONS), "a": Choice(1, when={"cell": 1})})

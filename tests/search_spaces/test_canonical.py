"""Canonical forms: equal for isomorphic cells and for what is dead, different for networks that differ."""

from itertools import permutations
from math import cos, sin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.canonical import canonical_form
from search_spaces.cell_graph import CellGraph

RULES = {"none": {"none"}, "identity": {"skip"}, "parameter_free": {"pool"}}
OPERATIONS = ("none", "skip", "conv", "dense", "pool")


def form(nodes, operations):
    return canonical_form(CellGraph(nodes, tuple(operations), operations), **RULES)


@st.composite
def graphs(draw, most=6):
    nodes = draw(st.integers(2, most))
    pairs = [(source, target) for target in range(nodes) for source in range(target)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12))
    operations = {edge: draw(st.sampled_from(OPERATIONS)) for edge in edges}
    if draw(st.booleans()):
        return CellGraph(nodes, tuple(edges), operations)
    between = {node: draw(st.sampled_from(OPERATIONS)) for node in range(1, nodes - 1)}
    return CellGraph(nodes, tuple(edges), between)


def renumbered(graph, numbers):
    def move(place):
        return numbers[place] if isinstance(place, int) else (numbers[place[0]], numbers[place[1]])

    moved = {move(place): operation for place, operation in graph.operations.items()}
    return CellGraph(graph.nodes, tuple(map(move, graph.edges)), moved)


def orders(graph):
    """All renumberings of the nodes between input and output under which edges still run to higher numbers."""
    for between in permutations(range(1, graph.nodes - 1)):
        numbers = (0, *between, graph.nodes - 1)
        if all(numbers[source] < numbers[target] for source, target in graph.edges):
            yield numbers


@given(graphs(), st.data())
def test_isomorphic_graphs_have_one_form(graph, data):
    other = renumbered(graph, data.draw(st.sampled_from(list(orders(graph)))))
    assert canonical_form(other, **RULES) == canonical_form(graph, **RULES)


@given(graphs(5), st.sampled_from(OPERATIONS), st.data())
def test_dead_branches_make_no_difference(graph, operation, data):
    """A new node, numbered last but one, that is fed and not used, or used and not fed."""
    new, last = graph.nodes - 1, graph.nodes
    numbers = {**{node: node for node in range(new)}, new: last}
    moved = renumbered(CellGraph(last + 1, graph.edges, graph.operations), {**numbers, last: new})
    others = st.integers(0, new - 1)
    dead = (data.draw(others), new) if data.draw(st.booleans()) else (new, last)
    on_edges = any(isinstance(place, tuple) for place in graph.operations)
    operations = {**moved.operations, dead if on_edges else new: operation}
    more = CellGraph(last + 1, (*moved.edges, dead), operations)
    assert canonical_form(more, **RULES) == canonical_form(graph, **RULES)


FUNCTIONS = {"conv": lambda x: sin(3 * x + 1), "dense": lambda x: cos(5 * x - 2), "pool": lambda x: x / 3 + 0.1}


def value(graph, at=0.3):
    """The graph's output for numbers, all operations of one name being one function; None where nothing arrives."""

    def apply(place, x):
        operation = graph.operations.get(place, "skip")
        if x is None or operation == "none":
            return None
        return x if operation == "skip" else FUNCTIONS[operation](x)

    values = [at]
    for node in range(1, graph.nodes):
        terms = [apply(edge, values[edge[0]]) for edge in graph.edges if edge[1] == node]
        terms = [term for term in terms if term is not None]
        values.append(apply(node, sum(terms)) if terms else None)
    return values[-1]


def test_equal_forms_are_equal_functions_of_all_small_cells():
    seen = {}
    pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    for code in range(4**6):
        operations = {pair: ("none", "skip", "conv", "pool")[code // 4**at % 4] for at, pair in enumerate(pairs)}
        graph = CellGraph(4, tuple(pairs), operations)
        seen.setdefault(canonical_form(graph, **RULES), []).append(value(graph))
    assert len(seen) < 4**6 / 2
    for values in seen.values():
        assert [each is None for each in values] == [values[0] is None] * len(values)
        assert values[0] is None or max(values) - min(values) < 1e-9


SAME = [
    ("a node that is only a skip", 3, {(0, 1): "skip", (1, 2): "conv"}, {(0, 2): "conv"}),
    ("skips in a row", 4, {(0, 1): "conv", (1, 2): "skip", (2, 3): "skip"}, {(0, 3): "conv"}),
    ("a sum that is passed on", 4, {(0, 1): "conv", (0, 2): "conv", (1, 2): "skip", (2, 3): "skip"},
     {(0, 1): "conv", (1, 3): "skip", (0, 3): "conv"}),
    ("one pool or two of one value", 4, {(0, 1): "pool", (0, 2): "pool", (1, 3): "conv", (2, 3): "dense"},
     {(0, 1): "pool", (1, 3): "conv", (0, 2): "pool", (2, 3): "dense"}),
    ("a pool used twice, and two pools", 4, {(0, 1): "pool", (1, 2): "skip", (1, 3): "skip", (2, 3): "skip"},
     {(0, 1): "pool", (0, 2): "pool", (1, 3): "skip", (2, 3): "skip"}),
    ("zeros", 4, {(0, 1): "none", (1, 3): "conv", (0, 3): "pool"}, {(0, 3): "pool"}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "one", "other"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_the_same_network(nodes, one, other):
    assert form(nodes, one) == form(nodes, other)


DIFFERENT = [
    ("a term twice is not the term", 3, {(0, 1): "pool", (1, 2): "skip", (0, 2): "pool"}, {(0, 2): "pool"}),
    ("one convolution used twice is not two", 4,
     {(0, 1): "conv", (1, 2): "skip", (1, 3): "skip", (2, 3): "skip"},
     {(0, 1): "conv", (0, 2): "conv", (1, 3): "skip", (2, 3): "skip"}),
    ("shared below, or not", 5,
     {(0, 1): "conv", (1, 2): "conv", (1, 3): "conv", (2, 4): "skip", (3, 4): "skip"},
     {(0, 1): "conv", (1, 3): "conv", (0, 2): "conv", (2, 4): "conv", (3, 4): "skip"}),
    ("a pool of a sum is not a sum of pools", 4,
     {(0, 1): "conv", (0, 2): "conv", (1, 2): "skip", (2, 3): "pool"},
     {(0, 1): "conv", (0, 2): "conv", (1, 3): "pool", (2, 3): "pool"}),
    ("order of operations", 3, {(0, 1): "conv", (1, 2): "pool"}, {(0, 1): "pool", (1, 2): "conv"}),
    ("no output", 3, {(0, 1): "conv"}, {(0, 2): "skip"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "one", "other"), [case[1:] for case in DIFFERENT], ids=[case[0] for case in DIFFERENT]
)
def test_different_networks(nodes, one, other):
    assert form(nodes, one) != form(nodes, other)


def test_colours_alone_cannot_tell_but_the_form_does():
    """Two squares and one ring of eight: every node has the same neighbourhood, the graphs are not isomorphic."""

    def bipartite(pairs):
        inputs = {(0, node): "conv" for node in range(1, 5)}
        lower = {(source, target): "skip" for source, target in pairs}
        return form(10, inputs | lower | {(node, 9): "dense" for node in range(5, 9)})

    squares = [(1, 5), (1, 6), (2, 5), (2, 6), (3, 7), (3, 8), (4, 7), (4, 8)]
    ring = [(1, 5), (1, 6), (2, 6), (2, 7), (3, 7), (3, 8), (4, 8), (4, 5)]
    turned = [(source % 4 + 1, target) for source, target in ring]
    assert bipartite(ring) == bipartite(turned)
    assert bipartite(ring) != bipartite(squares)


@pytest.mark.parametrize(("chains", "length"), [(14, 1), (8, 2), (6, 3)])
def test_many_branches_alike_are_not_tried_in_every_order(chains, length):
    """There are 14! orders of 14 branches."""

    def network(order):
        edges, operations = [], {}
        for chain in order:
            nodes = [0, *(1 + step * chains + chain for step in range(length)), chains * length + 1]
            edges += zip(nodes, nodes[1:], strict=False)
            operations |= {node: "ab"[order[chain] % 2] for node in nodes[1:-1]}
        return CellGraph(chains * length + 2, tuple(edges), operations)

    order = [*range(chains)]
    assert canonical_form(network(order)) == canonical_form(network(order[::-1]))
    assert len(canonical_form(network(order))) == chains * length + 1


def test_operations_on_nodes():
    # Ying et al. 2019, figure 1: two numberings of one cell
    one = CellGraph(5, ((0, 1), (0, 2), (1, 3), (2, 4), (3, 4)), {1: "conv", 2: "pool", 3: "dense"})
    other = CellGraph(5, ((0, 2), (0, 1), (2, 3), (1, 4), (3, 4)), {2: "conv", 1: "pool", 3: "dense"})
    assert canonical_form(one, **RULES) == canonical_form(other, **RULES)
    assert canonical_form(one, **RULES) == form(5, {(0, 1): "conv", (0, 4): "pool", (1, 4): "dense"})


def test_options_of_different_types_stay_apart():
    forms = {canonical_form(CellGraph(2, ((0, 1),), {(0, 1): option})) for option in (1, 1.0, "1", True, None, (1,))}
    assert len(forms) == 6


@pytest.mark.parametrize("edges", [((0, 0),), ((1, 0),), ((0, 3),), ((-1, 1),), ((0, 1), (0, 1))])
def test_malformed_graphs_are_refused(edges):
    with pytest.raises(ValueError, match="edge"):
        CellGraph(3, edges, {})

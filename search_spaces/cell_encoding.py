"""Numeric encodings of a cell graph, for surrogate models (White et al. 2020, "A study on encodings for NAS")."""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from search_spaces.cell_graph import CellGraph, Edge
from search_spaces.values import Value

Encoding: TypeAlias = NDArray[np.float64]


def adjacency_encoding(graph: CellGraph, operations: Sequence[Value], on: str = "edges") -> Encoding:
    """One-hot adjacency (section 3): what stands at each place; zeros at an edge that is not there.

    ``on="edges"``: the operation of the edge of each pair of nodes, one-hot, shape [pairs * operations].
    ``on="nodes"``: whether each pair has an edge, then the operation of each node between input and output,
    one-hot, shape [pairs + (nodes - 2) * operations].
    """
    pairs = [(source, target) for target in range(graph.nodes) for source in range(target)]
    if on == "edges":
        return _one_hot(graph, pairs, operations)
    bits = np.array([pair in graph.edges for pair in pairs], dtype=np.float64)
    return np.concatenate([bits, _one_hot(graph, range(1, graph.nodes - 1), operations)])


def path_encoding(
    graph: CellGraph,
    operations: Sequence[Value],
    on: str = "edges",
    none: Container[Value] = (),
    longest: int | None = None,
    identity: Container[Value] | None = None,
) -> Encoding:
    """Path encoding (section 3; White et al. 2021, BANANAS): which sequences of operations lead from input to output.

    One 0 or 1 for each sequence of ``operations`` without ``none``, short ones first: of 1 to nodes - 1
    operations on edges, or of 0 to nodes - 2 on nodes. ``longest`` truncates it to sequences of at most so many. With
    ``identity`` its operations are left out of the sequences, which on edges may then be empty too.
    """
    left_out = () if identity is None else identity
    real = [operation for operation in operations if operation not in none and operation not in left_out]
    shortest, most = (int(identity is None), graph.nodes - 1) if on == "edges" else (0, graph.nodes - 2)
    most = most if longest is None else min(most, longest)
    lengths = range(shortest, most + 1)
    starts = dict(zip(lengths, np.cumsum([0, *(len(real) ** length for length in lengths)]).tolist(), strict=False))
    encoding = np.zeros(sum(len(real) ** length for length in lengths))
    for steps in set(_paths(graph.live(none))):
        path = [step for step in steps if step not in left_out]
        if len(path) in lengths:
            place = sum(real.index(step) * len(real) ** at for at, step in enumerate(reversed(path)))
            encoding[starts[len(path)] + place] = 1.0
    return encoding


def operation_counts(graph: CellGraph, operations: Sequence[Value], none: Container[Value] = ()) -> Encoding:
    """How often each of ``operations`` without ``none`` stands on a way from input to output."""
    edges = graph.live(none).edges
    places = {*edges, *(node for edge in edges for node in edge)}
    live = [operation for place, operation in graph.operations.items() if place in places]
    return np.array([float(live.count(operation)) for operation in operations if operation not in none])


def _one_hot(graph: CellGraph, places: Iterable[Edge | int], operations: Sequence[Value]) -> Encoding:
    return np.array(
        [
            float(place in graph.operations and graph.operations[place] == operation)
            for place in places
            for operation in operations
        ]
    )


def _paths(graph: CellGraph, node: int = 0) -> Iterator[tuple[Value, ...]]:
    """The operations on each way from ``node`` to the output, in order."""
    if node == graph.nodes - 1:
        yield ()
    for edge in graph.edges:
        if edge[0] == node:
            passed = tuple(graph.operations[place] for place in (edge, edge[1]) if place in graph.operations)
            yield from (passed + rest for rest in _paths(graph, edge[1]))

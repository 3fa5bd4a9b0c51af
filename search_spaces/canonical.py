"""The canonical form of a cell graph: equal exactly for graphs that are the same network, up to isomorphism.

The graph is first rewritten as its terms: one application of an operation each, to a sum of terms. Dead branches,
zeros and identities vanish in this; what is left is a labelled acyclic graph, brought to its canonical order by colour
refinement and, among terms that it cannot tell apart, by trying those that no automorphism maps onto one that was tried
(McKay and Piperno 2014). Where more than 2,000 refinements do not decide, the first order found is taken: then
isomorphic graphs may have two forms, never different graphs one.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from search_spaces.cell_graph import CellGraph, Edge
from search_spaces.conditions import typed_key
from search_spaces.values import Value

_MOST_REFINEMENTS = 2_000

Form: TypeAlias = tuple[tuple[bytes, tuple[int, ...]], ...]
"""For each term its operation as JSON and the numbers of the terms that it takes, 0 for the input; the output last."""

_Sum: TypeAlias = tuple[int, ...]
"""Numbers of terms, sorted; a term that is added twice stands twice."""


def canonical_form(
    graph: CellGraph,
    *,
    none: Container[Value] = (),
    identity: Container[Value] = (),
    parameter_free: Container[Value] = (),
) -> Form:
    """The form of the network that ``graph`` stands for, hashable.

    Two graphs have one form exactly if an isomorphism maps the terms of one onto those of the other. Nothing flows
    through the operations ``none``, nor through a node without live inputs; ``identity`` passes a value on; sums
    are taken in any order. Terms with parameters are never merged; applied to the same value, an operation of
    ``parameter_free`` gives the same value, which is still added as often as the graph says.
    """
    terms = _Terms(identity, parameter_free)
    terms.read(graph.live(none))
    return _least_form(terms.operations, terms.inputs)


@dataclass
class _Terms:
    """The terms of a graph, numbered from 1; ``operations`` and ``inputs`` have the graph's input at 0."""

    identity: Container[Value]
    parameter_free: Container[Value]

    def __post_init__(self) -> None:
        self.operations: list[bytes] = [b""]
        self.inputs: list[_Sum] = [()]
        self._shared: dict[tuple[bytes, _Sum], int] = {}

    def read(self, graph: CellGraph) -> None:
        """Take all terms of ``graph``; the output comes last, as a term without operation."""
        arriving: list[list[int]] = [[] for _ in range(graph.nodes)]
        values: list[_Sum] = [(0,)]
        for source, target in graph.edges:
            while len(values) <= source:
                values.append(self._apply(graph, len(values), tuple(sorted(arriving[len(values)]))))
            arriving[target] += self._apply(graph, (source, target), values[source])
        self._add(b"", self._apply(graph, graph.nodes - 1, tuple(sorted(arriving[-1]))))

    def _apply(self, graph: CellGraph, place: Edge | int, value: _Sum) -> _Sum:
        """What the operation at ``place`` makes of ``value``."""
        if not value or place not in graph.operations:
            return value
        operation = graph.operations[place]
        if operation in self.identity:
            return value
        if operation not in self.parameter_free:
            return (self._add(typed_key(operation), value),)
        term = typed_key(operation), value
        if term not in self._shared:
            self._shared[term] = self._add(*term)
        return (self._shared[term],)

    def _add(self, operation: bytes, inputs: _Sum) -> int:
        self.operations.append(operation)
        self.inputs.append(inputs)
        return len(self.inputs) - 1


def _least_form(operations: Sequence[bytes], inputs: Sequence[_Sum]) -> Form:
    users: list[list[int]] = [[] for _ in inputs]
    for term, taken in enumerate(inputs):
        for other in taken:
            users[other].append(term)
    ranks = {operation: rank for rank, operation in enumerate(sorted(set(operations[1:-1])), 1)}
    first_colours = [0, *(ranks[operation] for operation in operations[1:-1]), len(ranks) + 1]

    refinements = 0

    def refined(colours: list[int]) -> list[int]:
        nonlocal refinements
        refinements += 1
        return _refined(colours, inputs, users)

    def first(colours: list[int]) -> Form:
        """That of the first term of each tie."""
        while len(set(colours)) < len(colours):
            colours = refined(_singled_out(colours, _first_tied(colours)[0]))
        order = sorted(range(len(colours)), key=colours.__getitem__)
        return tuple((operations[at], tuple(sorted(colours[i] for i in inputs[at]))) for at in order[1:])

    def least(colours: list[int]) -> Form:
        if len(set(colours)) == len(colours) or refinements > _MOST_REFINEMENTS:
            return first(colours)
        searched: dict[Form, Form] = {}
        for term in _first_tied(colours):
            branch = refined(_singled_out(colours, term))
            leaf = first(branch)
            if leaf not in searched:  # else an automorphism maps this branch onto one that was searched
                searched[leaf] = least(branch)
        return min(searched.values())

    return least(refined(first_colours))


def _refined(colours: list[int], inputs: Sequence[_Sum], users: Sequence[Sequence[int]]) -> list[int]:
    """Split colours by those of inputs and users until none splits; numbered from 0, in an order that isomorphisms
    keep.
    """
    count = len(set(colours))
    while True:
        seen = [
            (
                colours[term],
                tuple(sorted([colours[other] for other in inputs[term]])),
                tuple(sorted([colours[other] for other in users[term]])),
            )
            for term in range(len(colours))
        ]
        ranks = {what: rank for rank, what in enumerate(sorted(set(seen)))}
        colours = [ranks[what] for what in seen]
        if len(ranks) in (count, len(colours)):
            return colours
        count = len(ranks)


def _first_tied(colours: Sequence[int]) -> list[int]:
    """All terms of the first colour that several have; there must be one."""
    members: dict[int, list[int]] = {}
    for term, colour in enumerate(colours):
        members.setdefault(colour, []).append(term)
    return next(members[colour] for colour in sorted(members) if len(members[colour]) > 1)


def _singled_out(colours: Sequence[int], term: int) -> list[int]:
    return [2 * colour - (other == term) for other, colour in enumerate(colours)]

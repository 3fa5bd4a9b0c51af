"""Cells of which it is said what their operations are (`Cell.sums`): what keys and surrogate models take of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from search_spaces.canonical import canonical_form
from search_spaces.cell import KINDS, Cell
from search_spaces.cell_graph import CellGraph
from search_spaces.conditions import typed_key
from search_spaces.values import Value

Features: TypeAlias = tuple[tuple[float, ...], ...]

MOST_PATHS = 400
"""Of all cells of a space together."""
_MOST_NODES = 10
"""Of graphs of which all paths are followed: there are up to 2^(nodes - 2) of them."""


@dataclass(frozen=True)
class SummedCell:
    """The cell of a space under its flat ``name``; ``paths`` bounds the sequences of operations told apart."""

    name: str
    cell: Cell
    paths: int

    def form(self, values: Mapping[str, Value]) -> Any:
        """The `canonical_form` of the network as plain JSON; None where the cell is not active in ``values``."""
        graph = self._graph(values)
        if graph is None:
            return None
        form = canonical_form(graph, **self._kinds)
        return [[operation.decode(), inputs] for operation, inputs in form]

    def features(self, values: Mapping[str, Value]) -> Features:
        """Equal for equal forms: a group of paths, then half the number of each operation that has weights.

        The paths are 0 or 1 for each sequence of operations, identities left out, that may lead from input to output,
        as far as they are told apart. All are 0 where the cell is not active.
        """
        from search_spaces.cell_encoding import operation_counts, path_encoding

        graph = self._graph(values) or CellGraph(self.cell.nodes, (), {})
        places, none, identity = range(len(self.cell.operations)), self._kinds["none"], self._kinds["identity"]
        groups: list[tuple[float, ...]] = []
        if self._longest:
            paths = path_encoding(graph, places, self.cell.on, none, self._longest, identity)
            groups.append(tuple(paths.tolist()))
        with_weights = [place for place in places if not any(place in kind for kind in self._kinds.values())]
        counts = operation_counts(graph, with_weights, none)
        return *groups, *((count / 2,) for count in counts.tolist())

    @cached_property
    def leaves(self) -> frozenset[str]:
        """The flat names of its decisions."""
        return frozenset(map(self._flat, self.cell.leaves))

    def _flat(self, leaf: str) -> str:
        return f"{self.name}.{leaf}" if self.name else leaf

    def _graph(self, values: Mapping[str, Value]) -> CellGraph | None:
        """The graph with the places of operations in place of these, which are told apart by their types too."""
        if self._flat(next(iter(self.cell.leaves))) not in values:
            return None
        graph = self.cell.graph(values, self.name)
        operations = {at: self._places[typed_key(operation)] for at, operation in graph.operations.items()}
        return CellGraph(graph.nodes, graph.edges, operations)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {typed_key(operation): place for place, operation in enumerate(self.cell.operations)}

    @cached_property
    def _kinds(self) -> dict[str, frozenset[int]]:
        """The places of what is of each kind."""
        given = {kind: getattr(self.cell, kind) or () for kind in KINDS}
        return {kind: frozenset(self._places[typed_key(one)] for one in of) for kind, of in given.items()}

    @cached_property
    def _longest(self) -> int:
        """The longest sequence of which all are told apart; 0 where not even single operations are."""
        real = len(self.cell.operations) - len(self._kinds["none"]) - len(self._kinds["identity"])
        most = self.cell.nodes - (1 if self.cell.on == "edges" else 2)
        longest, total = 0, 1
        while longest < most and self.cell.nodes <= _MOST_NODES and total + real ** (longest + 1) <= self.paths:
            longest += 1
            total += real**longest
        return longest

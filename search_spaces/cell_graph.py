"""The graph of a cell: what flows where, and through which operations."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from search_spaces.values import Value

Edge: TypeAlias = tuple[int, int]
"""From a node to one with a higher number."""


@dataclass(frozen=True, slots=True)
class CellGraph:
    """Node 0 is the input, node ``nodes - 1`` the output; a node sums what its incoming edges bring.

    ``operations`` are by place: an edge, or a node, whose operation then takes the sum. A place without an
    operation passes on what it gets. Raises ValueError for edges that are repeated or run to no higher node.
    """

    nodes: int
    edges: tuple[Edge, ...]
    operations: Mapping[Edge | int, Value]

    def __post_init__(self) -> None:
        for source, target in self.edges:
            if not 0 <= source < target < self.nodes:
                raise ValueError(f"edge {source, target} of a graph of {self.nodes} nodes must run to a higher node")
        if len(set(self.edges)) < len(self.edges):
            raise ValueError(f"edges = {self.edges} name one edge twice")
        object.__setattr__(self, "edges", tuple(sorted(self.edges, key=lambda edge: edge[::-1])))

    def live(self, none: Container[Value] = ()) -> "CellGraph":
        """The graph without dead branches: only edges on a way from input to output.

        ``none`` are operations through which nothing flows.
        """
        shut = {place for place, operation in self.operations.items() if operation in none}
        open_edges = [edge for edge in self.edges if shut.isdisjoint((edge, *edge))]
        reached = {0}
        for source, target in open_edges:  # by target: all edges into a source come before those out of it
            if source in reached:
                reached.add(target)
        needed = {self.nodes - 1}
        for source, target in reversed(open_edges):
            if target in needed:
                needed.add(source)
        edges = tuple((source, target) for source, target in open_edges if source in reached and target in needed)
        return CellGraph(self.nodes, edges, self.operations)

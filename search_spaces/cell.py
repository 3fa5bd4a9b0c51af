"""A cell: a small directed acyclic graph, whose edges and operations are decisions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any

from search_spaces.cell_graph import CellGraph, Edge
from search_spaces.choice import Choice
from search_spaces.conditions import ConditionLike, When, conditions_schema, plain_value, typed_key
from search_spaces.decision import Decision
from search_spaces.values import Value

KINDS = ("none", "identity", "parameter_free")
"""What operations of a cell may be said to be."""

_ON = ("edges", "nodes")
_MOST_INPUT_SETS = 4_096


@dataclass(frozen=True)
class Cell(Decision):
    """A graph of ``nodes`` nodes: 0 is the input, the last one the output, edges run from lower to higher numbers.

    ``on="edges"``: every edge has one of ``operations``, ``cell.2<-0`` that of the edge from 0 to 2 (NAS-Bench-201,
    DARTS). ``on="nodes"``: every node between input and output has one, ``cell.2.operation``, and the output
    has none (NAS-Bench-101).

    Without ``inputs`` every node takes all nodes before it. With it, a node's inputs are a decision of their own, a
    tuple of nodes, ``cell.2.inputs``: exactly ``inputs`` of them, or ``inputs = (least, most)``; a node with
    fewer before it may take them all. Edges that are not taken have no operation.

    ``edges = (least, most)`` limits the edges that all nodes take together, as the 9 of NAS-Bench-101; it needs
    ``inputs``. Samples stay uniform and sizes exact; a decision then changes only as far as the others leave room. The
    two differ, or one change at a time could not lead from each cell to every other.

    ``none``, ``identity`` and ``parameter_free`` say what some of the operations are: nothing flows through the first,
    the second pass on what they get, the third have no weights. Give one of them, if only as ``()``, where a node is
    the sum of what reaches it: then cells that are the same network, isomorphic or but for dead branches, have one key,
    and surrogate models see which sequences of operations lead from input to output.

    In a space that is one cell its name may be empty: ``{"": Cell(...)}`` gives ``2<-0``. Raises ValueError for
    malformed arguments, limits that no cell keeps, and where a node had more than 4,096 sets of inputs.
    """

    nodes: int
    operations: Sequence[Any]
    on: str = "edges"
    inputs: int | Sequence[int] | None = None
    when: ConditionLike = None
    edges: Sequence[int] | None = field(default=None, kw_only=True)
    none: Sequence[Any] | None = field(default=None, kw_only=True)
    identity: Sequence[Any] | None = field(default=None, kw_only=True)
    parameter_free: Sequence[Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.on not in _ON:
            raise ValueError(f'Cell: on = {self.on!r} must be "edges" or "nodes", the place of operations')
        least = 2 if self.on == "edges" else 3
        if not _is_int(self.nodes) or self.nodes < least:
            raise ValueError(f"Cell: nodes = {self.nodes!r} must be an int of at least {least}, with input and output")
        if isinstance(self.operations, str) or not isinstance(self.operations, Sequence):
            raise ValueError(f"Cell: operations = {self.operations!r} must be a list of options")
        object.__setattr__(self, "operations", Choice(*self.operations).options)
        object.__setattr__(self, "inputs", _limits(self.inputs))
        sets = sum(comb(self.nodes - 1, count) for count in self._counts(self.nodes - 1))
        if self.inputs is not None and sets > _MOST_INPUT_SETS:
            raise ValueError(
                f"Cell: inputs = {self.inputs} leave the last of {self.nodes} nodes {sets:,} sets of inputs, "
                f"more than {_MOST_INPUT_SETS:,}; allow fewer inputs, or fewer nodes"
            )
        object.__setattr__(self, "edges", self._edge_limits())
        self._check_kinds()
        _ = self.conditions

    @cached_property
    def leaves(self) -> dict[str, Choice]:
        """Its decisions by name, node by node; their conditions name decisions of the cell only."""
        named: dict[str, Choice] = {}
        for node in range(1, self.nodes):
            if self.inputs is not None:
                named[f"{node}.inputs"] = Choice(*self._input_sets(node))
            if self.on == "edges":
                for source in range(node):
                    named[f"{node}<-{source}"] = Choice(*self.operations, when=self._taken(node, source))
            elif node < self.nodes - 1:
                named[f"{node}.operation"] = Choice(*self.operations)
        return named

    def graph(self, values: Mapping[str, Value], name: str = "") -> CellGraph:
        """The graph that ``values``, an architecture, gives to the cell declared as ``name`` (its flat name)."""
        prefix = f"{name}." if name else ""
        edges = tuple(edge for node in range(1, self.nodes) for edge in self._edges_into(node, values, prefix))
        if self.on == "edges":
            return CellGraph(self.nodes, edges, {(at, to): values[f"{prefix}{to}<-{at}"] for at, to in edges})
        between = range(1, self.nodes - 1)
        return CellGraph(self.nodes, edges, {node: values[f"{prefix}{node}.operation"] for node in between})

    @property
    def sums(self) -> bool:
        """Whether it is said what its operations are, and so that nodes are sums."""
        return any(getattr(self, kind) is not None for kind in KINDS)

    def schema(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "type": "cell",
            "nodes": self.nodes,
            "operations": [*map(plain_value, self.operations)],
            "on": self.on,
            "inputs": list(self.inputs) if isinstance(self.inputs, tuple) else None,
            **({} if self.edges is None else {"edges": list(self.edges)}),
            **{kind: [*map(plain_value, given)] for kind in KINDS if (given := getattr(self, kind)) is not None},
            **conditions_schema(self.conditions),
        }

    @property
    def input_counts(self) -> dict[str, range]:
        """How many inputs each node may have that chooses them, by the name of that decision."""
        return {} if self.inputs is None else {f"{node}.inputs": self._counts(node) for node in range(1, self.nodes)}

    def _check_kinds(self) -> None:
        known = {*map(typed_key, self.operations)}
        said: dict[bytes, str] = {}
        for kind in KINDS:
            given = getattr(self, kind)
            if given is None:
                continue
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise ValueError(f"Cell: {kind} = {given!r} must be a list of operations")
            object.__setattr__(self, kind, Choice(*given).options if given else ())
            for operation in getattr(self, kind):
                key = typed_key(operation)
                if key not in known:
                    raise ValueError(
                        f"Cell: {kind} = {given!r}: {operation!r} is not in operations = {self.operations}"
                    )
                if key in said:
                    raise ValueError(f"Cell: {operation!r} stands in {said[key]} and in {kind}; let it stand in one")
                said[key] = kind

    def _edge_limits(self) -> tuple[int, int] | None:
        if self.edges is None:
            return None
        if not isinstance(self.edges, list | tuple) or len(self.edges) != 2 or not all(map(_is_int, self.edges)):
            raise ValueError(f"Cell: edges = {self.edges!r} must be a pair of ints, least and most, as (0, 9)")
        if self.inputs is None:
            raise ValueError(f"Cell: edges = {self.edges!r} limits the inputs that nodes choose; give inputs too")
        least, most = self.edges
        counts = self.input_counts.values()
        fewest, all_edges = sum(count[0] for count in counts), sum(count[-1] for count in counts)
        if least < 0:
            raise ValueError(f"Cell: edges = {self.edges!r}: no cell has fewer than 0; let least be 0 or more")
        if least >= most:
            raise ValueError(
                f"Cell: edges = {self.edges!r}: least must be below most, or one change at a time could not lead from "
                f"each cell to every other; say ({max(0, most - 1)}, {max(1, most)}) for example"
            )
        if most < fewest or all_edges < least:
            raise ValueError(
                f"Cell: edges = {self.edges!r}: inputs = {self.inputs} give {fewest} to {all_edges} edges in all; let "
                "the two leave some of these"
            )
        return least, most

    def _counts(self, before: int) -> range:
        """How many inputs a node may have that has ``before`` nodes before it."""
        least, most = self.inputs if isinstance(self.inputs, tuple) else (before, before)
        return range(min(least, before), min(most, before) + 1)

    def _input_sets(self, node: int) -> list[tuple[int, ...]]:
        return [sources for count in self._counts(node) for sources in combinations(range(node), count)]

    def _taken(self, node: int, source: int) -> When | None:
        """The condition under which an edge exists."""
        if self.inputs is None:
            return None
        return When(f"{node}.inputs", *(sources for sources in self._input_sets(node) if source in sources))

    def _edges_into(self, node: int, values: Mapping[str, Value], prefix: str) -> Iterator[Edge]:
        sources = range(node) if self.inputs is None else values[f"{prefix}{node}.inputs"]
        assert isinstance(sources, range | tuple)
        for source in sources:
            assert isinstance(source, int)
            yield source, node


def _limits(inputs: Any) -> tuple[int, int] | None:
    if inputs is None:
        return None
    pair = (inputs, inputs) if _is_int(inputs) else inputs
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(map(_is_int, pair)):
        raise ValueError(f"Cell: inputs = {inputs!r} must be an int, or a pair of ints, least and most")
    least, most = pair
    if not 0 <= least <= most or most == 0:
        raise ValueError(f"Cell: inputs = {inputs!r}: least must be at least 0, and most at least 1 and least")
    return least, most


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

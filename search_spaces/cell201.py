"""The search space of NAS-Bench-201 (Dong and Yang 2020): one cell of four nodes, stacked in three stages."""

from functools import cache, cached_property
from typing import TYPE_CHECKING

from search_spaces.arguments import int_of
from search_spaces.canonical import Form, canonical_form
from search_spaces.cell import Cell
from search_spaces.cell_graph import CellGraph
from search_spaces.images import check_images
from search_spaces.signature import Signature
from search_spaces.space import SearchSpace
from search_spaces.summed_cells import MOST_PATHS, Features, SummedCell
from search_spaces.values import Architecture, Value

if TYPE_CHECKING:
    from torch.nn import Module

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NONE = frozenset({"none"})
_CELL = Cell(4, OPERATIONS)
_EDGES = tuple(_CELL.leaves)
_IDENTITY, _PARAMETER_FREE = ("skip_connect",), ("avg_pool_3x3",)
_NETWORK = SummedCell(
    "", Cell(4, OPERATIONS, none=(*NONE,), identity=_IDENTITY, parameter_free=_PARAMETER_FREE), MOST_PATHS
)


class Cell201(SearchSpace):
    """Classifiers of images of any size, number of channels and number of classes.

    The skeleton of NAS-Bench-201: a stem of ``width`` channels, three stages of ``cells`` cells whose width doubles
    from stage to stage, a residual block that halves the image between two stages, global average pooling and a
    linear head. All cells are alike; ``2<-0`` is the operation from node 0 to node 2 of each.
    """

    def __init__(self, width: int = 16, cells: int = 5) -> None:
        self.width = int_of("width", width, 1)
        self.cells = int_of("cells", cells, 1)
        self.decisions = {"": _CELL}

    def canonical(self, architecture: Architecture) -> Architecture:
        """The first architecture, in the order of the options, that is the same network and the same expression.

        The same network: equal `canonical_form`, so that isomorphic cells and dead branches make no difference.
        The same expression: the benchmark's own rule (`expression`), finer in places, for it counts zero terms
        and heeds the order of sums; codes that the benchmark tells apart stay apart here too.
        """
        alike = self._by_expression[expression(architecture)]
        if len(alike) == 1:
            return alike[0]
        form = _form(architecture)
        return next(other for other in alike if _form(other) == form)

    def graph(self, architecture: Architecture) -> CellGraph:
        """The cell of an architecture."""
        return _CELL.graph(architecture)

    def features(self, architecture: Architecture) -> Features:
        """Which of 40 sequences of operations lead from input to output, then half the number of each convolution."""
        return _features(architecture)

    def check_signature(self, signature: Signature) -> None:
        """Raise ValueError unless the input is (channels, height, width) of floats and the output (classes,)."""
        check_images("Cell201", signature)

    def build(self, architecture: Architecture, signature: Signature) -> "Module":
        """Build the network: [batch, channels, height, width] to [batch, classes].

        It has the parameters of all convolutions of the cell, as the benchmark counts them; those of dead branches are
        frozen and not computed.
        """
        from search_spaces.cell201_modules import Cell201Module

        self.check_signature(signature)
        return Cell201Module(self.graph(architecture), signature, self.width, self.cells)

    @cached_property
    def _by_expression(self) -> dict[str, list[Architecture]]:
        """All 15,625 architectures, by their 6,466 expressions."""
        groups: dict[str, list[Architecture]] = {}
        for values in self.domain.assignments():
            architecture = Architecture(values.plain())
            groups.setdefault(expression(architecture), []).append(architecture)
        return groups


def expression(architecture: Architecture) -> str:
    """The cell as a sum of terms, by the rule by which NAS-Bench-201 finds isomorphic cells.

    The edges into a node are written as terms, sorted and added; an edge from a node that is a single zero is a
    zero, and a skip is the text of its node, not sorted in anew.
    """
    nodes = ["0"]
    operations = map(architecture.__getitem__, _EDGES)
    for node in range(1, 4):
        terms = [_term(operation, nodes[source]) for source, operation in zip(range(node), operations, strict=False)]
        nodes.append("+".join(sorted(terms)))
    return nodes[-1]


def _term(operation: Value, source: str) -> str:
    if operation == "none" or source == "#":
        return "#"
    return source if operation == "skip_connect" else f"({source})@{operation}"


@cache
def _features(architecture: Architecture) -> Features:
    return _NETWORK.features(architecture)


@cache
def _form(architecture: Architecture) -> Form:
    return canonical_form(_CELL.graph(architecture), none=NONE, identity=_IDENTITY, parameter_free=_PARAMETER_FREE)

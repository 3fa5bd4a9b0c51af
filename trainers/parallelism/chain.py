"""A network as a chain of units between which it may be cut into the stages of a pipeline.

What is priced and what trials apply are cuts of the same units: weights that several calls share stay in one stage, and
only tensors pass a border.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from torch import Tensor, fx, nn

from search_spaces.operator_graph import Operator, Phase
from search_spaces.signature import Signature
from search_spaces.tracing import Loss, class_loss, trace
from trainers.parallelism.forward_graph import UnknownGraphError, forward_graph
from trainers.parallelism.stages import cut
from trainers.parallelism.workload import Workload, columns, torch_operator

OPERATIONS_A_BYTE = 8.0
"""Operations that take as long as moving a byte of memory, between those of a CPU core and those of a GPU."""
OPERATIONS_A_SENT_BYTE = 32.0
"""The same for a byte of activations that passes a border, and its gradient back."""


class CutError(ValueError):
    """A network that cannot be cut into so many stages; the text says why and what can be done."""

    def __init__(self, reason: str, stages: int) -> None:
        super().__init__(
            f"this network cannot be cut into {stages} pipeline stages: {reason}; use a plan without pipeline, "
            f"such as data={stages}"
        )


class Chain(nn.Module):
    """All units of a network, run one after another; each has one call with trainable weights.

    Between two calls that have trainable weights lies one place where a cut is possible, so that every stage learns:
    the one that the fewest values pass. ``tied`` are units before which a cut would part those that share a tensor.
    Raises UnknownGraphError where the network's forward pass cannot be followed.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        graph = forward_graph(network)
        self._network = [network]  # in a list, else it would be a module of the chain
        self._nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        self._input, self._output = (_only(graph, op) for op in ("placeholder", "output"))
        weights = [_state(network, node) for node in self._nodes]
        learning = [place for place, (trainable, _) in enumerate(weights) if trainable]
        self._starts = [0, *self._narrowest(learning), len(self._nodes)]
        self.tied = self._tied([tensors for _, tensors in weights])
        self.units = nn.ModuleList(self.part(unit, unit + 1) for unit in range(len(self._starts) - 1))
        self._borders = np.zeros((2, len(self.units) + 1))
        self._whole = np.zeros(len(self.units), bool)

    def part(self, first: int, end: int) -> fx.GraphModule:
        """Units ``first`` to before ``end`` as a module: from what enters to a tuple of what leaves, or the output."""
        graph = fx.Graph()
        copies = {node: graph.placeholder(node.name) for node in self._passing(first)}
        for node in self._nodes[self._starts[first] : self._starts[end]]:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        last = end == len(self._starts) - 1
        leaving: Any = self._output.args[0] if last else tuple(self._passing(end))
        graph.output(fx.node.map_arg(leaving, copies.__getitem__))
        return fx.GraphModule(self._network[0], graph)

    def forward(self, inputs: Tensor) -> Any:
        """What the network returns."""
        values: Any = (inputs,)
        for number, unit in enumerate(self.units):
            if number:
                tensors = [value for value in values if isinstance(value, Tensor)]
                learning = [value for value in tensors if value.requires_grad]
                self._whole[number] = len(tensors) < len(values)
                self._borders[:, number] = [sum(value.nbytes for value in some) for some in (tensors, learning)]
            values = unit(*values)
        return values

    def workload(self, signature: Signature, samples: int, loss: Loss = class_loss) -> Workload:
        """Of a micro-batch, by these units, with what stages send each other. Raises TraceError."""
        graph = trace(self, signature, samples, loss)
        work = columns(graph, unit=_unit, kind=torch_operator)
        named = (_unit(operator) for operator in graph.operators if operator.phase is Phase.FORWARD)
        at_work = [int(unit) for unit, _ in groupby(filter(None, named))]  # one that shares a module goes by its first
        return replace(work, unit=np.array(at_work, np.intp)[work.unit], borders=self._borders.copy())

    def starts(self, work: Workload, stages: int) -> tuple[int, ...]:
        """Units before which stages start so that the largest is as small as can be, for a micro-batch of ``work``.

        The same on every rank and machine: operations, and bytes in place of them, decide. Raises CutError.
        """
        legal = [unit for unit in range(1, len(self.units)) if unit not in self.tied and not self._whole[unit]]
        if len(legal) + 1 < stages:
            places = f"it has {len(legal)} places where it may be cut, between layers with weights of their own"
            raise CutError(places, stages)
        costs = work.per_unit(np.maximum(work.flops, OPERATIONS_A_BYTE * work.bytes))
        edges = [0, *legal]
        borders = np.append(work.crossing_bytes[edges], 0.0) * OPERATIONS_A_SENT_BYTE
        cuts = cut(np.add.reduceat(costs, edges), borders, stages)
        return tuple(edges[start] for start in cuts.starts)

    def parts(self, starts: Sequence[int]) -> tuple[fx.GraphModule, ...]:
        """The stages as modules that share parameters and buffers with the network."""
        edges = [0, *starts, len(self.units)]
        return tuple(self.part(first, end) for first, end in pairwise(edges))

    def _passing(self, unit: int) -> list[fx.Node]:
        """What passes the border before ``unit``: made before it and read behind it."""
        place = self._starts[unit]
        behind = {*self._nodes[place:], self._output}
        before = [self._input, *self._nodes[:place]]
        return [node for node in before if not behind.isdisjoint(node.users)] if unit else [self._input]

    def _narrowest(self, learning: Sequence[int]) -> list[int]:
        """Between each two places that are ``learning``, the last of those before which the fewest values pass."""
        place = {node: number for number, node in enumerate((self._input, *self._nodes, self._output), -1)}
        opened = np.zeros(len(place) + 1, np.intp)
        for node in (self._input, *self._nodes):
            opened[place[node] + 1] += 1
            opened[max([place[node], *(place[user] for user in node.users)]) + 1] -= 1
        passing = np.cumsum(opened)
        spans = zip(learning, learning[1:], strict=False)
        return [min(range(end, first, -1), key=passing.__getitem__) for first, end in spans]

    def _tied(self, tensors: Sequence[Sequence[Tensor]]) -> set[int]:
        """Units before which a cut would part those that share a tensor."""
        first: dict[int, int] = {}
        tied: set[int] = set()
        units = np.searchsorted(self._starts, range(len(self._nodes)), side="right") - 1
        for unit, own in zip(units.tolist(), tensors, strict=True):
            for tensor in own:
                tied.update(range(first.setdefault(id(tensor), unit) + 1, unit + 1))
        return tied


def _only(graph: fx.Graph, op: str) -> fx.Node:
    found: list[fx.Node] = [node for node in graph.nodes if node.op == op]
    if len(found) != 1:
        raise UnknownGraphError("its forward() takes no input")
    return found[0]


def _state(network: nn.Module, node: fx.Node) -> tuple[bool, list[Tensor]]:
    """Whether a call has trainable weights, and all tensors that stay with it: weights, and buffers of modules."""
    if node.op == "call_module":
        module = network.get_submodule(str(node.target))
        tensors = [*module.parameters(), *module.buffers()]
    elif node.op == "get_attr":
        found: Any = network
        for name in str(node.target).split("."):
            found = getattr(found, name)
        tensors = [found] if isinstance(found, nn.Parameter) else []
    else:
        tensors = []
    return any(isinstance(tensor, nn.Parameter) and tensor.requires_grad for tensor in tensors), tensors


def _unit(operator: Operator) -> str:
    """Name of the unit that an operator runs in; "" for the loss."""
    first, _, rest = operator.name.partition(".")
    return rest.partition(".")[0] if first == "units" else ""

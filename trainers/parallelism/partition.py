"""Cuts a network into consecutive stages, each a module of its own that keeps the names of its parameters.

Between two calls that have trainable weights lies one place where a cut is possible, so that every stage learns: the
one that the fewest values pass. Weights that several calls share stay in one stage, and only tensors pass a border.
Stages are balanced by the operators of a traced step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from search_spaces.signature import Signature
from search_spaces.tracing import Loss, TraceError, class_loss, trace
from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.forward_graph import UnknownGraphError, forward_graph, in_mode
from trainers.parallelism.stages import cut

OPERATIONS_A_BYTE = 8.0
"""Operations that take as long as moving a byte of memory, between those of a CPU core and those of a GPU."""
OPERATIONS_A_SENT_BYTE = 32.0
"""The same for a byte of activations that passes a border, and its gradient back."""


class CutError(Exception):
    """A network that cannot be cut into so many stages; the text says why and what can be done."""


def partition(
    network: nn.Module, signature: Signature, samples: int, stages: int, loss: Loss = class_loss
) -> tuple[fx.GraphModule, ...]:
    """Cut ``network`` so that for a micro-batch of ``samples`` the largest of ``stages`` is as small as can be.

    ``loss`` is a part of the last stage; one that cannot be traced counts as cross-entropy. The stages share parameters
    and buffers with the network, and are the same on every rank. Where the network is not on the meta device, two
    samples are sent through both. Raises CutError.
    """
    try:
        chain = _Chain(network, forward_graph(network))
        costs, crossing = _measured(chain, signature, samples, loss)
    except (UnknownGraphError, TraceError) as error:
        raise _error(str(error), stages) from error
    legal = [place for place in range(1, len(costs)) if place not in chain.tied and np.isfinite(crossing[place])]
    if len(legal) + 1 < stages:
        raise _error(
            f"it has {len(legal)} places where it may be cut, between layers with weights of their own", stages
        )
    edges = [0, *legal]
    borders = np.append(crossing[edges], 0.0) * OPERATIONS_A_SENT_BYTE
    cuts = cut(np.add.reduceat(costs, edges), borders, stages)
    ends = [*(edges[start] for start in cuts.starts), len(costs)]
    parts = tuple(chain.part(first, end) for first, end in zip([0, *ends], ends, strict=False))
    if not any(tensor.is_meta for tensor in network.state_dict().values()) and not _agree(network, parts, signature):
        raise _error("its stages do not compute what it computes, say because it changes views of tensors", stages)
    return parts


def _error(reason: str, stages: int) -> CutError:
    return CutError(
        f"this network cannot be cut into {stages} pipeline stages: {reason}; use a plan without pipeline, "
        f"such as data={stages}"
    )


@torch.no_grad()
def _agree(network: nn.Module, stages: Sequence[nn.Module], signature: Signature) -> bool:
    """Whether both give the same for two samples, in evaluation."""
    given, generator = signature.input, torch.Generator().manual_seed(0)
    shape, dtype = (2, *given.shape), getattr(torch, given.dtype)
    if given.of_integers:
        inputs = torch.randint(given.vocabulary or 2, shape, generator=generator, dtype=dtype)
    else:
        inputs = torch.randn(shape, generator=generator).to(dtype)
    with in_mode(network, False):
        values: Any = (inputs.clone(),)
        for stage in stages:
            values = stage(*(value.clone() for value in values))  # as copies pass from rank to rank
        return bool(torch.allclose(values, network(inputs), rtol=1e-4, atol=1e-6, equal_nan=True))


class _Chain(nn.Module):
    """All units of a network, run one after another; each has one call with trainable weights."""

    def __init__(self, network: nn.Module, graph: fx.Graph) -> None:
        super().__init__()
        self._network = [network]  # in a list, else it would be a module of the chain
        self._nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        self._input, self._output = (_only(graph, op) for op in ("placeholder", "output"))
        weights = [_state(network, node) for node in self._nodes]
        learning = [place for place, (trainable, _) in enumerate(weights) if trainable]
        self._starts = [0, *self._narrowest(learning), len(self._nodes)]
        self.tied = self._tied([tensors for _, tensors in weights])
        self.units = nn.ModuleList(self.part(unit, unit + 1) for unit in range(len(self._starts) - 1))
        self.crossing = np.zeros(len(self.units))
        """[units] bytes that pass a border before each unit; infinite where they are not only tensors."""

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
                tensors = all(isinstance(value, Tensor) for value in values)
                self.crossing[number] = sum(value.nbytes for value in values) if tensors else np.inf
            values = unit(*values)
        return values

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


def _measured(chain: _Chain, signature: Signature, samples: int, loss: Loss) -> tuple[FloatArray, FloatArray]:
    """[units] operations of each unit, bytes that it moves priced too, and what passes the border before it."""
    try:
        graph = trace(chain, signature, max(2, samples), loss)
    except TraceError:
        if loss is class_loss:
            raise
        graph = trace(chain, signature, max(2, samples))
    costs = np.zeros(len(chain.units))
    for operator in graph.operators:
        first, _, rest = operator.name.partition(".")
        unit = int(rest.partition(".")[0]) if first == "units" else len(costs) - 1
        costs[unit] += max(operator.flops, OPERATIONS_A_BYTE * (operator.read_bytes + operator.written_bytes))
    return costs, chain.crossing

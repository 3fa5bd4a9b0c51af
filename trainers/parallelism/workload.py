"""The operators of a training step in columns, as the cost model reads them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from search_spaces.operator_graph import Operator, OperatorGraph, Phase, Role
from trainers.parallelism.arrays import BoolArray, FloatArray, IntArray

LIVE = (Role.INPUT, Role.ACTIVATION, Role.TEMPORARY)


@dataclass(frozen=True, eq=False)
class Workload:
    """One micro-batch of ``samples`` on one device; n operators in an order in which each follows its inputs.

    A *unit* is what a pipeline may not cut: a forward operator with the operators of its backward pass. Units are
    numbered in the order of their forward operators.
    """

    samples: float
    kinds: tuple[str, ...]
    kind: IntArray
    """[n] places in ``kinds``."""
    backward: BoolArray
    unit: IntArray
    flops: FloatArray
    bytes: FloatArray
    """[n] read and written."""
    parameters: FloatArray
    """[n] elements that a forward operator reads, its part of those that several read; all together the network's."""
    tensors: FloatArray
    """[n] tensors of those elements, in the same way; 0 where the graph does not tell."""
    saved_bytes: FloatArray
    """[n] kept from the forward to the backward pass."""
    written_bytes: FloatArray
    temporary_bytes: FloatArray
    """[n] neither saved nor a parameter's, while the operator runs."""
    divided: BoolArray
    """[n] whether the tensor axis divides the operator."""
    reduced_bytes: FloatArray
    """[n] what the tensor axis all-reduces after the operator."""
    alike: IntArray
    """[n] operators of one number are equal, but for their place."""
    sources: IntArray
    """[edges] places of operators whose results another reads."""
    targets: IntArray
    """[edges] places of those that read them."""
    peak_bytes: float = inf
    """What inputs, activations and temporaries take together at the fullest moment, undivided; infinite if unknown."""
    element_bytes: float = 4.0
    """Of a weight, and of its gradient when it is exchanged."""
    tensor_ranks: int = 1
    """Devices that the tensor axis has divided the operators over."""

    @cached_property
    def units(self) -> int:
        """Number of units."""
        return int(self.unit.max()) + 1

    @cached_property
    def crossing_bytes(self) -> FloatArray:
        """[units + 1] bytes of forward results that pass a cut before each unit; 0 at both ends."""
        forward = ~self.backward[self.targets]
        sources, targets = self.sources[forward], self.targets[forward]
        last = self.unit.copy()
        np.maximum.at(last, sources, self.unit[targets])
        opened = np.bincount(self.unit + 1, self.written_bytes, self.units + 2)
        closed = np.bincount(last + 1, self.written_bytes, self.units + 2)
        return np.cumsum(opened - closed)[:-1]

    @cached_property
    def unit_inputs(self) -> tuple[tuple[int, ...], ...]:
        """[units] which other units' forward results each unit reads."""
        forward = ~self.backward[self.targets]
        read: list[set[int]] = [set() for _ in range(self.units)]
        for source, target in zip(self.unit[self.sources[forward]], self.unit[self.targets[forward]], strict=True):
            if source != target:
                read[target].add(int(source))
        return tuple(tuple(sorted(sources)) for sources in read)

    def reordered(self, order: Sequence[int]) -> "Workload":
        """The same work with its units numbered by their place in ``order`` [units]."""
        place = np.empty(self.units, np.intp)
        place[list(order)] = np.arange(self.units)
        return replace(self, unit=place[self.unit])

    def per_unit(self, values: FloatArray) -> FloatArray:
        """Sum ``values`` [n] over each unit's operators [units]."""
        return np.bincount(self.unit, values, self.units).astype(np.float64)


def module_of(operator: Operator) -> str:
    """Path of the module that runs a traced ``operator``; empty for what none does."""
    return operator.name.rpartition(".")[0]


def kind_of(operator: Operator) -> str:
    """Its class, which shares a rate on a device."""
    return operator.kind.value


def torch_operator(operator: Operator) -> str:
    """Its class and the operator of torch that it is, as ``"convolution/convolution_backward"``."""
    return f"{operator.kind.value}/{operator.name.rpartition('.')[2].rstrip('_')}"


def columns(
    graph: OperatorGraph,
    divided: Collection[int] = (),
    reduced_bytes: Mapping[int, float] | None = None,
    unit: Callable[[Operator], str] = module_of,
    element_bytes: float = 4.0,
    kind: Callable[[Operator], str] = kind_of,
) -> Workload:
    """Columns of a ``graph`` for its batch.

    ``divided`` and ``reduced_bytes`` say, by place, which operators the tensor axis divides and what it exchanges
    after them. ``unit`` names the unit of an operator: neighbouring forward operators of one name, and the
    backward operators of that name; one of an empty or another name belongs to the unit of the operator before it.
    ``kind`` names the rate that an operator takes.
    """
    operators = graph.operators
    array = np.array
    named = [kind(operator) for operator in operators]
    kinds = tuple(sorted(set(named)))
    numbers = {name: number for number, name in enumerate(kinds)}
    reduced = np.zeros(len(operators))
    for place, size in (reduced_bytes or {}).items():
        reduced[place] = size
    split = np.isin(np.arange(len(operators)), list(divided))
    backward = array([operator.phase is Phase.BACKWARD for operator in operators])
    own = array([numbers[name] for name in named], np.intp)
    flops = array([float(operator.flops) for operator in operators])
    moved = array([float(operator.read_bytes + operator.written_bytes) for operator in operators])
    written = array([float(operator.written_bytes) for operator in operators])
    parameters = np.where(backward, 0.0, array([float(operator.parameters) for operator in operators]))
    return Workload(
        samples=graph.batch,
        kinds=kinds,
        kind=own,
        backward=backward,
        unit=_units(operators, unit),
        flops=flops,
        bytes=moved,
        parameters=parameters * (graph.parameters / max(parameters.sum(), 1.0)),
        tensors=np.where(parameters > 0, _gradients(graph) / max(int(np.count_nonzero(parameters)), 1), 0.0),
        saved_bytes=array([float(operator.saved_bytes) for operator in operators]),
        written_bytes=written,
        temporary_bytes=_temporary_bytes(graph),
        divided=split,
        reduced_bytes=reduced,
        alike=_alike(own, flops, moved, written, reduced, split),
        sources=array([source for operator in operators for source in operator.inputs], np.intp),
        targets=array([place for place, operator in enumerate(operators) for _ in operator.inputs], np.intp),
        peak_bytes=float(_live_bytes(graph, LIVE).max()) if graph.storages else inf,
        element_bytes=element_bytes,
    )


def _gradients(graph: OperatorGraph) -> float:
    return float(sum(storage.role is Role.GRADIENT for storage in graph.storages))


def _alike(*properties: FloatArray | IntArray | BoolArray) -> IntArray:
    return np.unique(np.stack(properties, 1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)


def _temporary_bytes(graph: OperatorGraph) -> FloatArray:
    """[n] of the temporaries that live while each operator runs, or all that it touches where lives are unknown."""
    if not graph.storages:
        return np.array([float(operator.read_bytes + operator.written_bytes) for operator in graph.operators])
    return _live_bytes(graph, (Role.TEMPORARY,))


def _live_bytes(graph: OperatorGraph, roles: Collection[Role]) -> FloatArray:
    """[n] of what is there for one of ``roles`` while each operator runs."""
    change = np.zeros(len(graph.operators) + 1)
    for storage in graph.storages:
        if storage.role in roles:
            change[storage.born] += storage.bytes
            change[min(storage.died, len(graph.operators))] -= storage.bytes
    return np.cumsum(change)[:-1]


def _units(operators: tuple[Operator, ...], name: Callable[[Operator], str]) -> IntArray:
    latest: dict[str, int] = {}
    units: list[int] = []
    opened, before = -1, None
    for operator in operators:
        own = name(operator)
        if operator.phase is Phase.FORWARD and own and own != before:
            opened += 1
            before, latest[own] = own, opened
        units.append(latest.get(own, units[-1] if units else 0))
    return np.array(units, np.intp)

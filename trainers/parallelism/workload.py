"""The operators of a training step in columns, as the cost model reads them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from search_spaces.module_groups import module_of
from search_spaces.operator_graph import Operator, OperatorGraph, Phase, Role, Value, Weight
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
    """[n] elements that a forward operator reads, each in equal parts by all that do; nothing of what none reads."""
    tensors: FloatArray
    """[n] trained tensors of those elements, in the same way."""
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
    value_bytes: FloatArray
    """[values] of each result, or input of the network, that forward operators read; no axis divides them."""
    writers: IntArray
    """[values] places of the operators that write them; -1 for inputs."""
    read: IntArray
    """[reads] places among the values."""
    readers: IntArray
    """[reads] places of the forward operators that read them."""
    peak_bytes: float = inf
    """What inputs, activations and temporaries take together at the fullest moment, undivided; infinite if unknown."""
    element_bytes: float = 4.0
    """Of a weight, and of its gradient when it is exchanged."""
    borders: FloatArray | None = None
    """[2, units + 1] bytes that stages send at a cut before each unit: forward, and gradients back; 0 at both ends.
    None: all that forward operators read across it, both ways."""
    tensor_ranks: int = 1
    """Devices that the tensor axis has divided the operators over."""

    @cached_property
    def units(self) -> int:
        """Number of units; some may have no operator where ``borders`` are given."""
        return int(self.unit.max()) + 1 if self.borders is None else self.borders.shape[1] - 1

    @cached_property
    def crossing_bytes(self) -> FloatArray:
        """[units + 1] bytes that pass a cut before each unit in the forward pass; 0 at both ends."""
        if self.borders is not None:
            return np.asarray(self.borders[0])
        first = np.where(self.writers < 0, 0, self.unit[self.writers])
        last = first.copy()
        np.maximum.at(last, self.read, self.unit[self.readers])
        opened = np.bincount(first + 1, self.value_bytes, self.units + 2)
        closed = np.bincount(last + 1, self.value_bytes, self.units + 2)
        return np.cumsum(opened - closed)[:-1]

    @property
    def returning_bytes(self) -> FloatArray:
        """[units + 1] bytes of gradients that pass it in the backward pass."""
        return self.crossing_bytes if self.borders is None else np.asarray(self.borders[1])

    @cached_property
    def unit_inputs(self) -> tuple[tuple[int, ...], ...]:
        """[units] which other units' forward results each unit reads."""
        writers = self.writers[self.read]
        read: list[set[int]] = [set() for _ in range(self.units)]
        for source, target in zip(self.unit[writers[writers >= 0]], self.unit[self.readers[writers >= 0]], strict=True):
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
    after them. ``unit`` names the unit of a forward operator: neighbours of one name. A backward operator is of the
    unit of the operator whose gradient it computes, where that is unknown of the last unit of its name. One of an empty
    or another name belongs to the unit of the operator before it.
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
    weights, values = graph.weights or _own_weights(operators), graph.values or _whole_results(operators)
    return Workload(
        samples=graph.batch,
        kinds=kinds,
        kind=own,
        backward=backward,
        unit=_units(operators, unit),
        flops=flops,
        bytes=moved,
        parameters=_shared_out(weights, [float(weight.elements) for weight in weights], len(operators)),
        tensors=_shared_out(weights, [float(weight.trained) for weight in weights], len(operators)),
        saved_bytes=array([float(operator.saved_bytes) for operator in operators]),
        written_bytes=written,
        temporary_bytes=_temporary_bytes(graph),
        divided=split,
        reduced_bytes=reduced,
        alike=_alike(own, flops, moved, written, reduced, split),
        value_bytes=array([float(value.bytes) for value in values]),
        writers=array([-1 if value.source is None else value.source for value in values], np.intp),
        read=array([number for number, value in enumerate(values) for _ in value.readers], np.intp),
        readers=array([place for value in values for place in value.readers], np.intp),
        peak_bytes=float(_live_bytes(graph, LIVE).max()) if graph.storages else inf,
        element_bytes=element_bytes,
    )


def _own_weights(operators: Sequence[Operator]) -> list[Weight]:
    """Of operators that share none."""
    return [
        Weight(operator.parameters, (place,))
        for place, operator in enumerate(operators)
        if operator.phase is Phase.FORWARD and operator.parameters
    ]


def _whole_results(operators: Sequence[Operator]) -> list[Value]:
    """Of operators that write one result, which others read whole."""
    readers: dict[int, list[int]] = {}
    for place, operator in enumerate(operators):
        for source in operator.inputs if operator.phase is Phase.FORWARD else ():
            readers.setdefault(source, []).append(place)
    return [Value(source, operators[source].written_bytes, tuple(own)) for source, own in readers.items()]


def _shared_out(weights: Sequence[Weight], sizes: Sequence[float], operators: int) -> FloatArray:
    """[operators] the ``sizes`` of weights, each in equal parts to its readers."""
    parts = np.zeros(operators)
    for weight, size in zip(weights, sizes, strict=True):
        for place in weight.readers:
            parts[place] += size / len(weight.readers)
    return parts


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
        if operator.forward is not None:
            units.append(units[operator.forward])
            continue
        own = name(operator)
        if operator.phase is Phase.FORWARD and own and own != before:
            opened += 1
            before, latest[own] = own, opened
        units.append(latest.get(own, units[-1] if units else 0))
    return np.array(units, np.intp)

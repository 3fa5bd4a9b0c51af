"""Peak memory of a training step, from when each piece of memory comes and goes in its graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from search_spaces.operator_graph import OperatorGraph, Role


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Memory at the peak of forward and backward, in bytes.

    ``parts`` names what it is for: the values of `Role`, and ``optimizer``. ``operator`` is the place of the operator
    that runs at the peak, None where there is no operator.
    """

    parts: Mapping[str, int]
    operator: int | None

    @property
    def peak_bytes(self) -> int:
        """The sum of all parts."""
        return sum(self.parts.values())


def step_memory(graph: OperatorGraph, optimizer_states: float = 0.0) -> StepMemory:
    """Peak of a step that begins without gradients.

    The optimizer holds ``optimizer_states`` times the bytes of the parameters that get gradients: 0 for plain SGD, 1
    with momentum, 2 for Adam. Kernels' own work space, and what an allocator wastes, are not in it.
    """
    totals = living_bytes(graph)
    peak = max(range(len(totals)), key=totals.__getitem__, default=None)
    parts = {role.value: 0 for role in Role}
    for storage in graph.storages:
        if peak is None or storage.born <= peak < storage.died:
            parts[storage.role.value] += storage.bytes
    trained = sum(storage.bytes for storage in graph.storages if storage.role is Role.GRADIENT)
    return StepMemory({**parts, "optimizer": round(optimizer_states * trained)}, peak)


def living_bytes(graph: OperatorGraph) -> list[int]:
    """Bytes that are there while each operator runs."""
    changes = [0] * (len(graph.operators) + 1)
    for storage in graph.storages:
        changes[storage.born] += storage.bytes
        changes[storage.died] -= storage.bytes
    return list(accumulate(changes))[: len(graph.operators)]

"""What each parallel axis makes a process send in a training step of the whole batch, free of hardware (MODELS.md 3).

Read from the axes themselves, on a machine that does one FLOP a second and has free memory and links: pipelines are cut
so that their stages hold equal FLOPs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from search_spaces.operator_graph import OperatorGraph
from trainers.parallelism.axes import AXES
from trainers.parallelism.cost import divide
from trainers.parallelism.fully_connected import divided_layers, sent_elements
from trainers.parallelism.plan import AXES as PLAN_AXES
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import DeviceRates, Link, Machine, OperatorRate
from trainers.parallelism.workload import Workload, columns

EXCHANGES = {name: str(axis.EXCHANGES) for name in PLAN_AXES for axis in (AXES[name],)}


@dataclass(frozen=True, slots=True)
class Volume:
    """What a process sends in a step where ``processes`` share it along one axis; of stages the one with the most."""

    axis: str
    processes: int
    elements: float
    bytes: float


_FREE = Machine(
    DeviceRates("any", "any", {"other": OperatorRate(1.0, 0.0, inf, 0.0)}, 0.0, 0.0, inf),
    (Link(2, 1, 0.0, 0.0),),
    devices_per_node=2**30,
)


def volumes(graph: OperatorGraph, processes: Sequence[int], element_bytes: float = 4.0) -> list[Volume]:
    """Volumes of the axes that apply, for each number of ``processes`` (at least 2) in turn.

    The tensor axis needs fully connected layers; a pipeline has no more stages than there are modules at work.
    """
    return [
        Volume(axis, ranks, sent / element_bytes, sent) for axis, ranks, sent in _sent(graph, processes, element_bytes)
    ]


def _sent(graph: OperatorGraph, processes: Sequence[int], element_bytes: float) -> Iterator[tuple[str, int, float]]:
    if not graph.operators:
        return
    work = columns(graph, element_bytes=element_bytes)
    layers = divided_layers(graph)
    for ranks in processes:
        yield "data", ranks, _exchanged(work, Plan(data=ranks))
        yield "shard", ranks, _exchanged(work, Plan(shard=ranks))
        if layers:
            elements = sum(sent_elements(graph, one, ranks, element_bytes) for one in layers)
            yield "tensor", ranks, elements * element_bytes
        if ranks <= work.units:
            yield "pipeline", ranks, _exchanged(work, Plan(pipeline=ranks))


def _exchanged(work: Workload, plan: Plan) -> float:
    share = divide(work, plan, _FREE)
    return float(np.sum([exchange.sent_bytes() for exchange in share.exchanges], axis=0).max())

"""Operators of the reference networks, timed on a device within a time limit."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np
from torch import Tensor, nn

from cluster.fresh_memory import LIMIT
from cluster.operator_timing import TimedDevice, aligned, step, time_operators
from cluster.reference_networks import class_loss, references
from search_spaces.operator_graph import Operator, OperatorGraph
from search_spaces.tracing import trace

DRAWING = 0.6
"""Share of the time in which networks are drawn; in the rest those drawn are measured again, one after another."""
LARGEST = 0.004
"""Share of the time that a step of one network may take."""
LIKELY_FLOPS, LIKELY_BYTES = 3e10, 5e9
"""A second of a slow core: what decides, before it is measured, how long a step may take."""
PATIENCE = 1.3
"""Of the wall's time to that on the device, where others compute too."""
REPEATS = 2
"""How often each network is measured at least."""
FEWEST = 8
"""Networks that are measured in any case, and what they need at least to tell all kinds apart."""


@dataclass
class Timed:
    """A reference network, and what was measured: seconds of whole steps, and of operators [visits][operators]."""

    graph: OperatorGraph
    network: nn.Module
    inputs: Tensor
    steps: list[float]
    operators: list[list[float | None]]

    def measure(self, device: TimedDevice) -> None:
        """One step to come back to this network, one as it is, one with its operators timed."""
        step(self.network, self.inputs, class_loss, device)
        self.steps.append(device.of(lambda: step(self.network, self.inputs, class_loss, device)))
        seconds = time_operators(self.network, self.inputs, class_loss, device)
        self.operators.append(aligned(self.graph, seconds))

    @property
    def step_seconds(self) -> float:
        """Of a step: the median."""
        return median(self.steps)

    @property
    def kernels(self) -> list[tuple[Operator, float]]:
        """Operators and their seconds, the medians; those that were not timed left out."""
        found = []
        for operator, *measured in zip(self.graph.operators, *self.operators, strict=True):
            known = [seconds for seconds in measured if seconds is not None and seconds > 0]
            if known:
                found.append((operator, median(known)))
        return found


def time_references(device: TimedDevice, seconds: float, seed: int = 0) -> list[Timed]:
    """Measure as many reference networks as there is time for, sizes mixed and several times each."""
    spent = _spent(device, seconds)
    timed: list[Timed] = []
    for reference in references(np.random.default_rng(seed)):
        if len(timed) >= FEWEST and spent() > DRAWING:
            break
        graph = trace(reference.network, [reference.inputs], len(reference.inputs), class_loss)
        if _likely_seconds(graph) > LARGEST * seconds or _writes_fresh_memory(graph):
            continue
        network, inputs = reference.network.to(device.device), reference.inputs.to(device.device)
        timed.append(Timed(graph, network, inputs, [], []))
        timed[-1].measure(device)
    while spent() < 1 or len(timed[-1].steps) < REPEATS:
        for one in timed:
            one.measure(device)
            if spent() > 1 and len(timed[-1].steps) >= REPEATS:
                break
    return timed


def _spent(device: TimedDevice, seconds: float) -> Callable[[], float]:
    """Share of the time that is used up: of that on the device, or of the wall where others take much of it."""
    own, wall = device.now(), perf_counter()
    return lambda: max((device.now() - own) / seconds, (perf_counter() - wall) / (PATIENCE * seconds))


def _writes_fresh_memory(graph: OperatorGraph) -> bool:
    """Whether a result is so large that its memory costs beside it, which is measured apart."""
    return any(operator.written_bytes >= LIMIT for operator in graph.operators)


def _likely_seconds(graph: OperatorGraph) -> float:
    flops = sum(operator.flops for operator in graph.operators)
    moved = sum(operator.read_bytes + operator.written_bytes for operator in graph.operators)
    return flops / LIKELY_FLOPS + moved / LIKELY_BYTES

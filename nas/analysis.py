"""What a training step of one network costs, free of hardware: counts, concurrency, memory, traffic."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nas.analysed import Analysed
from search_spaces.memory import StepMemory, step_memory
from search_spaces.module_groups import module_of
from search_spaces.operator_graph import OperatorGraph, Phase, step_flops, step_macs
from search_spaces.work_depth import Concurrency, brent_bounds, work_depth
from trainers import numbers_to_json
from trainers.parallelism.volumes import EXCHANGES, Volume, volumes

if TYPE_CHECKING:
    from torch.nn import Module

    from nas.planned import Planned

PROCESSES = (2, 4, 8)
"""Widths for which the traffic of each parallel axis is told."""


@dataclass(frozen=True)
class Analysis:
    """A network and its ``graph``; where that is None, ``unknown`` says why, and only parameters are known.

    ``planned`` are its plans on this machine, where they were asked for.
    """

    of: Analysed
    parameters: int
    graph: OperatorGraph | None
    unknown: str | None = None
    planned: "Planned | None" = None

    @cached_property
    def step(self) -> "StepAnalysis":
        """All that the graph says."""
        assert self.graph is not None
        return StepAnalysis(self.graph, self.of.size.optimizer_states)

    @property
    def told_unknown(self) -> str:
        """That the graph is unknown, why, and the remedy."""
        given = self.of.signature.input
        return (
            f"the graph is unknown, only parameters are counted ({self.parameters:,}): {self.unknown}. The input was "
            f"{given.shape} {given.dtype}: another is given by --task or --input. Else keep values of tensors out of "
            "what is computed (.item(), masks, numpy)"
        )

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        given, size = self.of.signature.input, self.of.size
        about = {
            **self.of.what,
            "input": {"shape": list(given.shape), "dtype": given.dtype},
            "batch": size.batch,
            "optimizer_states": size.optimizer_states,
            "parameters": self.parameters,
            "unknown": self.unknown,
        }
        if self.graph is None:
            return about
        plans = {"plans": self.planned.plain()} if self.planned else {}
        return {**about, **self.step.plain(), **plans}


@dataclass(frozen=True)
class StepAnalysis:
    """A traced training step: forward, loss and backward of the whole batch."""

    graph: OperatorGraph
    optimizer_states: int

    @cached_property
    def concurrency(self) -> Concurrency[int]:
        """Work, depth, levels and the critical path, in unit operations."""
        return work_depth(self.graph)

    @cached_property
    def memory(self) -> StepMemory:
        """The peak, by part."""
        return step_memory(self.graph, self.optimizer_states)

    @cached_property
    def volumes(self) -> list[Volume]:
        """What a process sends, by axis and number of processes."""
        return volumes(self.graph, PROCESSES)

    @cached_property
    def bounds(self) -> list[tuple[int, int, int]]:
        """Processors p = 1, 2, 4... up to W/D, and Brent's bounds of the time with them, in unit operations."""
        whole = self.concurrency
        processors = [1]
        while processors[-1] < whole.parallelism and whole.depth:
            processors.append(2 * processors[-1])
        return [(p, *brent_bounds(whole.work, whole.depth, p)) for p in processors]

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        whole, graph = self.concurrency, self.graph
        return {
            "flops": {phase.value: step_flops(graph, phase) for phase in Phase},
            "macs": {phase.value: step_macs(graph, phase) for phase in Phase},
            "work": whole.work,
            "depth": whole.depth,
            **numbers_to_json({"parallelism": whole.parallelism}),
            "levels": list(whole.levels),
            "brent": [{"processors": p, "least": least, "most": most} for p, least, most in self.bounds],
            "memory": {
                "peak_bytes": self.memory.peak_bytes,
                "parts": dict(self.memory.parts),
                "operator": self.memory.operator,
            },
            "critical_path": list(whole.critical_path),
            "volumes": [
                {
                    "axis": volume.axis,
                    "exchanges": EXCHANGES[volume.axis],
                    "processes": volume.processes,
                    "elements": volume.elements,
                    "bytes": volume.bytes,
                }
                for volume in self.volumes
            ],
            "operators": [self._operator(place) for place in range(len(graph.operators))],
            "without_formula": list(graph.unknown),
        }

    def _operator(self, place: int) -> Mapping[str, Any]:
        operator = self.graph.operators[place]
        return {
            "name": operator.name,
            "module": module_of(operator),
            "kind": operator.kind.value,
            "pass": operator.phase.value,
            "flops": operator.flops,
            "work": operator.work,
            "depth": operator.depth,
            "read_bytes": operator.read_bytes,
            "written_bytes": operator.written_bytes,
            "parameters": operator.parameters,
            "saved_bytes": operator.saved_bytes,
            "inputs": list(operator.inputs),
        }


def analyze(of: Analysed) -> Analysis:
    """Trace a training step; where that fails the graph is unknown, and parameters are counted alone."""
    from search_spaces.tracing import TraceError, class_loss, trace

    parameters = _shaped_parameters(of.network)
    try:
        return Analysis(of, parameters, trace(of.network, of.signature, of.size.batch, of.loss or class_loss))
    except TraceError as error:
        return Analysis(of, parameters, None, str(error))


def _shaped_parameters(network: "Module") -> int:
    """Elements of all parameters but those that get their shape from data."""
    from torch.nn.parameter import is_lazy

    return sum(weight.numel() for weight in network.parameters() if not is_lazy(weight))

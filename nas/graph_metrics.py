"""Static metrics read from the operator graph of one training step: one trace serves all that are asked for."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from search_spaces import Candidate, Signature
from search_spaces.memory import step_memory
from search_spaces.operator_graph import OperatorGraph, Phase, step_flops, step_macs
from search_spaces.work_depth import Concurrency, work_depth
from trainers.optimizer_states import OptimizerBytes, states
from trainers.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from trainers.parallelism.rates import Machine


class GraphUnknownError(Exception):
    """Metrics are asked of a graph that tracing does not give; the text says why, and the remedy."""


@dataclass(frozen=True, slots=True)
class StepSize:
    """Samples of a training step over all ranks, and how often the optimizer keeps something as large as a weight.

    ``optimizer`` says in bytes what it keeps and moves.
    """

    batch: int
    optimizer_states: int
    optimizer: OptimizerBytes

    @classmethod
    def of(cls, settings: Mapping[str, Any], hyperparameters: Mapping[str, Any]) -> "StepSize":
        """As hyperparameters, else settings of the trainer say by the supervised trainer's names, else its defaults."""
        default = Settings()
        given = {**settings, **hyperparameters}
        batch = given.get("batch_size")
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            batch = default.batch_size
        optimizer, momentum = (given.get(name, getattr(default, name)) for name in ("optimizer", "momentum"))
        return cls(batch, states(str(optimizer), momentum), OptimizerBytes.of(str(optimizer), momentum))


class _Counted:
    """A traced step, each of its numbers worked out where it is asked for."""

    def __init__(self, graph: OperatorGraph, size: StepSize, machine: "Callable[[], Machine] | None") -> None:
        self.graph = graph
        self.size = size
        self._machine = machine

    @cached_property
    def concurrency(self) -> Concurrency[int]:
        return work_depth(self.graph)

    def seconds(self) -> float:
        """Predicted of the step on one device."""
        from trainers.parallelism.cost import price
        from trainers.parallelism.plan import Plan
        from trainers.parallelism.workload import columns, torch_operator

        if self._machine is None:
            raise ValueError(f"no rates of a machine are given; search.static_metrics names it {STEP_SECONDS!r}")
        work = columns(self.graph, kind=torch_operator)
        return price(work, Plan(), self._machine(), self.size.optimizer).seconds

    def per_sample(self, count: int) -> float:
        """A count of the whole batch for one sample, whole where it divides."""
        whole, rest = divmod(count, self.graph.batch)
        return count / self.graph.batch if rest else whole


STEP_SECONDS = "step_seconds"
_METRICS: Mapping[str, Callable[[_Counted], float]] = {
    "flops": lambda step: step.per_sample(step_flops(step.graph, Phase.FORWARD)),
    "macs": lambda step: step.per_sample(step_macs(step.graph, Phase.FORWARD)),
    "work": lambda step: step.concurrency.work,
    "depth": lambda step: step.concurrency.depth,
    "parallelism": lambda step: step.concurrency.parallelism,
    "memory_bytes": lambda step: step_memory(step.graph, step.size.optimizer_states).peak_bytes,
    STEP_SECONDS: _Counted.seconds,
}
NAMES = tuple(_METRICS)


@dataclass(frozen=True, slots=True)
class GraphMetrics:
    """A static metric that gives ``names``; ``settings`` are the trainer's, for the size of a step.

    ``loss`` makes the task's loss for tracing, None: cross-entropy. ``machine`` gives the rates for ``step_seconds``.

    ``flops`` and ``macs`` are of the forward pass of one sample; ``work``, ``depth`` (unit operations),
    ``parallelism``, ``memory_bytes`` (the peak, optimizer included) and ``step_seconds`` (predicted, on one device) of
    a training step of the batch.
    """

    names: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    loss: "Callable[[], Callable[[Any], Tensor]] | None" = None
    machine: "Callable[[], Machine] | None" = None

    def without(self, known: Collection[str]) -> "GraphMetrics":
        """The same for the names that are not ``known``."""
        return replace(self, names=tuple(name for name in self.names if name not in known))

    def __call__(self, candidate: Candidate, network: "Module | None", signature: Signature) -> dict[str, float]:
        """Metrics by name, of one trace; raises GraphUnknownError where there is no network or it cannot be traced."""
        if not self.names:
            return {}
        if network is None:
            raise GraphUnknownError(self._unknown("the network cannot be built without data"))
        from search_spaces.tracing import TraceError, class_loss, trace

        size = StepSize.of(self.settings, candidate.hyperparameters)
        try:
            loss = self.loss() if self.loss else class_loss
        except Exception as error:
            raise GraphUnknownError(self._unknown(f"the loss of the task has no targets ({error})")) from error
        try:
            step = _Counted(trace(network, signature, size.batch, loss), size, self.machine)
        except TraceError as error:
            raise GraphUnknownError(self._unknown(str(error))) from error
        return {name: _METRICS[name](step) for name in self.names}

    def _unknown(self, why: str) -> str:
        return (
            f"{', '.join(self.names)}: the graph of this network is unknown, {why}; keep values of tensors out of "
            "what is built and computed (.item(), masks, numpy), give the metric by a function of your own "
            "(search.static_metrics), or leave it out"
        )


flops, macs, work, depth, parallelism, memory_bytes, step_seconds = (GraphMetrics((name,)) for name in NAMES)

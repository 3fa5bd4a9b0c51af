"""A network's training step as plans are priced from it: its work at any batch, and where trials would cut it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from search_spaces.operator_graph import OperatorGraph
from search_spaces.signature import Signature
from search_spaces.tracing import Loss, TraceError, class_loss, trace
from trainers.parallelism.applied_cuts import AppliedCuts, applied_cuts
from trainers.parallelism.scaling import Scaled
from trainers.parallelism.workload import Workload, columns, torch_operator

SMALL = 2
"""Samples of the second trace, from which other batches follow; a norm needs two."""


@dataclass(frozen=True, eq=False)
class TracedStep:
    """``work`` gives the workload of any micro-batch of a step of ``batch`` samples; ``limits`` say what it cannot."""

    batch: int
    work: Callable[[int], Workload]
    cuts: AppliedCuts
    limits: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        network: nn.Module,
        signature: Signature,
        batch: int,
        stages: Sequence[int] = (),
        loss: Loss = class_loss,
        graph: OperatorGraph | None = None,
    ) -> "TracedStep":
        """Trace ``network``, unless the ``graph`` of its batch is known, and cut it into each number of ``stages``.

        Raises TraceError where the batch cannot be traced.
        """
        graph = graph or trace(network, signature, batch, loss)
        whole = columns(graph, kind=torch_operator)
        cuts = applied_cuts(network, signature, graph, whole, stages, loss) if stages else AppliedCuts()
        refusal = (cuts.refusal,) if cuts.refusal else ()
        try:
            other = trace(network, signature, SMALL if batch > SMALL else 2 * batch, loss)
            return cls(batch, Scaled(whole, columns(other, kind=torch_operator)), cuts, refusal)
        except (TraceError, ValueError) as error:
            return cls(batch, _Alone(whole), cuts, (f"plans that share the batch: {error}", *refusal))


@dataclass(frozen=True, eq=False)
class _Alone:
    """The work of one batch, of which no other follows."""

    whole: Workload

    def __call__(self, samples: int) -> Workload:
        if samples != self.whole.samples:
            raise ValueError(f"the work of {samples} samples is unknown")
        return self.whole

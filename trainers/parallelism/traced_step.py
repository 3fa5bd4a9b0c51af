"""A network's training step as plans are priced from it: its work at any batch, and where trials would cut it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from torch import nn

from search_spaces.signature import Signature
from search_spaces.tracing import Loss, TraceError, class_loss, trace
from trainers.parallelism.chain import Chain, CutError
from trainers.parallelism.forward_graph import UnknownGraphError
from trainers.parallelism.partition import micro_samples
from trainers.parallelism.plan import MICRO_BATCHES_A_STAGE, Plan
from trainers.parallelism.scaling import Scaled
from trainers.parallelism.workload import Workload, columns, torch_operator

SMALL = 2
"""Samples of the second trace, from which other batches follow; a norm needs two."""


@dataclass(frozen=True, eq=False)
class TracedStep:
    """``work`` gives the workload of any micro-batch of a step of ``batch`` samples.

    ``limits`` say what cannot be priced, and why.
    """

    batch: int
    work: Callable[[int], Workload]
    limits: tuple[str, ...] = ()
    chain: Chain | None = None
    _starts: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, network: nn.Module, signature: Signature, batch: int, stages: Iterable[int] = (), loss: Loss = class_loss
    ) -> "TracedStep":
        """Trace ``network``, and try to cut it into each number of ``stages`` (ascending).

        Raises TraceError where the batch cannot be traced.
        """
        stages = tuple(stages)
        chain, limits = _chain(network, stages)

        def traced(samples: int) -> Workload:
            if chain is not None:
                return chain.workload(signature, samples, loss)
            return columns(trace(network, signature, samples, loss), kind=torch_operator)

        whole = traced(batch)
        try:
            step = cls(batch, Scaled(whole, traced(SMALL if batch > SMALL else 2 * batch)), limits, chain)
        except (TraceError, ValueError) as error:
            step = cls(batch, _Alone(whole), (f"plans that share the batch: {error}", *limits), chain)
        return step if chain is None else replace(step, limits=(*step.limits, *step._refusal(stages)))

    def starts(self, plan: Plan) -> tuple[int, ...]:
        """Units before which stages start in a trial under ``plan``. Raises ValueError where they cannot."""
        if plan.pipeline == 1:
            return ()
        if self.chain is None:
            raise ValueError(f"plan {plan}: this network is not known as a chain of units that stages could hold")
        samples = micro_samples(self.batch // (plan.data * plan.micro_batches))
        known = (plan.pipeline, samples)
        if known not in self._starts:
            self._starts[known] = self.chain.starts(self.work(samples), plan.pipeline)
        return self._starts[known]

    def _refusal(self, stages: Iterable[int]) -> Iterable[str]:
        """Why it cannot be cut into the first number of ``stages`` that is impossible."""
        for number in stages:
            try:
                self.starts(Plan(pipeline=number, micro_batches=MICRO_BATCHES_A_STAGE * number))
            except ValueError as error:
                return (str(error),)
        return ()


def _chain(network: nn.Module, stages: tuple[int, ...]) -> tuple[Chain | None, tuple[str, ...]]:
    """The network as a chain where stages are asked for, or why it is none."""
    if not stages:
        return None, ()
    try:
        return Chain(network), ()
    except UnknownGraphError as error:
        return None, (str(CutError(str(error), stages[0])),)


@dataclass(frozen=True, eq=False)
class _Alone:
    """The work of one batch, of which no other follows."""

    whole: Workload

    def __call__(self, samples: int) -> Workload:
        if samples != self.whole.samples:
            raise ValueError(f"the work of {samples} samples is unknown")
        return self.whole

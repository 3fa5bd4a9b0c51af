"""The pipeline axis: stages of the network on different devices, fed with micro-batches (Huang et al. 2019)."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.collective_costs import send
from trainers.parallelism.line_balancing import balance
from trainers.parallelism.operator_costs import unit_seconds
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.share import Collective, Exchange, Share
from trainers.parallelism.stages import Cuts, cut
from trainers.parallelism.workload import Workload

if TYPE_CHECKING:
    from torch import fx, nn

    from search_spaces import Signature
    from search_spaces.tracing import Loss

EXCHANGES = "activations and gradients at borders of stages"

WORTHWHILE = 1.01
"""How far above its bound the largest stage must be for other orders to be looked at."""


def split(share: Share, plan: Plan, machine: Machine) -> Share:
    """Cut the units into stages, where the share does not say how, so that the slowest is as fast as can be.

    Each border passes activations forward and their gradients backward, once a micro-batch.
    """
    if plan.pipeline == 1:
        return replace(share, starts=())
    work, starts = share.work, share.starts
    nodes = machine.nodes(2, plan.width // plan.pipeline)
    if starts is None:
        link = machine.link(2, nodes)
        work, cuts = best_cut(work, unit_seconds(work, machine), lambda size: 2 * send(link, size), plan.pipeline)
        starts = cuts.starts
    if len(starts) != plan.pipeline - 1:
        raise ValueError(f"plan {plan}: {len(starts)} cuts given, {plan.pipeline - 1} needed")
    edges = np.array([0, *starts, work.units])
    sent = work.returning_bytes[edges[:-1]] + work.crossing_bytes[edges[1:]]
    borders = Exchange("pipeline", Collective.SEND, 2, nodes, sent, plan.micro_batches)
    return replace(share, work=work, starts=tuple(starts), exchanges=(*share.exchanges, borders))


def apply(
    network: "nn.Module", plan: Plan, signature: "Signature", samples: int, loss: "Loss"
) -> "tuple[fx.GraphModule, ...]":
    """The stages of ``network``, balanced for micro-batches of ``samples`` with their ``loss``.

    Each takes what the one before returns and keeps the names of its parameters, which it shares with the network.
    Raises ``partition.CutError`` where there are not so many.
    """
    from trainers.parallelism.partition import partition

    return partition(network, signature, samples, plan.pipeline, loss)


def best_cut(
    work: Workload, unit_costs: FloatArray, border_costs: Callable[[FloatArray], FloatArray], stages: int
) -> tuple[Workload, Cuts]:
    """The cut into ``stages`` whose largest is smallest, and the work in the order of units that it is of.

    ``border_costs`` of bytes that pass borders [units + 1]. Other orders than the given one are looked at where they
    are few and the given one leaves something to gain.
    """
    cuts = cut(unit_costs, border_costs(work.crossing_bytes), stages)
    if cuts.largest <= WORTHWHILE * cuts.lower_bound:
        return work, cuts
    other = balance(unit_costs.tolist(), work.unit_inputs, stages)
    if other is None:
        return work, cuts
    ordered = work.reordered(other.order)
    again = cut(unit_costs[list(other.order)], border_costs(ordered.crossing_bytes), stages)
    return (ordered, again) if again.largest < cuts.largest else (work, cuts)


def bubble_share(stages: int, micro_batches: int) -> float:
    """Share of a step in which a device of equal stages waits, for GPipe and 1F1B: (S - 1) / (M + S - 1)."""
    return (stages - 1) / (micro_batches + stages - 1)


def pipeline_seconds(stage_seconds: FloatArray, micro_batches: int) -> float:
    """Seconds of all micro-batches through stages of ``stage_seconds`` [stages], forward and backward together.

    The first fills every stage, the others follow at the pace of the slowest (GPipe and 1F1B alike):
    ``sum u + (M - 1) max u``, which for equal stages is ``(M + S - 1) u``.
    """
    return float(stage_seconds.sum() + (micro_batches - 1) * stage_seconds.max())

"""The shard axis: weights, gradients and optimiser states are spread (ZeRO-3, FSDP; Rajbhandari et al. 2020)."""

from dataclasses import replace

from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.share import Collective, Exchange, Share

EXCHANGES = "2 all-gathers of weights, reduce-scatter of gradients"


def split(share: Share, plan: Plan, machine: Machine) -> Share:
    """Gather weights before each forward and backward pass, scatter the sums of gradients once a step."""
    if plan.shard == 1:
        return share
    nodes = machine.nodes(plan.shard, plan.tensor)
    weights = share.parameters * share.work.element_bytes
    ranks, passes = plan.shard, 2 * plan.micro_batches
    gather = Exchange("shard", Collective.ALL_GATHER, ranks, nodes, weights, passes, overlaps_forward=True)
    gradients = share.learning * share.work.element_bytes
    scatter = Exchange("shard", Collective.REDUCE_SCATTER, ranks, nodes, gradients)
    return replace(share, exchanges=(*share.exchanges, gather, scatter), state_shards=share.state_shards * ranks)

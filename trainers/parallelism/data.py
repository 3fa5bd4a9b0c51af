"""The data axis: every rank holds the network and a part of each batch (Ben-Nun and Hoefler 2018, 6.1)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.share import Collective, Exchange, Share

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed import ProcessGroup

EXCHANGES = "all-reduce of gradients"


def split(share: Share, plan: Plan, machine: Machine) -> Share:
    """All-reduce what a device holds of the gradients once a step, after the last micro-batch.

    DistributedDataParallel sends zeros for weights that get none; shards and stages leave them out.
    """
    if plan.data == 1:
        return share
    nodes = machine.nodes(plan.data, plan.tensor * plan.shard)
    held = share.learning if plan.pipeline * plan.shard > 1 else share.parameters
    gradients = held * (share.work.element_bytes / share.state_shards)
    exchange = Exchange("data", Collective.ALL_REDUCE, plan.data, nodes, gradients)
    return replace(share, exchanges=(*share.exchanges, exchange))


def apply(network: "nn.Module", device: str) -> "nn.Module":
    """Wrap ``network`` so that gradients are averaged over ranks while the backward pass still runs."""
    import torch
    from torch import nn

    place = torch.device(device)
    return nn.parallel.DistributedDataParallel(
        network,
        device_ids=[place] if place.type == "cuda" else None,
        forward_sync_buffers=False,
        gradient_as_bucket_view=True,
        static_graph=True,
    )


def gradient_weight(own: int, batch: int, ranks: int) -> float:
    """Factor of a rank's mean loss that makes the average over ranks the mean over the ``batch`` samples."""
    return own * ranks / batch


def described(network: "nn.Module") -> str:
    """Names, shapes and types of all that a network's state holds."""
    return str([(name, tuple(value.shape), str(value.dtype)) for name, value in network.state_dict().items()])


def check_same(network: str, text: str, device: str) -> None:
    """Raise RuntimeError where another rank has another ``network``, or ``text`` (candidate, seed, settings)."""
    from trainers.parallelism.collectives import differing_ranks

    others = differing_ranks(f"{text} {network}", device)
    if others:
        raise RuntimeError(
            f"ranks {others} built another network than rank 0 (here: {text}); a space's build() must depend on "
            "the architecture alone, and all ranks must run the same version of its code"
        )


def share_buffers(network: "nn.Module", group: "ProcessGroup | None" = None) -> None:
    """Give the buffers (running statistics) of the first rank of ``group`` (None: all ranks) to the others."""
    import torch
    from torch import distributed

    for buffer in network.buffers():
        sent = buffer.view(torch.uint8) if buffer.dtype is torch.bool else buffer
        distributed.broadcast(sent, group=group, group_src=0)


@contextmanager
def idle(network: "nn.Module") -> Iterator[None]:
    """A forward pass of a rank that has no sample of the batch: it joins every collective and changes nothing."""
    from trainers.parallelism.batch_norm import GlobalBatchNorm

    modules = [module for module in network.modules() if module.training]
    for module in modules:
        if isinstance(module, GlobalBatchNorm):
            module.idle = True
        else:
            module.training = False
    yield
    for module in modules:
        if isinstance(module, GlobalBatchNorm):
            module.idle = False
        else:
            module.training = True


def sum_over_ranks(values: "torch.Tensor") -> "torch.Tensor":
    """Sum ``values`` over ranks, in place."""
    from torch import distributed

    distributed.all_reduce(values)
    return values

"""Cuts a network into consecutive stages, each a module of its own that keeps the names of its parameters."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn

from search_spaces.signature import Signature
from search_spaces.tracing import Loss, TraceError, class_loss
from trainers.parallelism.chain import Chain, CutError
from trainers.parallelism.forward_graph import UnknownGraphError, in_mode
from trainers.parallelism.workload import Workload


def partition(
    network: nn.Module, signature: Signature, samples: int, stages: int, loss: Loss = class_loss
) -> tuple[fx.GraphModule, ...]:
    """Cut ``network`` so that for a micro-batch of ``samples`` the largest of ``stages`` is as small as can be.

    ``loss`` is a part of the last stage; one that cannot be traced counts as cross-entropy. The stages share parameters
    and buffers with the network, and are the same on every rank. Where the network is not on the meta device, two
    samples are sent through both. Raises CutError.
    """
    try:
        chain = Chain(network)
        work = _workload(chain, signature, samples, loss)
    except (UnknownGraphError, TraceError) as error:
        raise CutError(str(error), stages) from error
    parts = chain.parts(chain.starts(work, stages))
    if not any(tensor.is_meta for tensor in network.state_dict().values()) and not _agree(network, parts, signature):
        raise CutError("its stages do not compute what it computes, say because it changes views of tensors", stages)
    return parts


def _workload(chain: Chain, signature: Signature, samples: int, loss: Loss) -> Workload:
    try:
        return chain.workload(signature, micro_samples(samples), loss)
    except TraceError:
        if loss is class_loss:
            raise
        return chain.workload(signature, micro_samples(samples))


def micro_samples(samples: int) -> int:
    """Samples that a micro-batch is traced with: a norm needs two."""
    return max(2, samples)


@torch.no_grad()
def _agree(network: nn.Module, stages: Sequence[nn.Module], signature: Signature) -> bool:
    """Whether both give the same for two samples, in evaluation."""
    given, generator = signature.input, torch.Generator().manual_seed(0)
    shape, dtype = (2, *given.shape), getattr(torch, given.dtype)
    if given.of_integers:
        inputs = torch.randint(given.vocabulary or 2, shape, generator=generator, dtype=dtype)
    else:
        inputs = torch.randn(shape, generator=generator).to(dtype)
    with in_mode(network, False):
        values: Any = (inputs.clone(),)
        for stage in stages:
            values = stage(*(value.clone() for value in values))  # as copies pass from rank to rank
        return bool(torch.allclose(values, network(inputs), rtol=1e-4, atol=1e-6, equal_nan=True))

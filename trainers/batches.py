"""Batches of an epoch: order, batch bounds and augmentation are a function of (seed, epoch) alone, on every rank."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from trainers.seeds import derived
from trainers.task import Split

_CHUNK_BYTES = 64 << 20

Augment = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


@dataclass(frozen=True)
class Tensors:
    """A split as two tensors: ``inputs`` [samples, *input shape] and ``targets`` [samples, ...]."""

    inputs: torch.Tensor
    targets: torch.Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def rows(self, index: torch.Tensor | slice, device: str) -> "Tensors":
        """Samples at ``index``, on ``device``."""
        return Tensors(self.inputs[index].to(device), self.targets[index].to(device))


@dataclass(frozen=True)
class Batch:
    """One rank's part of a global batch of ``size`` samples; where it is empty, ``stand_in`` has a sample's shape."""

    inputs: torch.Tensor
    targets: torch.Tensor
    size: int
    stand_in: torch.Tensor


def tensors(split: Split, dtype: str, device: str) -> Tensors:
    """Move a split to ``device`` whole, or leave it in host memory where it would fill over a quarter of it."""
    inputs = torch.from_numpy(np.ascontiguousarray(split.inputs)).to(getattr(torch, dtype))
    targets = _standard(torch.from_numpy(np.ascontiguousarray(split.targets)))
    if torch.device(device).type == "cuda" and inputs.nbytes > torch.cuda.mem_get_info(device)[0] / 4:
        return Tensors(inputs, targets)
    return Tensors(inputs.to(device), targets.to(device))


def _standard(targets: torch.Tensor) -> torch.Tensor:
    """Class numbers as int64, real numbers as float32: what torch's losses take."""
    return targets.float() if targets.is_floating_point() else targets.long()


def batch_count(samples: int, batch_size: int) -> int:
    """Batches in an epoch."""
    return -(-samples // batch_size)


def share(count: int, rank: int, ranks: int) -> tuple[int, int]:
    """Return first and end of rank's part of ``count`` rows; parts differ by at most one, larger ones first."""
    size, extra = divmod(count, ranks)
    first = rank * size + min(rank, extra)
    return first, first + size + (rank < extra)


def epoch_batches(
    data: Tensors,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    augment: Augment,
    device: str,
    rank: int = 0,
    ranks: int = 1,
) -> Iterator[Batch]:
    """Yield a rank's part of each batch.

    The epoch is cut into the fewest batches of at most ``batch_size``, as equal as can be: no tiny last one. Samples
    are gathered and augmented many batches at a time, by every rank alike, so that a sample does not depend on the
    number of ranks.
    """
    samples, batches = len(data), batch_count(len(data), batch_size)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(derived(seed, "order", epoch)))
    order = order.to(data.inputs.device)
    generator = torch.Generator(device=device).manual_seed(derived(seed, "augment", epoch))
    for group in _groups(samples, batches, data.inputs[:1].nbytes):
        bounds = [share(samples, number, batches) for number in group]
        begin, end = bounds[0][0], bounds[-1][1]
        chunk = data.rows(order[begin:end], device)
        inputs = augment(chunk.inputs, generator)
        for first, last in bounds:
            own_first, own_last = share(last - first, rank, ranks)
            rows = slice(first - begin + own_first, first - begin + own_last)
            yield Batch(inputs[rows], chunk.targets[rows], last - first, stand_in=inputs[:1])


def _groups(samples: int, batches: int, sample_bytes: int) -> Iterator[range]:
    """Consecutive batches that fit in a chunk."""
    together = max(1, _CHUNK_BYTES // max(1, sample_bytes * -(-samples // batches)))
    for first in range(0, batches, together):
        yield range(first, min(batches, first + together))

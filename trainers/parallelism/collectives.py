"""Small agreements between the ranks of a trial, over torch.distributed's default group."""

from hashlib import blake2b
from typing import Any

import torch
from torch import distributed
from torch.distributed import ProcessGroup


def from_rank_0(number: int, device: str) -> int:
    """Return rank 0's ``number`` on every rank."""
    shared = torch.tensor([number], dtype=torch.int64, device=device)
    distributed.broadcast(shared, 0)
    return int(shared.item())


def differing_ranks(text: str, device: str) -> list[int]:
    """Ranks whose ``text`` is not rank 0's; the same list on every rank."""
    digest = int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "little")
    own = torch.tensor([digest], dtype=torch.int64, device=device)
    every = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(every, own)
    return [rank for rank, other in enumerate(every) if other.item() != every[0].item()]


def from_rank(rank: int, value: Any, device: str) -> Any:
    """Return what ``rank`` gives as ``value`` on every rank; small things only."""
    held = [value]
    distributed.broadcast_object_list(held, rank, device=torch.device(device))
    return held[0]


def gather_rows(rows: torch.Tensor, counts: list[int], group: ProcessGroup | None = None) -> torch.Tensor:
    """Concatenate the ``rows`` [counts[rank], ...] of the ranks of ``group`` (None: all) in order, on each of them."""
    longest = max(counts)
    padded = rows.new_zeros((longest, *rows.shape[1:]))
    padded[: len(rows)] = rows
    every = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(every, padded, group)
    return torch.cat([part[:count] for part, count in zip(every, counts, strict=True)])

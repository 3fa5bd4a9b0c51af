"""Small agreements between the ranks of a trial, over torch.distributed's default group."""

from hashlib import blake2b

import torch
from torch import distributed


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


def gather_rows(rows: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """Concatenate the ranks' ``rows`` [counts[rank], ...] in the order of ranks, on every rank."""
    longest = max(counts)
    padded = rows.new_zeros((longest, *rows.shape[1:]))
    padded[: len(rows)] = rows
    every = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(every, padded)
    return torch.cat([part[:count] for part, count in zip(every, counts, strict=True)])

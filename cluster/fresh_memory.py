"""What large results cost beside their operator: memory that the C library takes fresh from the system each time.

glibc maps every piece above 32 MiB anew, and the system clears its pages one by one as they are written (mallopt(3),
M_MMAP_THRESHOLD). An accelerator's memory is kept by torch.
"""

from math import inf
from statistics import median

import torch

from cluster.operator_timing import TimedDevice

KEPT, FRESH = 24 << 20, 48 << 20
"""Bytes of results on both sides of glibc's limit."""
LIMIT = 32 << 20
WORTHWHILE = 1.3
"""How much slower fresh memory must be to count."""


def time_fresh_memory(device: TimedDevice, repeats: int = 9) -> tuple[float, float]:
    """Bytes of a result from which its memory is fresh, and seconds a byte that this takes; infinite and 0 for none."""
    if device.accelerator:
        return inf, 0.0
    kept, fresh = (_seconds_per_byte(device, size, repeats) for size in (KEPT, FRESH))
    return (float(LIMIT), fresh - kept) if fresh > WORTHWHILE * kept else (inf, 0.0)


def _seconds_per_byte(device: TimedDevice, size: int, repeats: int) -> float:
    argument = torch.ones(size // 4)
    return median([device.of(lambda: argument + 1.0) for _ in range(repeats)][2:]) / size

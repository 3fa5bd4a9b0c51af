"""Devices of this machine and their memory."""

import os
from math import inf
from pathlib import Path

LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container's memory is limited: control groups, version 2 and 1."""


def local_devices(device: str) -> int:
    """Devices of this kind here: cores that this process may use, or GPUs."""
    if device == "cpu":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    import torch

    return torch.cuda.device_count()


def memory_bytes(device: str) -> float:
    """Memory of a device; of a core, its part of the machine's."""
    if device == "cpu":
        machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        return min(machine, *map(_limit, LIMITS)) / local_devices(device)
    import torch

    return float(torch.cuda.get_device_properties(device).total_memory)


def _limit(path: Path) -> float:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return inf
    return float(text) if text.isdecimal() else inf


def context_bytes(device: str) -> float:
    """What a rank holds of a device's memory before it has a network."""
    from cluster.worker import resident_bytes

    if device == "cpu":
        return float(resident_bytes())
    import torch

    free, total = torch.cuda.mem_get_info(device)
    return float(total - free - torch.cuda.memory_reserved(device))

"""A worker is as new between two trials: what a trial may have left in its process is put back.

A user's code changes the working directory, the environment, torch's defaults or the gradient mode, starts processes,
opens a process group. The next trial on the same worker must not see it.
"""

import errno
import gc
import os
import random
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

_GC_SHARE = 0.05
"""Share of a worker's time that full collections may take."""


@dataclass
class Baseline:
    """The state that `restore` puts back, as it is when this object is made; ``threads`` for torch."""

    threads: int
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: str = field(default_factory=os.getcwd)
    path: list[str] = field(default_factory=lambda: list(sys.path))

    def __post_init__(self) -> None:
        self._torch = _torch_settings()
        self._collected, self._collecting = monotonic(), 0.0
        gc.collect()
        gc.freeze()  # imported modules are never searched again: a collection then takes a millisecond

    def restore(self) -> None:
        """Put everything back; called after each leg, in the thread that ran it."""
        _end_process_group()
        end_children()
        if os.environ != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)
        with suppress(OSError):
            os.chdir(self.folder)
        sys.path[:] = self.path
        _apply_torch_settings(self._torch, self.threads)
        self._collect()

    def seed(self, seed: int) -> None:
        """Set the global random states, which a user's own code may draw from, by the trial's seed."""
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)

    def _collect(self) -> None:
        """Collect garbage, as often as its share of the time allows."""
        now = monotonic()
        if (now - self._collected) * _GC_SHARE < self._collecting:
            return
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        self._collected = monotonic()
        self._collecting = self._collected - now


def _torch_settings() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "benchmark": torch.backends.cudnn.benchmark,
    }


def _apply_torch_settings(settings: dict[str, Any], threads: int) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not settings:
        return
    torch.set_grad_enabled(True)
    torch.autograd.set_detect_anomaly(False)
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    now = _torch_settings()
    if now == settings:
        return
    torch.set_default_dtype(settings["dtype"])
    torch.set_default_device(settings["device"] if settings["device"].type != "cpu" else None)
    torch.use_deterministic_algorithms(settings["deterministic"])
    torch.set_float32_matmul_precision(settings["precision"])
    torch.backends.cudnn.benchmark = settings["benchmark"]


def _end_process_group() -> None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def end_children() -> None:
    """Kill and reap this process's children, but for the two that the standard library keeps for itself."""
    if not _has_children():
        return
    for child in _children() - _standard_servants():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError as error:
        return error.errno != errno.ECHILD
    return True


def _children() -> set[int]:
    found: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread may end meanwhile
            found.update(map(int, listing.read_text().split()))
    return found


def _standard_servants() -> set[int]:
    """Process ids of multiprocessing's resource tracker and fork server, which outlive a trial by design."""
    servants = {
        getattr(
            getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None),
            "_pid",
            None,
        ),
        getattr(
            getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None),
            "_forkserver_pid",
            None,
        ),
    }
    return {pid for pid in servants if pid}

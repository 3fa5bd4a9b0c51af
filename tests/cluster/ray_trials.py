"""Trainers of the tests: each does one thing that a user's code may do."""

import os
import signal
import sys
import time

from search_spaces import Candidate
from trainers import Context


def act(candidate: Candidate, context: Context) -> None:
    """Do what the candidate's hyperparameter ``act`` says."""
    _ACTIONS[str(candidate.hyperparameters["act"])](context)


def _report(context: Context) -> None:
    context.report(context.until, {"pid": os.getpid()})


def _sum(context: Context) -> None:
    """Sum rank + 1 over the ranks."""
    import torch
    import torch.distributed as dist

    total = torch.tensor([context.rank + 1.0])
    if context.world_size > 1:
        dist.all_reduce(total)
    context.report(context.until, {"total": total.item(), "pid": os.getpid()})


def _kill(context: Context) -> None:
    """The last rank dies by a signal; the others wait for it in a collective."""
    if context.rank == context.world_size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    _sum(context)


def _raise(context: Context) -> None:
    """Rank 1 raises; the others wait for it in a collective."""
    if context.rank == 1:
        raise LookupError("the real reason")
    _sum(context)


def _stick(context: Context) -> None:
    """Rank 1 raises; the others see nothing of it and never end."""
    if context.rank == 1:
        raise LookupError("the real reason")
    _block(context)


def _block(context: Context) -> None:
    """Never report, never end."""
    print("blocked", flush=True)
    while True:
        time.sleep(60)


def _spin(context: Context) -> None:
    """Report small steps until halted."""
    for step in range(1, 100_000):
        context.report(context.until * step / 1e5, {"step": step, "rank": context.rank})
        time.sleep(0.005)


def _litter(context: Context) -> None:
    """Leave everything changed."""
    import subprocess

    import torch

    child = subprocess.Popen(["sleep", "600"])
    os.environ["LITTER"] = "1"
    os.chdir("/")
    sys.path.insert(0, "/litter")
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(2)
    print("printed by python")
    os.write(2, b"written to descriptor 2\n")
    context.report(context.until, {"child": child.pid, "pid": os.getpid()})


def _inspect(context: Context) -> None:
    """Report what is left of `_litter`."""
    import torch

    left = {
        "environment": "LITTER" in os.environ,
        "folder": os.getcwd() == "/",
        "path": "/litter" in sys.path,
        "dtype": torch.get_default_dtype() != torch.float32,
        "gradients": not torch.is_grad_enabled(),
        "threads": torch.get_num_threads() != 1,
    }
    context.report(context.until, {"left": sum(left.values()), "pid": os.getpid()})


def _silent(context: Context) -> None:
    """Return without a report."""


_ACTIONS = {
    "report": _report,
    "sum": _sum,
    "kill": _kill,
    "raise": _raise,
    "stick": _stick,
    "block": _block,
    "spin": _spin,
    "litter": _litter,
    "inspect": _inspect,
    "silent": _silent,
}

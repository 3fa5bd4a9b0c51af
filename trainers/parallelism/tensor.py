"""The tensor axis: operators are divided within layers (Shoeybi et al. 2019; Ben-Nun and Hoefler 2018, 6.2)."""

from dataclasses import replace

import numpy as np

from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.share import Share

EXCHANGES = "activations and gradients of fully connected layers"


def split(share: Share, plan: Plan, machine: Machine) -> Share:
    """Divide what the workload says can be divided; raise ValueError where that is nothing.

    All-reduces of activations stay with the operators that they follow, and are priced with them.
    """
    del machine
    work = share.work
    if plan.tensor == 1:
        return share
    if not work.divided.any():
        raise ValueError(f"plan {plan}: no operator of this network says how the tensor axis divides it")
    part = np.where(work.divided, 1 / plan.tensor, 1.0)
    divided = replace(
        work,
        flops=work.flops * part,
        bytes=work.bytes * part,
        parameters=work.parameters * part,
        saved_bytes=work.saved_bytes * part,
        written_bytes=work.written_bytes * part,
        temporary_bytes=work.temporary_bytes * part,
        tensor_ranks=plan.tensor,
    )
    return replace(share, work=divided)

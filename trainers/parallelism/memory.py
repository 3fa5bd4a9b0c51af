"""What a plan needs of a device's memory (MODELS.md 4.4)."""

from enum import StrEnum

import numpy as np

from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.share import Share


class Schedule(StrEnum):
    """In which order a pipeline's stages run the micro-batches of a step."""

    ALL_FORWARD_ALL_BACKWARD = "gpipe"
    ONE_FORWARD_ONE_BACKWARD = "1f1b"


FRAGMENTATION = 1.0
"""phi, where nothing is measured."""


def memory_bytes(
    share: Share,
    plan: Plan,
    machine: Machine,
    state_bytes: float,
    schedule: Schedule = Schedule.ONE_FORWARD_ONE_BACKWARD,
    phi: float = FRAGMENTATION,
) -> FloatArray:
    """[stages] bytes that a device of each stage needs at its fullest.

    ``phi (states + activations in flight + largest temporary) + context``. ``state_bytes`` are those of a parameter's
    weight, gradient and optimiser: the buckets of replicas are these gradients (``gradient_as_bucket_view``). A network
    that is not cut takes no more than its fullest moment.
    """
    work = share.work
    states = share.parameters * (state_bytes / share.state_shards)
    temporary = np.zeros(share.stages)
    np.maximum.at(temporary, share.stage, work.temporary_bytes)
    working = activation_bytes(share, plan, schedule) + temporary
    if share.stages == 1 and not plan.recompute:
        working = np.minimum(working, work.peak_bytes)
    held: FloatArray = states + working
    return phi * held + machine.device.context_bytes


def activation_bytes(share: Share, plan: Plan, schedule: Schedule) -> FloatArray:
    """[stages] bytes kept for the backward pass: those of a micro-batch times ``in_flight``.

    With recomputation a micro-batch keeps what enters its stage, and one at a time is computed anew.
    """
    kept = share.per_stage(share.work.saved_bytes)
    flying = in_flight(share.stages, plan.micro_batches, schedule)
    if not plan.recompute:
        return kept * flying
    entering: FloatArray = share.work.crossing_bytes[np.array([0, *(share.starts or ())])]
    return kept + np.minimum(entering, kept) * flying


def in_flight(stages: int, micro_batches: int, schedule: Schedule) -> FloatArray:
    """[stages] micro-batches whose activations a stage holds at once: m (GPipe), min(m, p - j) (1F1B).

    Stages follow one another within a step; gradients that accumulate without a pipeline hold one micro-batch.
    """
    if stages > 1 and schedule is Schedule.ALL_FORWARD_ALL_BACKWARD:
        return np.full(stages, float(micro_batches))
    return np.minimum(micro_batches, stages - np.arange(stages)).astype(np.float64)


def fits(memory: float, log_error: float, machine: Machine) -> bool:
    """Whether ``memory`` bytes and two standard deviations of its logarithm fit on a device."""
    return memory * (1 + 2 * log_error) <= machine.device.memory_bytes

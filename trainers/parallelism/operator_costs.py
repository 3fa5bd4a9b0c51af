"""Seconds of single operators on a device (MODELS.md 4.1): launch, saturating rate, bandwidth."""

import numpy as np

from trainers.parallelism.arrays import FloatArray, IntArray
from trainers.parallelism.collective_costs import all_reduce
from trainers.parallelism.rates import Machine
from trainers.parallelism.workload import Workload

ALL = slice(None)


def saturating_seconds(rates: FloatArray, flops: FloatArray, size: FloatArray) -> FloatArray:
    """[n] seconds of operators of ``flops`` and ``size`` bytes; ``rates`` [4, n or 1] are R, F_half, beta, lambda.

    ``t = lambda + max(F / (R s(F)), B / beta)`` with ``s(F) = F / (F + F_half)``, and 0 in place of F / s(F) at F = 0.
    """
    peak, half_flops, bandwidth, launch = rates
    computing = np.where(flops > 0, flops + half_flops, 0.0) / peak
    seconds: FloatArray = launch + np.maximum(computing, size / bandwidth)
    return seconds


def device_seconds(work: Workload, machine: Machine, places: IntArray | slice = ALL) -> FloatArray:
    """[places] seconds of operators on the device, each with the all-reduce of the tensor axis that follows it."""
    rates = [machine.device.rate(kind) for kind in work.kinds]
    columns: FloatArray = np.array(
        [[rate.flops_per_second, rate.half_flops, rate.bytes_per_second, rate.launch_seconds] for rate in rates]
    )
    own = saturating_seconds(columns.T[:, work.kind[places]], work.flops[places], work.bytes[places])
    return own + fresh_seconds(work, machine, places) + exchange_seconds(work, machine, places)


def fresh_seconds(work: Workload, machine: Machine, places: IntArray | slice = ALL) -> FloatArray:
    """[places] seconds that the memory of large results takes, which the system clears page by page."""
    written, device = work.written_bytes[places], machine.device
    return np.where(written >= device.fresh_from_bytes, written * device.fresh_seconds_per_byte, 0.0)


def exchange_seconds(work: Workload, machine: Machine, places: IntArray | slice = ALL) -> FloatArray:
    """[places] seconds of the all-reduce of activations after each operator."""
    if work.tensor_ranks == 1:
        return np.zeros_like(work.flops[places])
    link = machine.link(work.tensor_ranks, machine.nodes(work.tensor_ranks))
    return all_reduce(link, work.tensor_ranks, work.reduced_bytes[places])


def host_seconds(work: Workload, machine: Machine, places: IntArray | slice = ALL) -> FloatArray:
    """[places] seconds that the host needs to issue each operator, and the exchange after it."""
    exchanges = np.where((work.reduced_bytes[places] > 0) & (work.tensor_ranks > 1), 1.0, 0.0)
    return machine.device.host_seconds + exchanges * machine.device.exchange_host_seconds


def unit_seconds(work: Workload, machine: Machine) -> FloatArray:
    """[units] seconds of each unit, forward and backward: what the device needs, or the host where that is more."""
    return np.maximum(work.per_unit(device_seconds(work, machine)), work.per_unit(host_seconds(work, machine)))

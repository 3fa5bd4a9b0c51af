"""What a step would gain at most from what no plan can do yet: told beside the plans, and never counted on.

All are quotients of seconds on one device, without what would be sent: bounds that say what is worth building.
"""

from dataclasses import dataclass

import numpy as np

from search_spaces.operator_graph import Kind, OperatorGraph
from search_spaces.work_depth import brent_bounds, weighted_work_depth
from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.operator_costs import device_seconds, host_seconds
from trainers.parallelism.rates import Machine
from trainers.parallelism.workload import Workload

FUSED = (Kind.ELEMENTWISE, Kind.COPY)
LEAST = 1.01
"""Gains that are told are above it."""


@dataclass(frozen=True, slots=True)
class Gain:
    """``times`` as fast at most, by ``what``; ``why`` names the seconds that it rests on."""

    what: str
    times: float
    why: str


def would_gain(graph: OperatorGraph, work: Workload, machine: Machine, devices: int) -> tuple[Gain, ...]:
    """Gains of branches on ``devices``, of fusion and of packing, those above a hundredth, the largest first.

    *Branches*: independent operators on devices of their own, ``W / max(W/p, D)`` in seconds (Brent). *Fusion*:
    elementwise operators and copies that read what another has written take no time of their own. *Packing*: as many
    trials on a device as it waits for its host, ``max(T_device, T_host) / T_device``.
    """
    device, host = device_seconds(work, machine), host_seconds(work, machine)
    alone = _step(device, host)
    seconds = iter(device.tolist())
    whole = weighted_work_depth(graph, lambda _: next(seconds))
    fused = np.array([one.kind in FUSED and bool(one.inputs) for one in graph.operators], bool)
    chain, saved, busy = (
        _times(part, of)
        for part, of in ((whole.depth, whole.work), (float(device[fused].sum()), whole.work), (whole.work, alone))
    )
    gains = (
        Gain(
            f"branches on {devices} devices",
            _times(whole.work, brent_bounds(whole.work, whole.depth, devices)[0]),
            f"the longest chain of operators takes {chain:.0%} of all",
        ),
        Gain("fusion", _times(alone, _step(device[~fused], host[~fused])), f"{saved:.0%} is elementwise or copying"),
        Gain("packing", _times(alone, whole.work), f"the device computes {busy:.0%} of a step"),
    )
    return tuple(sorted((gain for gain in gains if gain.times > LEAST), key=lambda gain: -gain.times))


def _step(device: FloatArray, host: FloatArray) -> float:
    return max(float(device.sum()), float(host.sum()))


def _times(before: float, after: float) -> float:
    """Their quotient; 1 where nothing is left to compare with."""
    return before / after if after else 1.0

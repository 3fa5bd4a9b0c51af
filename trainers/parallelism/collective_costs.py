"""What collectives cost: closed forms per algorithm (Ben-Nun and Hoefler 2018, 2.5), and measured tables.

P processes, B bytes, latency L seconds, G seconds a byte; lg P = ceil(log2 P).
"""

from collections.abc import Sequence
from enum import StrEnum
from math import ceil, log2

import numpy as np

from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.rates import Link


class Algorithm(StrEnum):
    """How a collective is carried out."""

    TREE = "tree reduce and broadcast"
    BUTTERFLY = "butterfly"
    RING = "ring"
    RABENSEIFNER = "rabenseifner"
    HALF_RING = "ring reduce-scatter or all-gather"
    PARAMETER_SERVER = "parameter server"


def rounds(ranks: int) -> int:
    """Lg P: rounds of a tree over ``ranks`` processes."""
    return ceil(log2(ranks))


def seconds(algorithm: Algorithm, ranks: int, size: float, latency: float, per_byte: float, servers: int = 1) -> float:
    """Seconds of a collective of ``size`` bytes; ``servers`` are the shards S of a parameter server."""
    deep, share = rounds(ranks), (ranks - 1) / ranks
    match algorithm:
        case Algorithm.TREE:
            return 2 * deep * (latency + size * per_byte)
        case Algorithm.BUTTERFLY:
            return deep * (latency + size * per_byte)
        case Algorithm.RING:
            return 2 * (ranks - 1) * (latency + size * per_byte / ranks)
        case Algorithm.RABENSEIFNER:
            return 2 * deep * latency + 2 * size * per_byte * share
        case Algorithm.HALF_RING:
            return (ranks - 1) * (latency + size * per_byte / ranks)
        case Algorithm.PARAMETER_SERVER:
            return 2 * (latency + max(ranks / servers, 1) * size * per_byte)


def sent_bytes(algorithm: Algorithm, ranks: int, size: float) -> float:
    """Bytes that a process sends (the root, of a tree; a worker both sends and receives, of a parameter server)."""
    match algorithm:
        case Algorithm.TREE | Algorithm.BUTTERFLY:
            return size * rounds(ranks)
        case Algorithm.RING | Algorithm.RABENSEIFNER:
            return 2 * size * (ranks - 1) / ranks
        case Algorithm.HALF_RING:
            return size * (ranks - 1) / ranks
        case Algorithm.PARAMETER_SERVER:
            return 2 * size


def lower_bound(ranks: int, size: float, latency: float, per_byte: float) -> float:
    """Seconds that no all-reduce without redundant computation beats: the larger of both terms' bounds."""
    return max(latency * rounds(ranks), 2 * size * per_byte * (ranks - 1) / ranks)


def fit(ranks: int, nodes: int, measured: Sequence[tuple[float, float]]) -> Link:
    """Fit L and G of a ring to all-reduces (bytes, seconds) of a group, by least squares on relative errors.

    Neither is below 0. Raises ValueError with fewer than two sizes.
    """
    table = tuple(sorted(measured))
    if ranks < 2 or len({size for size, _ in table}) < 2:
        raise ValueError(f"link of {ranks} ranks: {len(table)} measurements; two sizes in a group of at least 2 needed")
    from scipy.optimize import nnls

    size, time = np.array(table).T
    steps = 2.0 * (ranks - 1)
    (latency, per_byte), _ = nnls(np.stack([steps / time, steps * size / ranks / time], 1), np.ones(len(time)))
    return Link(ranks, nodes, float(latency), float(per_byte), table)


def all_reduce(link: Link, ranks: int, size: FloatArray) -> FloatArray:
    """Seconds of all-reduces of ``size`` bytes each [n] over ``ranks`` processes; 0 where ``size`` is 0.

    Above 1 MiB the measured table of a link of that many ranks is interpolated in log-log, and beyond its end goes on
    at its last bandwidth; elsewhere the ring's closed form holds, never above what the table says for 1 MiB.
    """
    ring = 2 * (ranks - 1) * (link.latency_seconds + size * (link.seconds_per_byte / ranks))
    if ranks == link.ranks and link.trusted.size:
        known, time = link.trusted
        within = np.exp(np.interp(np.log(np.maximum(size, known[0])), np.log(known), np.log(time)))
        beyond = np.maximum(size / known[-1], 1.0)
        ring = np.where(size >= known[0], within * beyond, np.minimum(ring, time[0]))
    return np.where((size > 0) & (ranks > 1), ring, 0.0)


def half(link: Link, ranks: int, size: FloatArray) -> FloatArray:
    """Seconds of reduce-scatters or all-gathers of ``size`` whole bytes each [n]: half an all-reduce (ring)."""
    return all_reduce(link, ranks, size) / 2


def send(link: Link, size: FloatArray) -> FloatArray:
    """Seconds of messages of ``size`` bytes each [n] from one process to another: L + B G; 0 where ``size`` is 0."""
    own, byte = link.send_latency_seconds, link.send_seconds_per_byte
    latency = link.latency_seconds if own is None else own
    per_byte = link.seconds_per_byte if byte is None else byte
    return np.where(size > 0, latency + size * per_byte, 0.0)

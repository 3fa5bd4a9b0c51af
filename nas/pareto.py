"""Pareto dominance over cost vectors (all minimised): ranks, crowding, the front, hypervolume."""

from bisect import bisect_right
from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

Costs = Sequence[float]


def dominates(a: Costs, b: Costs) -> bool:
    """Whether ``a`` is nowhere worse and somewhere better than ``b``."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and tuple(a) != tuple(b)


def non_dominated_ranks(costs: Sequence[Costs]) -> list[int]:
    """Rank of each vector: 0 for the front, 1 for the front of the rest... (Deb et al. 2002, section III.A).

    O(n log n) for one or two objectives, O(n^2) for more. Equal vectors share a rank.
    """
    if not costs:
        return []
    if len(costs[0]) <= 2:
        return _ranks_of_two(costs)
    remaining = np.asarray(costs, dtype=float)
    index, ranks, rank = np.arange(len(costs)), np.zeros(len(costs), dtype=int), 0
    while len(index):
        front = _non_dominated(remaining)
        ranks[index[front]] = rank
        index, remaining, rank = index[~front], remaining[~front], rank + 1
    return [int(rank) for rank in ranks]


def _ranks_of_two(costs: Sequence[Costs]) -> list[int]:
    """Sweep by the first cost; ``lowest[r]`` is the least second cost that rank r has seen, increasing in r."""
    ranks = [0] * len(costs)
    lowest: list[float] = []
    before: tuple[Costs, int] | None = None
    for at in sorted(range(len(costs)), key=lambda at: tuple(costs[at])):
        vector = costs[at]
        if before is not None and tuple(vector) == tuple(before[0]):
            ranks[at] = before[1]
            continue
        last = vector[-1]
        rank = bisect_right(lowest, last) if len(vector) == 2 else len(lowest)
        lowest[rank : rank + 1] = [last]
        ranks[at] = rank
        before = (vector, rank)
    return ranks


def _non_dominated(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    no_worse = (costs[:, None, :] <= costs[None, :, :]).all(-1)
    better = (costs[:, None, :] < costs[None, :, :]).any(-1)
    dominated: NDArray[np.bool_] = np.any(no_worse & better, axis=0)
    return ~dominated


def crowding_distances(costs: Sequence[Costs]) -> list[float]:
    """Crowding distance within one front (Deb et al. 2002, section III.B); infinite at the ends."""
    distances = [0.0] * len(costs)
    for axis in range(len(costs[0]) if costs else 0):
        order = sorted(range(len(costs)), key=lambda at: (costs[at][axis], at))
        low, high = costs[order[0]][axis], costs[order[-1]][axis]
        distances[order[0]] = distances[order[-1]] = inf
        if not 0 < high - low < inf:
            continue
        for left, at, right in zip(order, order[1:], order[2:], strict=False):
            distances[at] += (costs[right][axis] - costs[left][axis]) / (high - low)
    return distances


def preference_order(costs: Sequence[Costs]) -> list[int]:
    """Indices, best first: by rank, within a rank the less crowded first, then by position."""
    ranks = non_dominated_ranks(costs)
    fronts: dict[int, list[int]] = {}
    for at, rank in enumerate(ranks):
        fronts.setdefault(rank, []).append(at)
    order: list[int] = []
    for rank in sorted(fronts):
        members = fronts[rank]
        crowding = crowding_distances([costs[at] for at in members])
        order += [at for _, at in sorted(zip(crowding, members, strict=True), key=lambda pair: (-pair[0], pair[1]))]
    return order


def hypervolume(costs: Sequence[Costs], reference: Costs) -> float:
    """Volume that ``costs`` dominate below ``reference``, exact, by slicing on the last axis.

    O(n log n) for two objectives, exponential in the number of objectives; fronts of a study are small.
    """
    front = sorted({tuple(cost) for cost in costs if all(c < r for c, r in zip(cost, reference, strict=True))})
    if not front:
        return 0.0
    if len(reference) == 1:
        return reference[0] - front[0][0]
    if len(reference) == 2:
        volume, height = 0.0, reference[1]
        for x, y in front:
            if y < height:
                volume += (reference[0] - x) * (height - y)
                height = y
        return volume
    volume = 0.0
    levels = sorted({cost[-1] for cost in front})
    for low, high in zip(levels, [*levels[1:], reference[-1]], strict=True):
        below = [cost[:-1] for cost in front if cost[-1] <= low]
        volume += (high - low) * hypervolume(below, reference[:-1])
    return volume

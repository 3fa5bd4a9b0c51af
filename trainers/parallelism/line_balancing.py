"""Stages of a graph over all its topological orders: assembly line balancing, type 2 (Held, Karp and Shareshian 1963).

An *ideal* is a set of units that holds what each of its units reads; a topological order grows through ideals one unit
at a time, and every contiguous cut of every order ends its stages at ideals. For a limit, each ideal is reached with
the fewest stages, then with the least in the last one; the smallest possible limit is found by bisection. Exact, but
the number of ideals grows with the product of the lengths of parallel branches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Layer: TypeAlias = list[tuple[int, tuple[int, ...]]]
"""Ideals of one size, as bits, each with the units that may come next."""

IDEALS = 3_000
"""A few tenths of a second."""
PRECISION = 1e-4


@dataclass(frozen=True, slots=True)
class Balanced:
    """An order of the units, whose best cut has a largest stage of at most ``largest``; none is below the bound."""

    order: tuple[int, ...]
    largest: float
    lower_bound: float


def balance(
    costs: Sequence[float], inputs: Sequence[Sequence[int]], stages: int, ideals: int = IDEALS
) -> Balanced | None:
    """The order of units of ``costs`` [units] in which they are cut best into ``stages``, to ``PRECISION``.

    Each unit comes after its ``inputs``, which have smaller numbers. None where there are more than ``ideals``.
    """
    layers = _layers(inputs, ideals)
    if layers is None:
        return None
    low, high = max(sum(costs) / stages, max(costs)), sum(costs)
    best = _order(layers, costs, stages, low)
    if best:
        return Balanced(best, low, low)
    best = tuple(range(len(costs)))
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        found = _order(layers, costs, stages, middle)
        best, low, high = (found, low, middle) if found else (best, middle, high)
    return Balanced(best, high, low)


def _layers(inputs: Sequence[Sequence[int]], most: int) -> list[Layer] | None:
    needs = [sum(1 << source for source in set(sources)) for sources in inputs]
    readers: list[list[int]] = [[] for _ in inputs]
    for unit, sources in enumerate(inputs):
        for source in set(sources):
            readers[source].append(unit)
    layer = {0: tuple(unit for unit, need in enumerate(needs) if not need)}
    layers: list[Layer] = []
    count = 0
    while layer:
        count += len(layer)
        if count > most:
            return None
        layers.append(list(layer.items()))
        following: dict[int, tuple[int, ...]] = {}
        for ideal, ready in layer.items():
            for unit in ready:
                larger = ideal | 1 << unit
                if larger not in following:
                    new = tuple(reader for reader in readers[unit] if needs[reader] & larger == needs[reader])
                    following[larger] = tuple(other for other in ready if other != unit) + new
        layer = following
    return layers


def _order(layers: list[Layer], costs: Sequence[float], stages: int, limit: float) -> tuple[int, ...] | None:
    """An order whose units fit into ``stages`` of at most ``limit`` each, or None."""
    allowed = limit * (1 + 1e-12)
    reached: list[dict[int, tuple[int, float, int]]] = [{0: (1, 0.0, -1)}]
    for layer in layers[:-1]:
        following: dict[int, tuple[int, float, int]] = {}
        for ideal, ready in layer:
            opened, filled, _ = reached[-1][ideal]
            for unit in ready:
                together = filled + costs[unit]
                own = (opened, together, unit) if together <= allowed else (opened + 1, costs[unit], unit)
                larger = ideal | 1 << unit
                if larger not in following or own[:2] < following[larger][:2]:
                    following[larger] = own
        reached.append(following)
    ((ideal, (opened, _, _)),) = reached[-1].items()
    return _back(reached, ideal) if opened <= stages else None


def _back(reached: list[dict[int, tuple[int, float, int]]], ideal: int) -> tuple[int, ...]:
    order = []
    for layer in reversed(reached[1:]):
        order.append(layer[ideal][2])
        ideal &= ~(1 << order[-1])
    return tuple(reversed(order))

"""Exact counting of the assignments of a layout, as a decision graph that also draws them uniformly.

Slots without connection are independent and multiply. A connected group branches on its first slot: each
option settles the conditions on it, drops what is inactive, and leaves smaller groups, which are counted once
however often they come up. (The idea is component caching, as in Sang et al. 2004, "Combining component
caching and clause learning for effective model counting"; conditions take the place of clauses.)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TypeAlias

from search_spaces.layout import Condition, Slot

_MOST_PLANS = 50_000

_Open: TypeAlias = tuple[tuple[int, tuple[Condition, ...]], ...]
"""Slots not yet settled, in order, each with the conditions on it that are still open."""


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A slot that others depend on: for each of its options, what remains; ``thresholds`` are cumulative shares."""

    slot: int
    plans: tuple["Plan", ...]
    thresholds: tuple[float, ...]
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Active slots that none depends on, and branches. ``count`` takes each float as one option.

    ``floats`` says whether there is a float at all, ``draws`` how many random numbers an assignment takes at
    most.
    """

    free: tuple[int, ...]
    branches: tuple[Branch, ...]
    count: int
    floats: bool
    draws: int


class Counter:
    """Makes the `Plan` of a layout; raises ValueError where conditions are too entangled to be counted."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self._slots = slots
        self._plans: dict[_Open, Plan] = {}
        self._branches: dict[_Open, Branch] = {}

    def plan(self) -> Plan:
        """Plan of all slots."""
        return self._plan(tuple((slot.index, slot.conditions) for slot in self._slots))

    def _plan(self, slots: _Open) -> Plan:
        if slots not in self._plans:
            if len(self._plans) == _MOST_PLANS:
                raise ValueError("too many decisions depend on too many others at once; declare fewer conditions")
            groups = _groups(slots)
            free = tuple(group[0][0] for group in groups if len(group) == 1)
            branches = tuple(self._branch(group) for group in groups if len(group) > 1)
            self._plans[slots] = self._join(free, branches)
        return self._plans[slots]

    def _join(self, free: tuple[int, ...], branches: tuple[Branch, ...]) -> Plan:
        options = [self._slots[index].decision.options for index in free]
        plans = [plan for branch in branches for plan in branch.plans]
        return Plan(
            free=free,
            branches=branches,
            count=prod(1 if some is None else len(some) for some in options) * prod(b.count for b in branches),
            floats=None in options or any(plan.floats for plan in plans),
            draws=len(free) + sum(1 + max(plan.draws for plan in branch.plans) for branch in branches),
        )

    def _branch(self, group: _Open) -> Branch:
        if group not in self._branches:
            first, decision = group[0][0], self._slots[group[0][0]].decision
            places = range(len(decision.options or ()))
            plans = tuple(self._plan(_settle(group[1:], first, place)) for place in places)
            count = sum(plan.count for plan in plans)
            weights = [decision.weight(place) * (plans[place].count / count) for place in places]
            total = sum(weights)
            thresholds = (*(share / total for share in [*accumulate(weights)][:-1]), 1.0)
            self._branches[group] = Branch(first, plans, thresholds, count)
        return self._branches[group]


def _settle(slots: _Open, settled: int, place: int) -> _Open:
    """What stays open of ``slots`` once the slot ``settled`` took its option at ``place``."""
    inactive: set[int] = set()
    remaining: list[tuple[int, tuple[Condition, ...]]] = []
    for index, conditions in slots:
        if any(parent in inactive or (parent == settled and place not in at) for parent, at in conditions):
            inactive.add(index)
        else:
            still = tuple(condition for condition in conditions if condition[0] != settled)
            remaining.append((index, still))
    return tuple(remaining)


def _groups(slots: _Open) -> list[_Open]:
    """Split into groups that no condition connects, each in order; the first slot of a group has no condition."""
    group_of: dict[int, int] = {}

    def root(index: int) -> int:
        while group_of[index] != index:
            group_of[index] = index = group_of[group_of[index]]
        return index

    for index, conditions in slots:
        group_of[index] = index
        for parent, _ in conditions:
            roots = sorted((root(index), root(parent)))
            group_of[roots[1]] = roots[0]
    return _gather((root(slot[0]), slot) for slot in slots)


def _gather(rooted: Iterable[tuple[int, tuple[int, tuple[Condition, ...]]]]) -> list[_Open]:
    groups: dict[int, list[tuple[int, tuple[Condition, ...]]]] = {}
    for root, slot in rooted:
        groups.setdefault(root, []).append(slot)
    return [tuple(group) for group in groups.values()]

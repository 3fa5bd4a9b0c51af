"""Exact counting of the assignments of a layout, as a decision graph that also draws them uniformly.

Slots without connection are independent and multiply. A group that conditions or a limit connect branches on its first
slot: each option settles the conditions on it, takes its part of the limit, drops what is inactive, and leaves smaller
groups, which are counted once however often they come up; an option that the limit forbids leaves none. (The idea is
component caching, as in Sang et al. 2004, "Combining component caching and clause learning for effective model
counting"; conditions take the place of clauses.)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TypeAlias

from search_spaces.layout import Condition, Slot, elements

_MOST_PLANS = 50_000
_DEEPEST = 200

_Open: TypeAlias = tuple[tuple[int, tuple[Condition, ...], int], ...]
"""Slots not yet settled, in order, each with the conditions on it that are still open, and with what those before it
took of its limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A slot that others depend on: for each of its options, what remains; ``thresholds`` are cumulative shares.

    An option that cannot be taken has a plan of count 0.
    """

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


_NOTHING = Plan((), (), 0, False, 0)


class Counter:
    """Makes the `Plan` of a layout; raises ValueError where conditions are too entangled to be counted."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self._slots = slots
        self._plans: dict[_Open, Plan] = {}
        self._branches: dict[_Open, Branch] = {}

    def plan(self) -> Plan:
        """Plan of all slots."""
        return self._plan(tuple((slot.index, slot.conditions, 0) for slot in self._slots), 0)

    def _plan(self, slots: _Open, depth: int) -> Plan:
        if slots not in self._plans:
            if len(self._plans) == _MOST_PLANS:
                raise ValueError("too many decisions depend on too many others at once; declare fewer conditions")
            if depth > _DEEPEST:
                raise ValueError(f"decisions depend on others in a chain of more than {_DEEPEST}; make it shorter")
            groups = self._groups(slots)
            free = tuple(group[0][0] for group in groups if self._is_free(group))
            branches = tuple(self._branch(group, depth) for group in groups if not self._is_free(group))
            self._plans[slots] = self._join(free, branches)
        return self._plans[slots]

    def _is_free(self, group: _Open) -> bool:
        return len(group) == 1 and self._slots[group[0][0]].limit is None

    def _join(self, free: tuple[int, ...], branches: tuple[Branch, ...]) -> Plan:
        counts = [self._slots[index].decision.count for index in free]
        plans = [plan for branch in branches for plan in branch.plans]
        return Plan(
            free=free,
            branches=branches,
            count=prod(1 if count is None else count for count in counts) * prod(b.count for b in branches),
            floats=None in counts or any(plan.floats for plan in plans),
            draws=len(free) + sum(1 + max(plan.draws for plan in branch.plans) for branch in branches),
        )

    def _branch(self, group: _Open, depth: int) -> Branch:
        if group not in self._branches:
            first, decision = group[0][0], self._slots[group[0][0]].decision
            plans = tuple(
                self._plan(self._settle(group, place), depth + 1) if allowed else _NOTHING
                for place, allowed in enumerate(self._allowed(group))
            )
            count = sum(plan.count for plan in plans)
            weights = [decision.weight(place) * (plan.count / count) for place, plan in enumerate(plans)]
            self._branches[group] = Branch(first, plans, _cumulative(weights), count)
        return self._branches[group]

    def _allowed(self, group: _Open) -> list[bool]:
        """Which options of the first slot of ``group`` its limit leaves."""
        first, _, before = group[0]
        slot = self._slots[first]
        if slot.limit is None:
            return [True] * (slot.decision.count or 0)
        fewest, most = slot.limit.room(first, before)
        return [fewest <= elements(option) <= most for option in slot.decision.options or ()]

    def _settle(self, group: _Open, place: int) -> _Open:
        """What stays open of ``group`` once its first slot took its option at ``place``."""
        settled = group[0][0]
        limit, options = self._slots[settled].limit, self._slots[settled].decision.options
        inactive: set[int] = set()
        remaining: list[tuple[int, tuple[Condition, ...], int]] = []
        for index, conditions, before in group[1:]:
            if any(parent in inactive or (parent == settled and place not in at) for parent, at in conditions):
                inactive.add(index)
            else:
                still = tuple(condition for condition in conditions if condition[0] != settled)
                if limit is not None and self._slots[index].limit == limit:
                    assert options is not None
                    before += elements(options[place])
                remaining.append((index, still, before))
        return tuple(remaining)

    def _groups(self, slots: _Open) -> list[_Open]:
        """Split into groups that nothing connects, each in order; the first slot of a group has no condition."""
        group_of: dict[int, int] = {}
        limited: dict[int, int] = {}

        def root(index: int) -> int:
            while group_of[index] != index:
                group_of[index] = index = group_of[group_of[index]]
            return index

        for index, conditions, _ in slots:
            group_of[index] = index
            limit = self._slots[index].limit
            others = [parent for parent, _ in conditions]
            if limit is not None:
                others.append(limited.setdefault(limit.slots[0], index))
            for other in others:
                roots = sorted((root(index), root(other)))
                group_of[roots[1]] = roots[0]
        return _gather((root(slot[0]), slot) for slot in slots)


def _cumulative(weights: list[float]) -> tuple[float, ...]:
    """Cumulative shares; 1 from the last that has a weight, whatever was lost in rounding."""
    total = sum(weights)
    last = max(place for place, weight in enumerate(weights) if weight)
    return tuple(1.0 if place >= last else share / total for place, share in enumerate(accumulate(weights)))


def _gather(rooted: Iterable[tuple[int, tuple[int, tuple[Condition, ...], int]]]) -> list[_Open]:
    groups: dict[int, list[tuple[int, tuple[Condition, ...], int]]] = {}
    for root, slot in rooted:
        groups.setdefault(root, []).append(slot)
    return [tuple(group) for group in groups.values()]

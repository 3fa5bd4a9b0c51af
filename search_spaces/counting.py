"""Exact counting of the assignments of a layout, as a decision graph that also draws them uniformly.

Slots without connection are independent and multiply. A group that conditions or a limit connect branches on its first
slot: each option settles the conditions on it, takes its part of the limit, drops what is inactive, and leaves smaller
groups, which are counted once however often they come up; an option that the limit forbids leaves none. What hangs on
the first slot by its limit alone is counted once for each number of elements that the option takes, and what its
conditions reach is a factor beside it. (The idea is component caching, as in Sang et al. 2004, "Combining component
caching and clause learning for effective model counting"; conditions take the place of clauses.)
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

    ``plans`` holds what conditions on the slot reach, ``rests`` what is left of its limit, empty without one. An option
    that cannot be taken has plans of count 0.
    """

    slot: int
    plans: tuple["Plan", ...]
    rests: tuple["Plan", ...]
    thresholds: tuple[float, ...]
    count: int
    floats: bool
    draws: int


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
        self._settled: dict[tuple[int, _Open], dict[int, Plan]] = {}

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
        return Plan(
            free=free,
            branches=branches,
            count=prod(1 if count is None else count for count in counts) * prod(b.count for b in branches),
            floats=None in counts or any(branch.floats for branch in branches),
            draws=len(free) + sum(branch.draws for branch in branches),
        )

    def _branch(self, group: _Open, depth: int) -> Branch:
        if group not in self._branches:
            first, decision = group[0][0], self._slots[group[0][0]].decision
            reached, rest = self._apart(group)
            settled = self._settled.setdefault((first, reached), {})
            rests: dict[int, Plan] = {}
            pairs = [(_NOTHING, _NOTHING)] * (decision.count or 0)
            for place, taken in self._allowed(group):
                if place not in settled:
                    settled[place] = self._plan(self._settle(first, reached, place), depth + 1)
                if taken not in rests:
                    rests[taken] = self._plan(self._advance(first, rest, taken), depth + 1)
                pairs[place] = settled[place], rests[taken]
            counts = [plan.count * left.count for plan, left in pairs]
            count = sum(counts)
            self._branches[group] = Branch(
                slot=first,
                plans=tuple(plan for plan, _ in pairs),
                rests=tuple(left for _, left in pairs) if rest else (),
                thresholds=_cumulative([decision.weight(place) * (own / count) for place, own in enumerate(counts)]),
                count=count,
                floats=any(plan.floats or left.floats for plan, left in pairs),
                draws=1 + max(plan.draws + left.draws for plan, left in pairs),
            )
        return self._branches[group]

    def _apart(self, group: _Open) -> tuple[_Open, _Open]:
        """What follows the first slot of ``group``: what conditions on it reach, what its limit alone connects."""
        first = group[0][0]
        on_first = {index for index, conditions, _ in group if any(parent == first for parent, _ in conditions)}
        reached = {
            index
            for component in self._groups(group[1:])
            if any(index in on_first for index, *_ in component)
            for index, *_ in component
        }
        return tuple(s for s in group[1:] if s[0] in reached), tuple(s for s in group[1:] if s[0] not in reached)

    def _allowed(self, group: _Open) -> list[tuple[int, int]]:
        """Places of the options of the first slot of ``group`` that its limit leaves, with what each takes of it."""
        first, _, before = group[0]
        slot = self._slots[first]
        if slot.limit is None:
            return [(place, 0) for place in range(slot.decision.count or 0)]
        fewest, most = slot.limit.room(first, before)
        taken = map(elements, slot.decision.options or ())
        return [(place, count) for place, count in enumerate(taken) if fewest <= count <= most]

    def _settle(self, settled: int, reached: _Open, place: int) -> _Open:
        """What stays open of ``reached`` once the slot ``settled`` took its option at ``place``."""
        options = self._slots[settled].decision.options
        inactive: set[int] = set()
        remaining: list[tuple[int, tuple[Condition, ...], int]] = []
        for index, conditions, before in reached:
            if any(parent in inactive or (parent == settled and place not in at) for parent, at in conditions):
                inactive.add(index)
            else:
                still = tuple(condition for condition in conditions if condition[0] != settled)
                remaining.append((index, still, before))
        if self._slots[settled].limit is None:
            return tuple(remaining)
        assert options is not None
        return self._advance(settled, tuple(remaining), elements(options[place]))

    def _advance(self, settled: int, slots: _Open, taken: int) -> _Open:
        """``slots`` once the slot ``settled`` took so many elements of its limit."""
        limit = self._slots[settled].limit
        if limit is None:
            return slots
        return tuple(
            (index, conditions, before + taken if self._slots[index].limit == limit else before)
            for index, conditions, before in slots
        )

    def _groups(self, slots: _Open) -> list[_Open]:
        """Split into groups that nothing connects, each in order; slots outside connect nothing."""
        group_of: dict[int, int] = {}
        limited: dict[int, int] = {}

        def root(index: int) -> int:
            while group_of[index] != index:
                group_of[index] = index = group_of[group_of[index]]
            return index

        for index, conditions, _ in slots:
            group_of[index] = index
            limit = self._slots[index].limit
            others = [parent for parent, _ in conditions if parent in group_of]
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

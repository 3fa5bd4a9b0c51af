"""The flat layout of a declaration: blocks unrolled to their largest count, conditions resolved.

Each `Slot` is one value that an assignment may have, under its flat name (``stage.0.width``). It is active
exactly where all its conditions hold, and these look at slots before it only. A `Limit` holds the slots together that
may only take so much in all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeAlias

from search_spaces.conditions import When, conditions_schema
from search_spaces.decisions import Cell, Decision, Leaf, Repeat
from search_spaces.values import Value

_NAME = re.compile(r"[^\s.=,\"'()\[\]{}]+")
_MOST_SLOTS = 2_000
_MOST_CONTROLLING_OPTIONS = 4_096
_DEEPEST = 50

Condition: TypeAlias = tuple[int, frozenset[int]]
"""A slot before, and the places of its options under which the condition holds."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The values of ``slots``, tuples that are active together, have ``least`` to ``most`` elements in all.

    ``counts`` are how many each may have, ``name`` is that of the cell whose edges they are.
    """

    name: str
    slots: tuple[int, ...]
    counts: tuple[range, ...]
    least: int
    most: int

    def holds(self, total: int) -> bool:
        """Whether so many elements in all are allowed."""
        return self.least <= total <= self.most

    def room(self, slot: int, before: int) -> tuple[int, int]:
        """Fewest and most elements for ``slot``, so that those after it can go on from ``before`` and these."""
        after = self.counts[self.slots.index(slot) + 1 :]
        fewest, most = sum(count[0] for count in after), sum(count[-1] for count in after)
        return self.least - before - most, self.most - before - fewest


@dataclass(frozen=True, slots=True)
class Slot:
    """One flat decision; ``controls`` says whether others depend on it, ``changeable`` whether it has two values."""

    index: int
    name: str
    decision: Leaf
    conditions: tuple[Condition, ...]
    limit: Limit | None = None
    controls: bool = False
    changeable: bool = True


def unroll(decisions: Mapping[str, Decision], title: str) -> tuple[tuple[Slot, ...], dict[str, Cell]]:
    """All slots in order, and the cells by their flat names.

    ValueError names the decision, under ``title``, that is malformed.
    """
    unroller = _Unroller(title)
    unroller.block(decisions, "", (), ())
    controlling = {parent for slot in unroller.slots for parent, _ in slot.conditions}
    slots = tuple(
        replace(
            slot,
            limit=unroller.limits.get(slot.index),
            controls=slot.index in controlling,
            changeable=slot.decision.count != 1,
        )
        for slot in unroller.slots
    )
    return slots, unroller.cells


def elements(value: Value) -> int:
    """How many elements a value counts for under a `Limit`."""
    assert isinstance(value, tuple)
    return len(value)


def located(title: str, name: str) -> str:
    """Name of a decision in messages."""
    return f"{title}.{name}" if title else name


def nearest(name: object, known: Mapping[str, object]) -> str:
    """Say which known name was meant, and which there are."""
    near = get_close_matches(str(name), known, 1)
    some = list(known)[:20]
    more = f" and {len(known) - len(some)} more" if len(known) > len(some) else ""
    return (f"did you mean {near[0]!r}? " if near else "") + f"Known: {', '.join(some)}{more}"


@dataclass(frozen=True)
class _Scope:
    """The decisions of one block, and the slots of those that came already."""

    declared: Mapping[str, Decision]
    slots: dict[str, int]


class _Unroller:
    def __init__(self, title: str) -> None:
        self.title = title
        self.slots: list[Slot] = []
        self.names: set[str] = set()
        self.limits: dict[int, Limit] = {}
        self.cells: dict[str, Cell] = {}

    def block(
        self,
        decisions: Mapping[str, Decision],
        prefix: str,
        around: tuple[_Scope, ...],
        inherited: tuple[Condition, ...],
    ) -> None:
        if any(scope.declared is decisions for scope in around):
            raise ValueError(f"{located(self.title, prefix[:-1])}: this block contains itself; it would never end")
        if len(around) == _DEEPEST:
            raise ValueError(f"{located(self.title, prefix[:-1])}: blocks stand in blocks more than {_DEEPEST} deep")
        scope = _Scope(decisions, {})
        scopes = (*around, scope)
        for name, decision in decisions.items():
            where = located(self.title, f"{prefix}{name}")
            _check_declared(where, name, decision)
            own = tuple(self._condition(condition, name, where, scopes) for condition in decision.conditions)
            conditions = inherited + own
            if isinstance(decision, Repeat):
                self._repeat(decision, f"{prefix}{name}", where, scopes, conditions)
            elif isinstance(decision, Cell):
                self._cell(decision, f"{prefix}{name}." if name else prefix, conditions)
            elif isinstance(decision, Leaf):
                scope.slots[name] = self._add(f"{prefix}{name}", decision, conditions)

    def _add(self, name: str, decision: Leaf, conditions: tuple[Condition, ...]) -> int:
        index = len(self.slots)
        if name in self.names:
            raise ValueError(f"{located(self.title, name)} is declared twice; rename one")
        self.names.add(name)
        if index == _MOST_SLOTS:
            raise ValueError(f"{located(self.title, name)}: more than {_MOST_SLOTS:,} decisions; repeat blocks less")
        self.slots.append(Slot(index, name, decision, conditions))
        return index

    def _repeat(
        self,
        repeat: Repeat,
        name: str,
        where: str,
        scopes: tuple[_Scope, ...],
        conditions: tuple[Condition, ...],
    ) -> None:
        if isinstance(repeat.count, int):
            for copy in range(repeat.count):
                self.block(repeat.decisions, f"{name}.{copy}.", scopes, conditions)
            return
        slot = self._look_up(repeat.count, name.rpartition(".")[2], f"{where}: count = {repeat.count!r}", scopes)
        counts: list[int] = []
        for option in slot.decision.options or ():
            if not isinstance(option, int) or isinstance(option, bool) or option < 0:
                raise ValueError(f"{where}: count = {repeat.count!r} has the option {option!r}, which is no count")
            counts.append(option)
        if max(counts) == 0:
            raise ValueError(f"{where}: count = {repeat.count!r} is never above 0")
        for copy in range(max(counts)):
            enough = frozenset(place for place, count in enumerate(counts) if count > copy)
            self.block(repeat.decisions, f"{name}.{copy}.", scopes, (*conditions, (slot.index, enough)))

    def _cell(self, cell: Cell, prefix: str, conditions: tuple[Condition, ...]) -> None:
        scope = _Scope(cell.leaves, {})
        self.cells[prefix.removesuffix(".")] = cell
        for name, leaf in cell.leaves.items():
            where = located(self.title, f"{prefix}{name}")
            own = tuple(self._condition(condition, name, where, (scope,)) for condition in leaf.conditions)
            scope.slots[name] = self._add(f"{prefix}{name}", leaf, conditions + own)
        if isinstance(cell.edges, tuple):
            counts, slots = cell.input_counts, tuple(scope.slots[name] for name in cell.input_counts)
            limit = Limit(prefix.removesuffix("."), slots, tuple(counts.values()), *cell.edges)
            self.limits |= dict.fromkeys(slots, limit)

    def _condition(self, when: When, name: str, where: str, scopes: tuple[_Scope, ...]) -> Condition:
        slot = self._look_up(when.decision, name, f"{where}: when = {conditions_schema((when,))['when']}", scopes)
        for value in when.values:
            if not slot.decision.allows(value):
                raise ValueError(
                    f"{where}: when {when.decision} = {value!r} never holds; {when.decision} is {slot.decision.allowed}"
                )
        return slot.index, frozenset(map(slot.decision.index, when.values))

    def _look_up(self, wanted: str, name: str, where: str, scopes: tuple[_Scope, ...]) -> Slot:
        """The slot of the decision that ``wanted`` names, in the innermost block that declares it."""
        scope = next((scope for scope in reversed(scopes) if wanted in scope.declared), None)
        if scope is None:
            known = {other: None for scope in scopes for other in scope.declared if other != name}
            raise ValueError(f"{where}: no decision {wanted!r} is declared here; {nearest(wanted, known)}")
        if not isinstance(scope.declared[wanted], Leaf):
            raise ValueError(f"{where}: {wanted!r} is a block and has no value of its own")
        if wanted not in scope.slots:
            raise ValueError(f"{where}: {wanted!r} is declared later; move it before")
        slot = self.slots[scope.slots[wanted]]
        if slot.decision.options is None:
            raise ValueError(f"{where}: {wanted!r} is a float; only decisions with options can be depended on")
        if (slot.decision.count or 0) > _MOST_CONTROLLING_OPTIONS:
            raise ValueError(
                f"{where}: {wanted!r} has {slot.decision.count:,} options; "
                f"others can depend on a decision of at most {_MOST_CONTROLLING_OPTIONS:,}"
            )
        return slot


def _check_declared(where: str, name: object, decision: object) -> None:
    nameless = isinstance(decision, Cell) and name == ""
    if not nameless and (not isinstance(name, str) or not name.isprintable() or _NAME.fullmatch(name) is None):
        raise ValueError(f"{where}: a name is printable text without spaces or any of . = , \" ' ( ) [ ] {{ }}")
    if not isinstance(decision, Decision):
        raise ValueError(f"{where} = {decision!r} is no decision; write Choice(...), Integer, Float, Repeat or Cell")

"""A domain: decisions as one set of assignments, and all that follows from their declaration.

An assignment gives a value to every active decision, and only to these. Genetic operators here know
decisions, never networks; every strategy works on every domain through them.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from search_spaces.conditions import typed_key
from search_spaces.counting import Counter, Plan
from search_spaces.decisions import Decision, Float, Integer, decisions_from_schema, decisions_schema
from search_spaces.layout import Limit, Slot, elements, located, nearest, unroll
from search_spaces.values import Value, Values, check_value

if TYPE_CHECKING:
    from numpy.random import Generator


class Domain:
    """Decisions by name, in an order in which conditions look back only.

    Raises ValueError, naming the decision under ``title``, for an empty set, a bad name, and a condition or a
    count that names no decision, a later one, or a value that never occurs.
    """

    def __init__(self, decisions: Mapping[str, Decision], title: str = "") -> None:
        if not isinstance(decisions, Mapping) or not decisions:
            raise ValueError(f"{title or 'a domain'} declares no decisions; give at least one, as name: Choice(...)")
        self.decisions = dict(decisions)
        self.title = title
        self.slots, self.cells = unroll(self.decisions, title)
        self.limits = tuple(dict.fromkeys(slot.limit for slot in self.slots if slot.limit))
        self._by_name = {slot.name: slot for slot in self.slots}

    def __repr__(self) -> str:
        return f"Domain({self.decisions!r})"

    # Random ------------------------------------------------------------------------------------------------------

    def sample(self, rng: "Generator") -> Values:
        """A random assignment: uniform over all of them where every decision is finite.

        A decision that others depend on is drawn in proportion to the number of assignments that its options
        leave. It is not uniform in two places: a float is drawn uniformly in its range (log-uniformly with
        ``log``) and counts as one option for that proportion; an integer with ``log`` is drawn log-uniformly.
        """
        return Values(self._complete({}, rng))

    def mutate(self, values: Mapping[str, Value], rng: "Generator") -> Values:
        """Change exactly one active decision to another value, every one of which can come that a limit leaves.

        What it activates is sampled as by `sample`, what it deactivates is dropped. An assignment without any
        decision to change is returned as it is. ``values`` must be an assignment; an unknown name raises
        ValueError.
        """
        given = dict(values)
        changeable = self._changeable(given)
        if not changeable:
            return Values(given)
        which, *u = rng.random(4).tolist()
        slot = changeable[int(which * len(changeable))]
        if slot.limit is None:
            given[slot.name] = slot.decision.move(given[slot.name], u)
        else:
            others = list(self._others(slot, given))
            given[slot.name] = others[int(u[0] * len(others))]
        return Values(self._complete(given, rng) if slot.controls else given)

    def crossover(self, a: Mapping[str, Value], b: Mapping[str, Value], rng: "Generator") -> Values:
        """Uniform crossover: each decision from either parent, by a fair coin where both have it.

        A decision that is active in the child and in no parent is sampled; where the child breaks a limit, decisions
        under it become those of ``a``, one after another, as long as it does. The child is always an assignment.
        """
        a, b = dict(a), dict(b)
        given = {**a, **b}
        for name, coin in zip(given, rng.random(len(given)).tolist(), strict=True):
            if name in a and (name not in b or coin < 0.5):
                given[name] = a[name]
        for limit in self.limits:
            for name in (self.slots[index].name for index in limit.slots):
                if name in a and name in b and not limit.holds(self._total(limit, given)):
                    given[name] = a[name]
        return self.complete(given, rng)

    @cached_property
    def numbers(self) -> tuple[Slot, ...]:
        """Integers and floats with more than one value on which no other decision depends."""
        numeric = (slot for slot in self.slots if isinstance(slot.decision, Integer | Float))
        return tuple(slot for slot in numeric if slot.changeable and not slot.controls)

    def nudge(self, values: Mapping[str, Value], spread: float, rng: "Generator") -> Values:
        """Move one of the active `numbers`, each other by a fair coin, by normal steps of ``spread`` of its range."""
        given = dict(values)
        names = [slot.name for slot in self.numbers if slot.name in given]
        coins, steps = rng.random((2, len(names))).tolist()
        always = int(rng.random() * len(names))
        for at, (name, coin, step) in enumerate(zip(names, coins, steps, strict=True)):
            if at == always or coin < 0.5:
                given[name] = self._by_name[name].decision.nudge(given[name], spread, step)
        return Values(given)

    def changeable(self, values: Mapping[str, Value]) -> int:
        """Number of active decisions that have another value, which a limit may take from them."""
        return len(self._changeable(values))

    def complete(self, given: Mapping[str, Value], rng: "Generator") -> Values:
        """The assignment that ``given`` determines as far as it goes, the rest at random.

        Values of ``given`` that do not apply are left out, those that a limit has no room for are drawn anew.
        """
        return Values(self._complete(given, rng))

    def _changeable(self, values: Mapping[str, Value]) -> list[Slot]:
        return [
            slot
            for slot in self._active(values)
            if slot.changeable and (slot.limit is None or any(True for _ in self._others(slot, values)))
        ]

    def _others(self, slot: Slot, values: Mapping[str, Value]) -> Iterator[Value]:
        """What else ``slot`` may be where all others stay; its limit counts."""
        limit, current = slot.limit, typed_key(values[slot.name])
        others = (option for option in slot.decision.options or () if typed_key(option) != current)
        if limit is None:
            return others
        rest = self._total(limit, values) - elements(values[slot.name])
        return (option for option in others if limit.holds(rest + elements(option)))

    def _total(self, limit: Limit, values: Mapping[str, Value]) -> int:
        """How many elements the values under ``limit`` have in all, as far as they are known."""
        names = (self.slots[index].name for index in limit.slots)
        return sum(elements(values[name]) for name in names if name in values)

    def _active(self, values: Mapping[str, Value]) -> list[Slot]:
        try:
            return [self._by_name[name] for name in values]
        except KeyError:
            self.check(values)
            raise

    @cached_property
    def _plan(self) -> Plan:
        try:
            return Counter(self.slots).plan()
        except ValueError as error:
            raise ValueError(f"{self.title or 'this domain'}: {error}") from None

    def _complete(self, given: Mapping[str, Value], rng: "Generator") -> dict[str, Value]:
        """As `complete`, in the order of the slots."""
        draws = iter(rng.random(self._plan.draws).tolist())
        chosen: dict[int, Value] = {}
        self._walk(self._plan, given, draws, chosen)
        slots = self.slots
        return {slots[index].name: chosen[index] for index in sorted(chosen)}

    def _walk(self, plan: Plan, given: Mapping[str, Value], draws: Iterator[float], chosen: dict[int, Value]) -> None:
        slots = self.slots
        for index in plan.free:
            slot = slots[index]
            chosen[index] = given[slot.name] if slot.name in given else slot.decision.draw(next(draws))
        for branch in plan.branches:
            slot, options = slots[branch.slot], slots[branch.slot].decision.options
            assert options is not None
            place = slot.decision.index(given[slot.name]) if slot.name in given else -1
            if place < 0 or not branch.plans[place].count:
                place = bisect_right(branch.thresholds, next(draws))
            chosen[branch.slot] = options[place]
            self._walk(branch.plans[place], given, draws, chosen)
            if branch.rests:
                self._walk(branch.rests[place], given, draws, chosen)

    # All of them -------------------------------------------------------------------------------------------------

    def size(self) -> int | float:
        """Number of assignments: exact, or infinity where a float with a range can be active."""
        return inf if self._plan.floats else self._plan.count

    def finite_size(self) -> int:
        """Number of assignments, exact, with every float with a range counted as one option."""
        return self._plan.count

    def assignments(self) -> Iterator[Values]:
        """All assignments, each once, in the order of the options; ValueError where they are infinitely many."""
        if self._plan.floats:
            raise ValueError(f"{self.title or 'this domain'} has a float: its assignments cannot be listed")
        yield from map(Values, self._completions({}))

    def neighbours(self, values: Mapping[str, Value]) -> Iterator[Values]:
        """All assignments that differ from ``values`` in one decision, with every completion that it
        activates.

        Floats are left out: they keep their value, and one that becomes active takes the middle of its range.
        """
        given = dict(values)
        for slot in self._active(given):
            for option in self._others(slot, given):
                moved = {**given, slot.name: option}
                yield from map(Values, self._completions(moved) if slot.controls else [moved])

    def fewest_neighbours(self, values: Mapping[str, Value]) -> int:
        """A lower bound on the number of `neighbours`; exact where no decision has a limit or a condition."""
        return sum((slot.decision.count or 1) - 1 for slot in self._active(values) if slot.limit is None)

    def _completions(self, given: Mapping[str, Value]) -> Iterator[dict[str, Value]]:
        """Every assignment that has the values of ``given`` where they apply, in order of the options.

        ``places`` holds the options taken where others depend on them, ``left`` for each active slot the options to
        come.
        """
        chosen: dict[str, Value] = {}
        places: dict[int, int] = {}
        left: list[tuple[Slot, Iterator[Value]]] = []
        at = 0
        while True:
            for slot in self.slots[at:]:
                if _holds(slot, places):
                    left.append((slot, iter(self._open_to(slot, given, chosen))))
                    _take(next(left[-1][1]), slot, chosen, places)
            yield dict(chosen)
            while left and not _take_next(*left[-1], chosen, places):
                left.pop()
            if not left:
                return
            at = left[-1][0].index + 1

    def _open_to(self, slot: Slot, given: Mapping[str, Value], chosen: Mapping[str, Value]) -> Sequence[Value]:
        """The options of ``slot`` after those ``chosen`` before it."""
        if slot.name in given:
            return (given[slot.name],)
        options = slot.decision.options
        if options is None:
            return (slot.decision.draw(0.5),)
        if slot.limit is None:
            return options
        fewest, most = slot.limit.room(slot.index, self._total(slot.limit, chosen))
        return [option for option in options if fewest <= elements(option) <= most]

    # Plain values ------------------------------------------------------------------------------------------------

    def check(self, values: Mapping[str, Any]) -> None:
        """Raise ValueError, with name, value and what is allowed, where ``values`` is no assignment."""
        self._ordered(values)

    def from_plain(self, plain: Mapping[str, Any]) -> Values:
        """Checked values from parsed JSON or TOML: lists become tuples, ints become floats where a float is due."""
        values: dict[str, Value] = {}
        for name, item in plain.items():
            value = check_value(item, located(self.title, name))
            slot = self._by_name.get(name)
            due = slot is not None and isinstance(slot.decision, Float) and type(value) is int
            values[name] = float(value) if due and isinstance(value, int) else value
        return Values(self._ordered(values))

    def _ordered(self, values: Mapping[str, Any]) -> dict[str, Value]:
        for name in values:
            if name not in self._by_name:
                raise ValueError(
                    f"{located(self.title, name)} = {_shown(values[name])}: no such decision; "
                    f"{nearest(name, self._by_name)}"
                )
        chosen: dict[str, Value] = {}
        places: dict[int, int] = {}
        for slot in self.slots:
            if not _holds(slot, places):
                continue
            where = located(self.title, slot.name)
            if slot.name not in values:
                raise ValueError(f"{where} is missing; it is {slot.decision.allowed}")
            value = values[slot.name]
            if not slot.decision.allows(value):
                raise ValueError(f"{where} = {_shown(value)}: it must be {slot.decision.allowed}")
            chosen[slot.name] = value
            if slot.controls:
                places[slot.index] = slot.decision.index(value)
        self._refuse_inactive(values, chosen)
        self._refuse_broken(chosen)
        return chosen

    def _refuse_broken(self, active: Mapping[str, Value]) -> None:
        for limit in self.limits:
            total = self._total(limit, active)
            if self.slots[limit.slots[0]].name in active and not limit.holds(total):
                raise ValueError(
                    f"{located(self.title, limit.name) if limit.name else self.title or 'the cell'} has {total} edges: "
                    f"it must have {limit.least} to {limit.most} (the inputs of its nodes in all)"
                )

    def _refuse_inactive(self, values: Mapping[str, Any], active: Mapping[str, Value]) -> None:
        name = next((name for name in values if name not in active), None)
        if name is not None:
            parents = {self.slots[parent].name for parent, _ in self._by_name[name].conditions}
            because = ", ".join(
                f"{parent} = {_shown(active[parent])}" if parent in active else f"{parent} does not apply"
                for parent in sorted(parents)
            )
            raise ValueError(
                f"{located(self.title, name)} = {_shown(values[name])}: it does not apply where {because}; leave it out"
            )

    def schema(self) -> dict[str, Any]:
        """The declaration as plain JSON, ``{"decisions": [...]}``; a list, so that sorting keys keeps the
        order.
        """
        return {"decisions": decisions_schema(self.decisions)}

    @classmethod
    def from_schema(cls, schema: Mapping[str, Any], title: str = "") -> "Domain":
        """Inverse of `schema`; raises ValueError where it is none."""
        if not isinstance(schema.get("decisions"), list):
            raise ValueError(f'{title or "a domain"}: a schema is {{"decisions": [...]}}, got {sorted(schema)}')
        return cls(decisions_from_schema(schema["decisions"]), title)


def _take(value: Value, slot: Slot, chosen: dict[str, Value], places: dict[int, int]) -> None:
    chosen[slot.name] = value
    if slot.controls:
        places[slot.index] = slot.decision.index(value)


def _take_next(slot: Slot, left: Iterator[Value], chosen: dict[str, Value], places: dict[int, int]) -> bool:
    """Take the next option of ``slot``; without one, forget it."""
    for value in left:
        _take(value, slot, chosen, places)
        return True
    del chosen[slot.name]
    places.pop(slot.index, None)
    return False


def _holds(slot: Slot, places: Mapping[int, int]) -> bool:
    return all(places.get(parent, -1) in allowed for parent, allowed in slot.conditions)


def _shown(value: Any) -> str:
    """A value as its JSON, which tells types apart; anything else as Python shows it."""
    try:
        return typed_key(value).decode()
    except TypeError:
        return repr(value)

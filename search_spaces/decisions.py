"""The kinds of decisions: choice, integer, float, and a repeated block of decisions.

Values are compared with their types: ``1``, ``True`` and ``1.0`` are three options. A decision of one value
is a `Leaf`; a block (`Repeat`) stands for several, and is unrolled by `search_spaces.layout`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from search_spaces.conditions import ConditionLike, When, conditions_schema, plain_value, typed_key
from search_spaces.decision import Decision, Leaf, other_place
from search_spaces.numeric import Float, Integer
from search_spaces.values import Value, check_value, from_json

__all__ = ["Choice", "Decision", "Float", "Integer", "Leaf", "Repeat", "When"]


@dataclass(frozen=True, init=False)
class Choice(Leaf):
    """One of ``options``: None, bools, ints, floats, texts, or tuples of them.

    ``ordered`` says that neighbouring options are alike, so that a mutation prefers them. Raises ValueError
    for no option, a repeated option, and values that the record cannot keep.
    """

    options: tuple[Value, ...]
    ordered: bool = False
    when: ConditionLike = None

    def __init__(self, *options: Any, ordered: bool = False, when: ConditionLike = None) -> None:
        if not options:
            raise ValueError("Choice(): give at least one option")
        if len(options) == 1 and isinstance(options[0], list | set | dict | range):
            raise ValueError(f"Choice({options[0]!r}): options are given one by one, as in Choice(16, 32, 64)")
        object.__setattr__(self, "options", tuple(check_value(option, "Choice") for option in options))
        object.__setattr__(self, "ordered", bool(ordered))
        object.__setattr__(self, "when", when)
        keys = [typed_key(option) for option in self.options]
        twice = [option for option, key in zip(self.options, keys, strict=True) if keys.count(key) > 1]
        if twice:
            raise ValueError(f"Choice: option {twice[0]!r} is given {len(twice)} times; name each option once")
        _ = self.conditions

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {typed_key(option): place for place, option in enumerate(self.options)}

    @property
    def allowed(self) -> str:
        """The options, as JSON."""
        return "one of " + ", ".join(typed_key(option).decode() for option in self.options)

    def allows(self, value: Any) -> bool:
        """Whether ``value``, with its type, is one of the options."""
        try:
            return not isinstance(value, list) and typed_key(value) in self._places
        except TypeError:
            return False

    def index(self, value: Value) -> int:
        """Place of ``value`` among the options."""
        try:
            return self._places[typed_key(value)]
        except KeyError:
            raise ValueError(f"{value!r} is not {self.allowed}") from None

    def draw(self, u: float) -> Value:
        """A uniform option."""
        return self.options[int(u * len(self.options))]

    def move(self, value: Value, u: Sequence[float]) -> Value:
        """Another option, uniform; half of the time a neighbouring one where the options are ordered."""
        place, last = self.index(value), len(self.options) - 1
        if self.ordered and u[0] < 0.5:
            return self.options[place + 1 if place == 0 or (u[1] < 0.5 and place < last) else place - 1]
        return self.options[other_place(place, last + 1, u[1])]

    def schema(self) -> dict[str, Any]:
        """Plain JSON."""
        options = [*map(plain_value, self.options)]
        return {
            "type": "choice",
            "options": options,
            "ordered": self.ordered,
            **conditions_schema(self.conditions),
        }


@dataclass(frozen=True)
class Repeat(Decision):
    """A block of decisions, repeated ``count`` times: ``stage.0.width``, ``stage.1.width``, ...

    ``count`` names a decision declared before (`Integer`, or `Choice` of ints), or is itself a number. Blocks
    may hold blocks; a condition inside names a decision of its own block or of one around it.
    """

    count: str | int
    decisions: Mapping[str, Decision]
    when: ConditionLike = None

    def __post_init__(self) -> None:
        number = isinstance(self.count, int) and not isinstance(self.count, bool)
        if not isinstance(self.count, str) and not (number and self.count >= 1):
            raise ValueError(f"Repeat: count = {self.count!r} must name a decision, or be an int of at least 1")
        if not isinstance(self.decisions, Mapping) or not self.decisions:
            raise ValueError(f"Repeat: decisions = {self.decisions!r} must map at least one name to a decision")
        _ = self.conditions

    def schema(self) -> dict[str, Any]:
        """Plain JSON; decisions are a list, for their order matters."""
        decisions = decisions_schema(self.decisions)
        return {
            "type": "repeat", "count": self.count, "decisions": decisions, **conditions_schema(self.conditions)
        }  # fmt: skip


def decisions_schema(decisions: Mapping[str, Decision]) -> list[dict[str, Any]]:
    """Plain JSON of named decisions, in order."""
    return [{"name": name, **decision.schema()} for name, decision in decisions.items()]


def decisions_from_schema(plain: Sequence[Mapping[str, Any]]) -> dict[str, Decision]:
    """Inverse of `decisions_schema`; ValueError where it is none."""
    try:
        return {entry["name"]: _decision_from_schema(entry) for entry in plain}
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no schema of decisions ({type(error).__name__}: {error})") from error


def _decision_from_schema(plain: Mapping[str, Any]) -> Decision:
    when = {name: [*map(from_json, values)] for name, values in plain.get("when", {}).items()} or None
    match plain["type"]:
        case "choice":
            return Choice(*map(from_json, plain["options"]), ordered=plain["ordered"], when=when)
        case "integer":
            return Integer(plain["low"], plain["high"], plain["step"], plain["log"], when)
        case "float":
            return Float(plain["low"], plain["high"], plain["log"], when)
        case "repeat":
            return Repeat(plain["count"], decisions_from_schema(plain["decisions"]), when)
    raise ValueError(f"decision {plain['name']!r} has the type {plain['type']!r}, which this version does not know")

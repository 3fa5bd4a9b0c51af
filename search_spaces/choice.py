"""A choice: one of a few options."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from search_spaces.conditions import ConditionLike, conditions_schema, plain_value, typed_key
from search_spaces.decision import Leaf, other_place
from search_spaces.values import Value, check_value

_SHOWN = 20


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
        if len(self._places) < len(self.options):
            key, times = Counter(map(typed_key, self.options)).most_common(1)[0]
            raise ValueError(
                f"Choice: option {self.options[self._places[key]]!r} is given {times} times; name each option once"
            )
        _ = self.conditions

    @cached_property
    def _places(self) -> dict[bytes, int]:
        # copies, for orjson's own results keep the kilobytes in which they were written
        return {bytes(memoryview(typed_key(option))): place for place, option in enumerate(self.options)}

    @property
    def allowed(self) -> str:
        """The options as JSON, the first 20 of many."""
        shown = ", ".join(typed_key(option).decode() for option in self.options[:_SHOWN])
        more = len(self.options) - _SHOWN
        return f"one of {shown}" + (f" and {more:,} more" if more > 0 else "")

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

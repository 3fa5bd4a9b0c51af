"""What every kind of decision has. A `Leaf` is a decision of one value; a block stands for several."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from search_spaces.conditions import ConditionLike, When, read_conditions
from search_spaces.values import Value


class Decision:
    """Anything that a space or a block may declare under a name."""

    when: ConditionLike

    @cached_property
    def conditions(self) -> tuple[When, ...]:
        """All conditions under which the decision applies; they hold together."""
        return read_conditions(self.when)

    def schema(self) -> dict[str, Any]:
        """Plain JSON, read back by `decision_from_schema`."""
        raise NotImplementedError


class Leaf(Decision):
    """A decision of one value.

    ``options`` are its values in order, None where they are a continuum. Random methods take uniform numbers
    in [0, 1), so that a domain can draw those of all its decisions at once.
    """

    options: Sequence[Value] | None

    @property
    def count(self) -> int | None:
        """Number of options, None where they are a continuum."""
        return None if self.options is None else len(self.options)

    @property
    def allowed(self) -> str:
        """What its value may be, in words."""
        raise NotImplementedError

    def allows(self, value: Any) -> bool:
        """Whether ``value``, with its type, is one of the options."""
        raise NotImplementedError

    def index(self, value: Value) -> int:
        """Place of ``value`` among the options; ValueError where it is none."""
        raise NotImplementedError

    def weight(self, index: int) -> float:
        """Weight of an option in `draw`, before what it makes possible is counted: 1, but on a log scale."""
        return 1.0

    def draw(self, u: float) -> Value:
        """A random value."""
        raise NotImplementedError

    def move(self, value: Value, u: Sequence[float]) -> Value:
        """Another random value, from three uniform numbers; every other value can come."""
        raise NotImplementedError

    def nudge(self, value: Value, spread: float, u: float) -> Value:
        """A value near ``value`` on a scale, from one uniform number; itself where there is no scale."""
        return value


def other_place(place: int, count: int, u: float) -> int:
    """Uniform over all places but ``place``."""
    other = int(u * (count - 1))
    return other + (other >= place)

"""Decisions on numbers: an integer of a range, a float of a range, each on a plain or a log scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, expm1, isfinite, log, log1p
from statistics import NormalDist
from typing import Any

from search_spaces.conditions import ConditionLike, conditions_schema
from search_spaces.decision import Leaf, other_place
from search_spaces.values import Value, check_value

_NORMAL = NormalDist()
_SPREAD = 0.2
"""Standard deviation of a numeric move, as a share of the range."""


@dataclass(frozen=True)
class Integer(Leaf):
    """An int from ``low`` by ``step`` up to at most ``high``; with ``log`` small ones are drawn more often.

    Raises ValueError for an empty range, a step below 1, and ``log`` with ``low`` below 1 or another step
    than 1.
    """

    low: int
    high: int
    step: int = 1
    log: bool = False
    when: ConditionLike = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            value = check_value(getattr(self, name), f"Integer {name}")
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"Integer: {name} = {value!r} must be an int; Float(low, high) takes floats")
            object.__setattr__(self, name, value)
        if self.low > self.high:
            raise ValueError(f"Integer: low = {self.low} is above high = {self.high}")
        if self.step < 1:
            raise ValueError(f"Integer: step = {self.step} must be at least 1")
        if self.log and self.low < 1:
            raise ValueError(f"Integer: low = {self.low} must be at least 1 where log is true")
        if self.log and self.step != 1:
            raise ValueError(f"Integer: step = {self.step} must be 1 where log is true; or list options in a Choice")
        _ = self.conditions

    @cached_property
    def options(self) -> range:  # type: ignore[override]
        """All its values."""
        return range(self.low, self.high + 1, self.step)

    @property
    def count(self) -> int:
        """Number of values, also where Python takes no `len` of the range."""
        return (self.high - self.low) // self.step + 1

    @property
    def allowed(self) -> str:
        """The range in words."""
        by = f" by {self.step}" if self.step > 1 else ""
        return f"an int from {self.low} to {self.options[-1]}{by}"

    def allows(self, value: Any) -> bool:
        """Whether ``value`` is an int of the range."""
        return type(value) is int and value in self.options

    def index(self, value: Value) -> int:
        """Place of ``value`` in the range."""
        if not isinstance(value, int) or not self.allows(value):
            raise ValueError(f"{value!r} is not {self.allowed}")
        return (value - self.low) // self.step

    def weight(self, index: int) -> float:
        """1; on a log scale the width of the value's cell."""
        return log1p(1 / (self.options[index] - 0.5)) if self.log else 1.0

    def draw(self, u: float) -> Value:
        """Uniform, or log-uniform; one of about 2^53 values at even distances where there are more."""
        if not self.log:
            return self.options[int(u * self.count)]
        least = self.low - 0.5
        return self.options[min(self.count - 1, int(least * expm1(u * log1p(self.count / least))))]

    def move(self, value: Value, u: Sequence[float]) -> Value:
        """Another value: half of the time a normal step of 0.2 of the range, else uniform."""
        place, count = self.index(value), self.count
        if u[0] >= 0.5:
            return self.options[other_place(place, count, u[1])]
        moved = self.index(self.nudge(value, _SPREAD, u[1]))
        if moved == place:
            moved = place + 1 if place == 0 or (u[2] < 0.5 and place < count - 1) else place - 1
        return self.options[moved]

    def nudge(self, value: Value, spread: float, u: float) -> Value:
        """A normal step of ``spread`` of the range, to the nearest value, which may be ``value``."""
        place = self.index(value)
        if self.log:
            near = _perturb(float(self.options[place]), self.low, self.high, u, spread, log_scale=True)
            return self.options[round(near) - self.low]
        return self.options[round(_perturb(float(place), 0, self.count - 1, u, spread, log_scale=False))]

    def schema(self) -> dict[str, Any]:
        """Plain JSON."""
        numbers = {name: getattr(self, name) for name in ("low", "high", "step", "log")}
        return {"type": "integer", **numbers, **conditions_schema(self.conditions)}


@dataclass(frozen=True)
class Float(Leaf):
    """A float from ``low`` to ``high``, both included; with ``log`` drawn on a log scale.

    Raises ValueError for an empty or infinite range, and for ``log`` with ``low`` not above 0.
    """

    low: float
    high: float
    log: bool = False
    when: ConditionLike = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise ValueError(f"Float: {name} = {value!r} must be a finite number")
            object.__setattr__(self, name, float(value))
        if self.low > self.high:
            raise ValueError(f"Float: low = {self.low} is above high = {self.high}")
        if not isfinite(self.high - self.low):
            raise ValueError(f"Float: from {self.low} to {self.high} is too wide for a float")
        if self.log and self.low <= 0:
            raise ValueError(f"Float: low = {self.low} must be above 0 where log is true")
        _ = self.conditions

    @cached_property
    def options(self) -> tuple[Value, ...] | None:  # type: ignore[override]
        """None, or the one value of a range without width."""
        return (self.low,) if self.low == self.high else None

    @property
    def allowed(self) -> str:
        """The range in words."""
        return f"a float from {self.low} to {self.high}"

    def allows(self, value: Any) -> bool:
        """Whether ``value`` is a float of the range."""
        return type(value) is float and self.low <= value <= self.high

    def index(self, value: Value) -> int:
        """0: a float counts as one option."""
        if not self.allows(value):
            raise ValueError(f"{value!r} is not {self.allowed}")
        return 0

    def draw(self, u: float) -> Value:
        """Uniform, or log-uniform."""
        return _stretch(u, self.low, self.high, log_scale=self.log)

    def move(self, value: Value, u: Sequence[float]) -> Value:
        """A normal step of 0.2 of the range (of its logarithm with ``log``), clipped to it."""
        return self.nudge(value, _SPREAD, u[1])

    def nudge(self, value: Value, spread: float, u: float) -> Value:
        """Another value: a normal step of ``spread`` of the range (of its logarithm with ``log``), clipped to it."""
        if not isinstance(value, float) or not self.allows(value):
            raise ValueError(f"{value!r} is not {self.allowed}")
        return _perturb(value, self.low, self.high, u, spread, log_scale=self.log)

    def schema(self) -> dict[str, Any]:
        """Plain JSON."""
        numbers = {name: getattr(self, name) for name in ("low", "high", "log")}
        return {"type": "float", **numbers, **conditions_schema(self.conditions)}


def _stretch(u: float, low: float, high: float, *, log_scale: bool) -> float:
    """Map [0, 1) onto a range of floats."""
    if log_scale:
        return min(high, max(low, exp(log(low) + u * (log(high) - log(low)))))
    return min(high, low + u * (high - low))


def _perturb(value: float, low: float, high: float, u: float, spread: float, *, log_scale: bool) -> float:
    """A normal step, clipped; where that leads nowhere, the same step the other way, else the farther end."""
    step = spread * _NORMAL.inv_cdf(max(u, 1e-12))
    for signed in (step, -step):
        if log_scale:
            moved = exp(min(log(high), max(log(low), log(value) + signed * (log(high) - log(low)))))
        else:
            moved = value + signed * (high - low)
        moved = min(high, max(low, moved))
        if moved != value:
            return moved
    return high if high - value > value - low else low

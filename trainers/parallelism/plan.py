"""A plan: how many ways a trial is split along each parallel axis. The product of the degrees is its width."""

from dataclasses import dataclass, fields
from functools import lru_cache

INSTALLED_AXES = ("data",)
"""Axes that a trial can be split along today; a plan that needs another is refused before anything runs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Degree per axis of the device mesh; 1 means not split."""

    data: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1

    def __post_init__(self) -> None:
        for axis in fields(self):
            degree = getattr(self, axis.name)
            if not isinstance(degree, int) or degree < 1:
                raise ValueError(f"plan: {axis.name} = {degree!r}, a degree is an integer of at least 1")
            if degree > 1 and axis.name not in INSTALLED_AXES:
                raise ValueError(
                    f"plan: {axis.name} = {degree}, but this axis cannot be applied yet; "
                    f"installed: {', '.join(INSTALLED_AXES)}"
                )

    @property
    def width(self) -> int:
        """Devices that the plan takes."""
        return self.data * self.shard * self.tensor * self.pipeline

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> "Plan":
        """Read ``"data=2"`` or ``"data=2,tensor=4"``; raise ValueError naming what is wrong."""
        known = [axis.name for axis in fields(cls)]
        degrees: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, degree = part.partition("=")
            if not equals or name.strip() not in known or not degree.strip().isdecimal():
                raise ValueError(f"plan = {text!r}: expected AXIS=DEGREE, with AXIS one of {', '.join(known)}")
            degrees[name.strip()] = int(degree)
        return cls(**degrees)

    def __str__(self) -> str:
        return _text(self)


@lru_cache(maxsize=256)
def _text(plan: Plan) -> str:
    split = [f"{axis.name}={getattr(plan, axis.name)}" for axis in fields(plan) if getattr(plan, axis.name) > 1]
    return ",".join(split) or "data=1"

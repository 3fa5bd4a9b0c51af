"""A plan: how many ways a trial is split along each parallel axis. The product of the degrees is its width."""

from dataclasses import dataclass, fields
from functools import lru_cache

AXES = ("data", "shard", "tensor", "pipeline")
INSTALLED_AXES = ("data",)
"""Axes that a trial can be split along today; a plan that needs another can only be priced."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Degree per axis of the device mesh; 1 means not split.

    A step of ``micro_batches`` passes accumulates their gradients. With ``recompute`` the backward pass computes
    activations once more instead of keeping them (Chen et al. 2016).
    """

    data: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1
    micro_batches: int = 1
    recompute: bool = False

    def __post_init__(self) -> None:
        for name in (*AXES, "micro_batches"):
            degree = getattr(self, name)
            if not isinstance(degree, int) or degree < 1:
                raise ValueError(f"plan: {name} = {degree!r}, a degree is an integer of at least 1")

    @property
    def width(self) -> int:
        """Devices that the plan takes."""
        return self.data * self.shard * self.tensor * self.pipeline

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> "Plan":
        """Read ``"data=2"`` or ``"data=2,tensor=4"``; raise ValueError naming what is wrong, or not installed."""
        degrees: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, degree = part.partition("=")
            if not equals or name.strip() not in AXES or not degree.strip().isdecimal():
                raise ValueError(f"plan = {text!r}: expected AXIS=DEGREE, with AXIS one of {', '.join(AXES)}")
            degrees[name.strip()] = int(degree)
        data, shard, tensor, pipeline = (degrees.get(name, 1) for name in AXES)
        plan = cls(data, shard, tensor, pipeline)
        plan.check_installed()
        return plan

    def check_installed(self) -> None:
        """Raise ValueError where a trial cannot be split along an axis of this plan yet."""
        for name in AXES:
            if getattr(self, name) > 1 and name not in INSTALLED_AXES:
                raise ValueError(
                    f"plan: {name} = {getattr(self, name)}, but this axis cannot be applied yet; "
                    f"installed: {', '.join(INSTALLED_AXES)}"
                )

    def __str__(self) -> str:
        return _text(self)


@lru_cache(maxsize=256)
def _text(plan: Plan) -> str:
    split = [f"{axis.name}={value}" for axis in fields(plan) if (value := getattr(plan, axis.name)) > 1]
    return ",".join(split + ["recompute"] * plan.recompute) or "data=1"

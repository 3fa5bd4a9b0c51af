"""A plan: how many ways a trial is split along each parallel axis. The product of the degrees is its width."""

from dataclasses import dataclass
from functools import lru_cache

AXES = ("data", "shard", "tensor", "pipeline")
DEGREES = (*AXES, "micro_batches")
INSTALLED_AXES = ("data", "pipeline")
"""Axes that a trial can be split along today; a plan that needs another can only be priced."""
MICRO_BATCHES_A_STAGE = 2
"""Of a pipeline whose plan does not say: it waits a third of a step at most (2 stages: a fifth)."""


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
        for name in DEGREES:
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
        """Read ``"data=2"`` or ``"data=2,pipeline=4"``; raise ValueError naming what is wrong, or cannot be applied.

        Without ``micro_batches`` a pipeline has two for each stage.
        """
        given: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, degree = (piece.strip() for piece in part.partition("="))
            if part != "recompute" and (not equals or name not in DEGREES or not degree.isdecimal()):
                raise ValueError(f"plan = {text!r}: expected AXIS=DEGREE, with AXIS one of {', '.join(AXES)}")
            given[name] = int(degree or 1)
        stages = given.get("pipeline", 1)
        given.setdefault("micro_batches", MICRO_BATCHES_A_STAGE * stages if stages > 1 else 1)
        data, shard, tensor, pipeline, micro_batches = (given.get(name, 1) for name in DEGREES)
        plan = cls(data, shard, tensor, pipeline, micro_batches, "recompute" in given)
        plan.check_installed()
        return plan

    def check_installed(self) -> None:
        """Raise ValueError where a trial cannot be trained in this way yet."""
        for name in (*AXES, "recompute"):
            value = int(getattr(self, name))
            if value > (name != "recompute") and name not in INSTALLED_AXES:
                raise ValueError(
                    f"plan: {name} = {value}, but this cannot be applied yet; installed: {', '.join(INSTALLED_AXES)}"
                )
        if self.micro_batches > 1 and self.pipeline == 1:
            raise ValueError(
                f"plan: micro_batches = {self.micro_batches}, but only a pipeline takes a batch in parts; add "
                "pipeline=2, or lower batch_size"
            )

    def __str__(self) -> str:
        return _text(self)


@lru_cache(maxsize=256)
def _text(plan: Plan) -> str:
    split = [f"{name}={value}" for name in AXES if (value := getattr(plan, name)) > 1]
    if plan.micro_batches > 1 or plan.pipeline > 1:
        split.append(f"micro_batches={plan.micro_batches}")
    return ",".join(split + ["recompute"] * plan.recompute) or "data=1"

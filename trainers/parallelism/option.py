"""A priced plan: one point of the curve of devices against seconds that a candidate's plans make."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainers.measurement import numbers_from_json, numbers_to_json
from trainers.parallelism.plan import Plan


@dataclass(frozen=True, slots=True)
class Option:
    """A plan, with the seconds of a step and the memory of the fullest device that are expected of it."""

    plan: Plan
    seconds: float
    memory_bytes: float
    log_error: float
    """Standard deviation of log(measured / predicted seconds)."""

    @property
    def devices(self) -> int:
        """Devices that the plan takes."""
        return self.plan.width

    def trial_seconds(
        self, steps: int, evaluation_seconds: float = 0.0, start_seconds: float = 0.0, checkpoint_seconds: float = 0.0
    ) -> float:
        """Of ``steps`` and all that stands between them: evaluations, the start of the gang, checkpoints."""
        return steps * self.seconds + evaluation_seconds + start_seconds + checkpoint_seconds

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        numbers = {"seconds": self.seconds, "log_error": self.log_error, "memory_bytes": self.memory_bytes}
        return {"plan": str(self.plan), **numbers_to_json(numbers)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Option":
        """Inverse of `to_json`; other keys are passed over."""
        numbers = numbers_from_json({name: plain[name] for name in ("seconds", "log_error", "memory_bytes")})
        return cls(Plan.parse(plain["plan"]), **numbers)

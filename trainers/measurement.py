"""What training yields: metrics at a fidelity, and the seconds they took."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any, TypeAlias

Fidelity: TypeAlias = float
"""How much training, as a number; its unit (epoch, step, share of the data) is the study's."""

_NOT_FINITE = {"nan": nan, "inf": inf, "-inf": -inf}


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """What training steps took as a rule: ``seconds`` of one, of ``samples`` over all ranks."""

    seconds: float
    samples: float

    def __post_init__(self) -> None:
        for name in ("seconds", "samples"):
            if not 0 < getattr(self, name) < inf:
                raise ValueError(f"step: {name} = {getattr(self, name)!r} is above 0 and finite; else give no step")


@dataclass(frozen=True, slots=True)
class Measurement:
    """Metrics of a trial at ``fidelity``; ``seconds`` from the start of the leg that measured them.

    ``step`` is what its training steps took, where the trainer says it.
    """

    fidelity: Fidelity
    metrics: Mapping[str, float]
    seconds: float
    step: MeasuredStep | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        plain: dict[str, Any] = {
            "fidelity": self.fidelity,
            "metrics": numbers_to_json(self.metrics),
            "seconds": self.seconds,
        }
        if self.step is not None:
            plain["step"] = {"seconds": self.step.seconds, "samples": self.step.samples}
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Measurement":
        """Inverse of `to_json`; other keys are passed over."""
        step = MeasuredStep(**plain["step"]) if "step" in plain else None
        return cls(plain["fidelity"], numbers_from_json(plain["metrics"]), plain["seconds"], step)


def numbers_to_json(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """Metrics for JSON, where NaN and infinities are the texts ``"nan"``, ``"inf"``, ``"-inf"``."""
    return {name: value if isfinite(value) else str(value) for name, value in metrics.items()}


def numbers_from_json(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Inverse of `numbers_to_json`."""
    if all(type(value) is not str for value in metrics.values()):
        return dict(metrics)
    return {name: _NOT_FINITE[value] if isinstance(value, str) else value for name, value in metrics.items()}

"""What training yields: metrics at a fidelity, and the seconds they took."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any, TypeAlias

Fidelity: TypeAlias = float
"""How much training, as a number; its unit (epoch, step, share of the data) is the study's."""

_NOT_FINITE = {"nan": nan, "inf": inf, "-inf": -inf}


@dataclass(frozen=True, slots=True)
class Measurement:
    """Metrics of a trial at ``fidelity``; ``seconds`` from the start of the leg that measured them.

    ``step_seconds`` are those of a training step of the whole batch, where the trainer says them.
    """

    fidelity: Fidelity
    metrics: Mapping[str, float]
    seconds: float
    step_seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        plain = {"fidelity": self.fidelity, "metrics": numbers_to_json(self.metrics), "seconds": self.seconds}
        return plain if self.step_seconds is None else {**plain, "step_seconds": self.step_seconds}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Measurement":
        """Inverse of `to_json`; other keys are passed over."""
        metrics = numbers_from_json(plain["metrics"])
        return cls(plain["fidelity"], metrics, plain["seconds"], plain.get("step_seconds"))


def numbers_to_json(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """Metrics for JSON, where NaN and infinities are the texts ``"nan"``, ``"inf"``, ``"-inf"``."""
    return {name: value if isfinite(value) else str(value) for name, value in metrics.items()}


def numbers_from_json(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Inverse of `numbers_to_json`."""
    if all(type(value) is not str for value in metrics.values()):
        return dict(metrics)
    return {name: _NOT_FINITE[value] if isinstance(value, str) else value for name, value in metrics.items()}

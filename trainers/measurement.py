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
    """Metrics of a trial at ``fidelity``; ``seconds`` from the start of the leg that measured them."""

    fidelity: Fidelity
    metrics: Mapping[str, float]
    seconds: float


def numbers_to_json(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """Metrics for JSON, where NaN and infinities are the texts ``"nan"``, ``"inf"``, ``"-inf"``."""
    return {name: value if isfinite(value) else str(value) for name, value in metrics.items()}


def numbers_from_json(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Inverse of `numbers_to_json`."""
    if all(type(value) is not str for value in metrics.values()):
        return dict(metrics)
    return {name: _NOT_FINITE[value] if isinstance(value, str) else value for name, value in metrics.items()}

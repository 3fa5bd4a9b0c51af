"""Learning curves by formula: what a dry run and the simulated executor measure in place of training.

A candidate's quality is a mean over its decisions, so that neighbours are alike and a strategy has something to find.
The error falls as a power of the fidelity (Domhan et al. 2015, "pow3"): the curves of two candidates may cross.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import cos, log, log10, pi
from typing import Any
from zlib import crc32

from search_spaces import Candidate
from trainers.context import Context
from trainers.measurement import Fidelity


class Synthetic:
    """Reports ``val_accuracy``, ``val_loss`` and ``parameters``, all by formula, and the seconds they would take.

    Settings: ``seconds``, the median time of a unit of fidelity (default 1); ``every``, the fidelity between two
    reports (default: one, at the leg's end).
    """

    builds = False
    trains = False

    def __call__(self, candidate: Candidate, context: Context) -> None:
        """Report; spends no time and draws nothing."""
        settings = _Settings.parse(context.recipe.settings)
        curve = Curve.of(candidate)
        start, until = context.start, context.until
        fidelity = min(until, start + settings.every) if settings.every else until
        while True:
            seconds = settings.seconds * curve.relative_seconds * (fidelity - start)
            context.report(fidelity, curve.at(fidelity, context.maximum), state={}, seconds=seconds)
            if fidelity == until:
                return
            fidelity = min(until, fidelity + settings.every)


@dataclass(frozen=True, slots=True)
class Curve:
    """Error(f) = floor + (0.9 - floor) (1 + 30 f / maximum)^-rate."""

    floor: float
    rate: float
    relative_seconds: float
    parameters: int

    @classmethod
    def of(cls, candidate: Candidate) -> "Curve":
        """The curve of ``candidate``: a function of its values alone."""
        quality = size = speed = weight = 0.0
        for part in (candidate.architecture, candidate.hyperparameters):
            for name, value in part.items():
                word = _word(f"{name}={value!r}")
                quality += _quality(name, value, word)
                size += (word >> 10 & 1023) / 1023
                speed += (word >> 20 & 1023) / 1023
                weight += 1
        weight = weight or 1.0
        quality, size, speed = quality / weight, size / weight, speed / weight
        return cls(
            floor=0.02 + 0.4 * (1 - quality) ** 2 + 0.05 * (1 - size),
            rate=0.5 + speed,
            relative_seconds=4 ** (2 * size - 1),
            parameters=int(1000 * 300**size),
        )

    def at(self, fidelity: Fidelity, maximum: Fidelity) -> dict[str, float]:
        """Metrics at ``fidelity``."""
        error = self.floor + (0.9 - self.floor) * (1 + 30 * fidelity / maximum) ** -self.rate
        return {"val_accuracy": 1 - error, "val_loss": -log(1 - error), "parameters": self.parameters}


@lru_cache(maxsize=4096)
def _word(text: str) -> int:
    """32 well mixed bits (the multiplier is Knuth's)."""
    word = crc32(text.encode()) * 2654435761 & 0xFFFFFFFF
    return word ^ word >> 15


def _quality(name: str, value: Any, word: int) -> float:
    """In [0, 1]; smooth in the logarithm of a real number, of no order otherwise."""
    if type(value) is float and value > 0:
        return 0.5 + 0.5 * cos(pi * log10(value) / 2 + crc32(name.encode()) % 64 / 10)
    return (word & 1023) / 1023


@dataclass(frozen=True, slots=True)
class _Settings:
    seconds: float = 1.0
    every: float = 0.0

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> "_Settings":
        for name, value in settings.items():
            if name not in ("seconds", "every"):
                raise ValueError(f"trainer.{name}: the synthetic trainer does not know it; Known: seconds, every")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise ValueError(f"trainer.{name} = {value!r}: use a number of at least 0")
        return cls(**settings)

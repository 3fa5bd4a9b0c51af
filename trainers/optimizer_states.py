"""What an optimiser keeps and moves of each parameter, known without torch."""

from dataclasses import dataclass

ADAMS = ("adam", "adamw")
SINGLE = 4.0
"""Bytes of a weight, its gradient and its states in float32."""


def states(optimizer: str, momentum: float) -> int:
    """How often it keeps something as large as a weight: two moments for Adam's, else a momentum or nothing."""
    return 2 if optimizer in ADAMS else int(momentum != 0)


@dataclass(frozen=True, slots=True)
class OptimizerBytes:
    """Of a parameter: ``moved`` by a step, ``held`` all the time."""

    moved: float
    """Weight and states read and written, gradient read."""
    held: float
    """Weight, gradient and states."""

    @classmethod
    def of(cls, optimizer: str, momentum: float) -> "OptimizerBytes":
        """Of an optimiser by the supervised trainer's names, in float32."""
        kept = states(optimizer, momentum)
        return cls(SINGLE * (3 + 2 * kept), SINGLE * (2 + kept))

"""All that a search space may know of a task: the shapes and dtypes of a network's input and output."""

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape (without the batch dim) and dtype of one tensor, e.g. ``TensorType((1, 8, 8))``."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.shape):
            raise ValueError(f"shape = {self.shape}: every size must be at least 1 (leave the batch dim out)")

    @property
    def elements(self) -> int:
        """Number of elements of one sample."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Signature:
    """Input and output of the network of a task; for a classifier the output is ``(classes,)`` logits."""

    input: TensorType
    output: TensorType

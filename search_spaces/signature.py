"""All that a search space may know of a task: the shapes and dtypes of a network's input and output."""

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape (without the batch dim) and dtype of one tensor, e.g. ``TensorType((1, 8, 8))``.

    ``vocabulary`` is the number of tokens that an integer tensor may hold, 0 to ``vocabulary - 1``; None where
    the task does not say.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    vocabulary: int | None = None

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.shape):
            raise ValueError(f"shape = {self.shape}: every size must be at least 1 (leave the batch dim out)")
        if self.vocabulary is None:
            return
        if self.vocabulary < 1 or not self.of_integers:
            raise ValueError(
                f"vocabulary = {self.vocabulary} of dtype {self.dtype}: it is the number of tokens, at least 1, of a "
                'tensor of integers, as in TensorType((64,), "int64", vocabulary=256)'
            )

    @property
    def elements(self) -> int:
        """Number of elements of one sample."""
        return prod(self.shape)

    @property
    def of_integers(self) -> bool:
        """Whether the dtype is one of integers."""
        return self.dtype.startswith(("int", "uint"))


@dataclass(frozen=True, slots=True)
class Signature:
    """Input and output of the network of a task; for a classifier the output is ``(classes,)`` logits."""

    input: TensorType
    output: TensorType

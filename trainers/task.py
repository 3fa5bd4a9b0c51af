"""A task: what is to be learnt. Loading is apart from batching, so that a worker loads once for many trials."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from search_spaces import Signature

if TYPE_CHECKING:
    import numpy as np
    import torch


@dataclass(frozen=True, slots=True)
class Split:
    """Samples of one split: ``inputs`` [samples, *input shape] and ``targets`` [samples, ...], numpy arrays."""

    inputs: "np.ndarray[Any, Any]"
    targets: "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Data:
    """The three splits, fixed by the task's own seed. The search reads ``validation``; ``test`` is for retraining."""

    train: Split
    validation: Split
    test: Split


def joined(first: Split, second: Split) -> Split:
    """All samples of both."""
    import numpy as np

    return Split(np.concatenate([first.inputs, second.inputs]), np.concatenate([first.targets, second.targets]))


class Task(Protocol):
    """What a task must have. `trainers.tasks.classification.Classification` fills in all but data and signature."""

    signature: Signature

    def load(self) -> Data:
        """Read the data; called once per worker process."""
        ...

    def loss(self, outputs: "torch.Tensor", targets: "torch.Tensor") -> "torch.Tensor":
        """Mean loss over the samples of a batch, a scalar."""
        ...

    def metrics(self, outputs: "torch.Tensor", targets: "torch.Tensor") -> dict[str, float]:
        """Metrics over a whole split, by name without a prefix, e.g. ``{"accuracy": 0.98}``."""
        ...

    def augment(self, inputs: "torch.Tensor", generator: "torch.Generator") -> "torch.Tensor":
        """Random changes of a training batch, drawn from ``generator`` alone; may return ``inputs``."""
        ...

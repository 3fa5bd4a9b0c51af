"""Classification: cross-entropy and accuracy. A task of one's own adds its signature and `load`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from search_spaces import Signature
from trainers.task import Data, Split

if TYPE_CHECKING:
    import torch


class Classification:
    """Base of tasks whose targets are class numbers [samples] and whose outputs are logits [samples, classes]."""

    signature: Signature

    def load(self) -> Data:
        """Read the data; `split` makes it from two arrays."""
        raise NotImplementedError(f"{type(self).__name__} must say how its data is loaded: def load(self) -> Data")

    def loss(self, outputs: "torch.Tensor", targets: "torch.Tensor") -> "torch.Tensor":
        """Mean cross-entropy, in nats."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets)

    def metrics(self, outputs: "torch.Tensor", targets: "torch.Tensor") -> dict[str, float]:
        """``accuracy``: the share of samples whose largest logit is that of their class."""
        return {"accuracy": (outputs.argmax(1) == targets).float().mean().item()}

    def augment(self, inputs: "torch.Tensor", generator: "torch.Generator") -> "torch.Tensor":
        """Leave the batch as it is."""
        return inputs


def split(
    inputs: "np.ndarray[Any, Any]",
    targets: "np.ndarray[Any, Any]",
    seed: int,
    validation: float = 0.2,
    test: float = 0.2,
) -> Data:
    """Split stratified by class: the share of each class is the same in all three, to within one sample.

    Raises ValueError where a share is outside (0, 1), nothing is left to train on, or a class has under 3 samples.
    """
    if len(inputs) != len(targets):
        raise ValueError(f"split: {len(inputs)} inputs and {len(targets)} targets; give one target for each input")
    if not (0 < validation < 1 and 0 < test < 1 and validation + test < 1):
        raise ValueError(f"split: validation = {validation}, test = {test}; both above 0, together below 1")
    parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    generator = np.random.default_rng(seed)
    for label in np.unique(targets):
        rows = generator.permutation(np.flatnonzero(targets == label))
        if len(rows) < 3:
            raise ValueError(f"split: class {label!r} has {len(rows)} samples; each split needs one, so at least 3")
        first = max(1, round(test * len(rows)))
        second = first + max(1, round(validation * len(rows)))
        for part, chosen in zip(parts, (rows[second:], rows[first:second], rows[:first]), strict=True):
            part.append(chosen)
    rows_of = [np.sort(np.concatenate(part)) for part in parts]
    return Data(*(Split(inputs[rows], targets[rows]) for rows in rows_of))

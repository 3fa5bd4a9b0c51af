"""A task's loss as tracing takes it: from outputs alone, with targets that look like the task's but hold nothing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainers.task import Data, Task
from trainers.tasks.classification import Classification

if TYPE_CHECKING:
    import torch


def traced_loss(task: Task, data: "Callable[[], Data]") -> "Callable[[Any], torch.Tensor]":
    """The loss of ``task`` for `search_spaces.tracing.trace`.

    ``data`` gives what the task loads; it is asked for the look of its targets only where the loss is the task's own.
    """
    from search_spaces.tracing import class_loss

    if getattr(type(task), "loss", None) is Classification.loss:
        return class_loss
    targets = data().train.targets
    shape, dtype = targets.shape[1:], str(targets.dtype)

    def loss(outputs: Any) -> "torch.Tensor":
        import torch
        from torch.utils._pytree import tree_leaves

        first = next(leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor))
        return task.loss(outputs, torch.empty(len(first), *shape, dtype=getattr(torch, dtype), device=first.device))

    return loss

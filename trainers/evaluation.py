"""Measures a network on a split; several ranks share the samples and all get the same numbers."""

import torch
from torch import nn

from trainers.batches import Tensors, share
from trainers.precision import Precision
from trainers.task import Task

_BATCH = 512


@torch.no_grad()
def evaluate(
    network: nn.Module, data: Tensors, task: Task, precision: Precision, device: str, rank: int = 0, ranks: int = 1
) -> dict[str, float]:
    """Return the task's metrics and ``loss`` over all of ``data``."""
    if len(data) == 0:
        raise ValueError("a split to measure on has no samples; let the task's load() give it some")
    parts = [share(len(data), number, ranks) for number in range(ranks)]
    outputs = _outputs(network, data, parts[rank], precision, device)
    if ranks > 1:
        from trainers.parallelism.collectives import gather_rows

        outputs = gather_rows(outputs, [end - first for first, end in parts])
    targets = data.targets.to(device)
    return {**task.metrics(outputs, targets), "loss": task.loss(outputs, targets).item()}


def _outputs(
    network: nn.Module, data: Tensors, rows: tuple[int, int], precision: Precision, device: str
) -> torch.Tensor:
    """Outputs [end - first, ...] in float32; one sample too many is computed where there are none, for the shape."""
    first, end = rows
    was_training = network.training
    network.eval()
    parts = []
    for begin in range(first, max(end, first + 1), _BATCH):
        begin = min(begin, len(data) - 1)
        inputs = data.inputs[begin : max(begin + 1, min(begin + _BATCH, end))].to(device)
        with precision.autocast():
            parts.append(network(inputs).float())
    network.train(was_training)
    return torch.cat(parts)[: end - first]

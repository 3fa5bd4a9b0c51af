"""Measures a network on a split; several ranks share the samples and all get the same numbers."""

from collections.abc import Iterator

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
    return judged(outputs, data, task, device)


def judged(outputs: torch.Tensor, data: Tensors, task: Task, device: str) -> dict[str, float]:
    """The task's metrics and ``loss`` of the ``outputs`` for all of ``data``."""
    targets = data.targets.to(device)
    return {**task.metrics(outputs, targets), "loss": task.loss(outputs, targets).item()}


def chunks(data: Tensors, rows: tuple[int, int], device: str) -> Iterator[torch.Tensor]:
    """Inputs of the samples from first to before end; one sample where there are none, for its outputs' shape."""
    first, end = rows
    for begin in range(first, max(end, first + 1), _BATCH):
        begin = min(begin, len(data) - 1)
        yield data.inputs[begin : max(begin + 1, min(begin + _BATCH, end))].to(device)


def _outputs(
    network: nn.Module, data: Tensors, rows: tuple[int, int], precision: Precision, device: str
) -> torch.Tensor:
    """Outputs [end - first, ...] in float32."""
    was_training = network.training
    network.eval()
    parts = []
    for inputs in chunks(data, rows, device):
        with precision.autocast():
            parts.append(network(inputs).float())
    network.train(was_training)
    return torch.cat(parts)[: rows[1] - rows[0]]

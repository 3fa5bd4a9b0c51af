"""What a training step takes beside forward and backward: clipping, the optimiser, batches and the loop."""

from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from cluster.operator_timing import TimedDevice, step
from cluster.reference_networks import class_loss
from trainers.batches import Tensors
from trainers.learner import Learner
from trainers.optimizer_states import OptimizerBytes
from trainers.optimizers import make_optimizer
from trainers.settings import Settings
from trainers.tasks.classification import Classification

TENSORS = ((2, 256), (2, 1 << 20), (24, 256), (24, 1 << 16), (96, 256), (96, 1 << 12))
"""Number and elements of the tensors that are updated."""
STEPS = 16
SIDE = 8


@dataclass(frozen=True, slots=True)
class Descent:
    """Rates of `trainers.parallelism.rates.DeviceRates` of the same names."""

    optimizer_bytes_per_second: float
    tensor_seconds: float
    step_seconds: float


def time_descent(device: TimedDevice, repeats: int = 7) -> Descent:
    """Measure updates of few and many, small and large tensors, and whole steps of a tiny network."""
    from scipy.optimize import nnls

    updates = [_update(count, size, device.device) for count, size in TENSORS]
    seconds: list[list[float]] = [[] for _ in updates]
    for _ in range(repeats):
        for known, update in zip(seconds, updates, strict=True):
            known.append(device.of(update))
    taken = np.array([median(known[1:]) for known in seconds])
    moved = OptimizerBytes.of(Settings().optimizer, Settings().momentum).moved
    columns = np.array([[1.0, count, count * size * moved] for count, size in TENSORS])
    (fixed, each, byte), _ = nnls(columns / taken[:, None], np.ones(len(taken)))
    loop = _loop_seconds(device, repeats)
    return Descent(1 / max(float(byte), 1e-15), float(each), max(loop - 2 * float(each), float(fixed)))


def _update(count: int, size: int, device: str) -> "_Update":
    weights = nn.ParameterList(torch.randn(size, device=device) for _ in range(count))
    for weight in weights:
        weight.grad = torch.randn(size, device=device)
    return _Update(weights, make_optimizer(weights, Settings()))


@dataclass
class _Update:
    weights: nn.ParameterList
    optimizer: torch.optim.Optimizer

    def __call__(self) -> None:
        """As the training loop does after a backward pass; gradients are kept for the next time."""
        clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()


def _loop_seconds(device: TimedDevice, repeats: int) -> float:
    """Seconds of a step of the product's loop beyond forward and backward, of a network of two small tensors."""
    network = nn.Linear(SIDE, SIDE).to(device.device)
    inputs = torch.randn(STEPS * SIDE, SIDE, device=device.device)
    targets = torch.zeros(len(inputs), dtype=torch.int64, device=device.device)
    learner = Learner(network, Settings(batch_size=SIDE), seed=0, epochs=repeats + 1, device=device.device)
    data, task = Tensors(inputs, targets), Classification()

    def steps() -> None:
        for _ in range(STEPS):
            step(network, inputs[:SIDE], class_loss, device)

    whole, bare = [], []
    for epoch in range(repeats):
        whole.append(device.of(partial(learner.train_epoch, data, task, epoch)) / STEPS)
        bare.append(device.of(steps) / STEPS)
    return median(whole[1:]) - median(bare[1:])

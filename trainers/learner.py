"""A network while it learns: optimiser, schedule, precision and gradients, on one rank or as one of several."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import nn
from torch.nn.functional import log_softmax
from torch.nn.utils import clip_grad_norm_

from trainers.batches import Batch, Tensors, batch_count, epoch_batches
from trainers.evaluation import evaluate
from trainers.failure import Diverged
from trainers.measurement import MeasuredStep
from trainers.optimizers import make_optimizer, restore
from trainers.precision import Precision, precision_for
from trainers.schedules import warm_up_cosine
from trainers.seeds import derived
from trainers.settings import Settings
from trainers.task import Task

_STEPS_BETWEEN_CHECKS = 64


@dataclass
class Learner:
    """One rank's part. ``epochs`` is the length of the schedule; ``network`` is on ``device`` already.

    ``step`` is the mean of the last epoch's steps but the first; None before, and where there is one alone.
    """

    network: nn.Module
    settings: Settings
    seed: int
    epochs: int
    device: str = "cpu"
    rank: int = 0
    ranks: int = 1
    optimizer: torch.optim.Optimizer = field(init=False)
    precision: Precision = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = make_optimizer(self.network, self.settings)
        self.precision = precision_for(self.settings.precision, self.device)
        self.step: MeasuredStep | None = None
        self._forward: nn.Module = self.network
        self._weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]

    @contextmanager
    def among_ranks(self, text: str) -> Iterator[None]:
        """Join the process group for a leg; ``text`` (the candidate) must be the same on all ranks."""
        if self.ranks > 1:
            from trainers.parallelism import data

            data.check_same(data.described(self.network), self._told(text), self.device)
            self._forward = data.apply(self.network, self.device)
        try:
            yield
        finally:
            self._forward = self.network  # the next leg has a process group of its own
            self.optimizer.zero_grad()

    def _told(self, text: str) -> str:
        """All that must be the same on all ranks."""
        return f"{text}; seed {self.seed}; {self.settings}"

    @property
    def replica(self) -> int:
        """Which of the ``replicas`` of the network, each of which gets a part of every batch, this rank is of."""
        return self.rank

    @property
    def replicas(self) -> int:
        """Number of replicas of the network."""
        return self.ranks

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole network."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def measure(self, held_out: Tensors, task: Task) -> dict[str, float]:
        """The task's metrics and ``loss`` over all of ``held_out``, on every rank."""
        return evaluate(self.network, held_out, task, self.precision, self.device, self.rank, self.ranks)

    def train_epoch(self, data: Tensors, task: Task, epoch: int) -> float:
        """Train on all of ``data`` once; return the mean loss. ``epoch`` counts from 0.

        Raises Diverged with the first step whose loss or gradient is not finite, at most 64 steps later.
        """
        torch.manual_seed(derived(self.seed, "noise", epoch, self.rank))  # dropout draws from torch's own state
        self.network.train()
        steps, first, total = batch_count(len(data), self.settings.batch_size), 0, 0.0
        sums: list[torch.Tensor] = []
        norms: list[torch.Tensor] = []
        steady = 0.0
        for number, batch in enumerate(self._batches(data, task, epoch)):
            self._set_rate(epoch * steps + number, steps)
            loss, norm = self._step(batch, task)
            sums.append(loss)
            norms.append(norm)
            if number == 0:  # it readies what the others find ready
                steady = self._now()
            if len(sums) == _STEPS_BETWEEN_CHECKS or number == steps - 1:
                total += self._checked(sums, norms, epoch * steps + first)
                first = number + 1
                sums, norms = [], []
        if steps > 1:
            self.step = MeasuredStep((self._now() - steady) / (steps - 1), len(data) / steps)
        self._end_epoch()
        return total / len(data)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds; ``model`` is the network's state_dict."""
        scaler = self.precision.scaler
        return {
            "model": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "optimizer_name": self.settings.optimizer,
            "scaler": scaler.state_dict() if scaler else {},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint's state; moments of another kind of optimiser are left behind."""
        self.network.load_state_dict(state["model"])
        if state["optimizer_name"] == self.settings.optimizer:
            restore(self.optimizer, state["optimizer"])
        if self.precision.scaler and state["scaler"]:
            self.precision.scaler.load_state_dict(state["scaler"])

    def _batches(self, data: Tensors, task: Task, epoch: int) -> Iterator[Batch]:
        return epoch_batches(
            data,
            self.settings.batch_size,
            seed=self.seed,
            epoch=epoch,
            augment=task.augment,
            device=self.device,
            rank=self.replica,
            ranks=self.replicas,
        )

    def _now(self) -> float:
        """Seconds, when the device has done all that it was asked for."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        return perf_counter()

    def _end_epoch(self) -> None:
        if self.ranks > 1:
            from trainers.parallelism.data import share_buffers

            share_buffers(self.network)

    def _set_rate(self, step: int, steps: int) -> None:
        warm_up = round(self.settings.warm_up_epochs * steps)
        rate = self.settings.learning_rate * warm_up_cosine(step, self.epochs * steps, warm_up)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _step(self, batch: Batch, task: Task) -> tuple[torch.Tensor, torch.Tensor]:
        """One optimiser step; return the sum of the own samples' losses, and the gradient's norm before clipping."""
        self.optimizer.zero_grad()
        sum_of_losses = self._accumulate(batch, task)
        return sum_of_losses, self._descend()

    def _accumulate(self, batch: Batch, task: Task) -> torch.Tensor:
        """Compute the gradients of the mean loss over the whole batch; return the sum of the own samples' losses."""
        own = len(batch.inputs)
        if own:
            loss = self._loss(batch, task)
        else:
            loss = self._idle_loss(batch)
        sum_of_losses = loss.detach() * own
        if self.ranks > 1:
            from trainers.parallelism.data import gradient_weight

            loss = loss * gradient_weight(own, batch.size, self.ranks)
        scaler = self.precision.scaler
        (scaler.scale(loss) if scaler else loss).backward()  # type: ignore[no-untyped-call]
        return sum_of_losses

    def _descend(self) -> torch.Tensor:
        scaler = self.precision.scaler
        if scaler is None:
            norm = self._clip()
            self.optimizer.step()
            return norm
        scaler.unscale_(self.optimizer)
        self._clip()
        scaler.step(self.optimizer)
        scaler.update()
        return torch.zeros((), device=self.device)  # an overflow is ordinary here: the scaler leaves the step out

    def _clip(self) -> torch.Tensor:
        """Clip the gradient of the whole network; return its norm before."""
        return clip_grad_norm_(self._weights, self.settings.gradient_norm)

    def _loss(self, batch: Batch, task: Task) -> torch.Tensor:
        with self.precision.autocast():
            outputs = self._forward(batch.inputs)
        return self._loss_of(outputs, batch.targets, task)

    def _loss_of(self, outputs: torch.Tensor, targets: torch.Tensor, task: Task) -> torch.Tensor:
        """The mean loss of samples."""
        outputs = outputs.float()
        loss = task.loss(outputs, targets)
        smoothing = self.settings.label_smoothing
        if smoothing:
            loss = (1 - smoothing) * loss + smoothing * _uniform_loss(outputs, targets)
        return loss

    def _idle_loss(self, batch: Batch) -> torch.Tensor:
        from trainers.parallelism.data import idle

        with idle(self.network), self.precision.autocast():
            outputs: torch.Tensor = self._forward(batch.stand_in)
        return outputs.float().sum() * 0.0

    def _checked(self, sums: list[torch.Tensor], norms: list[torch.Tensor], first: int) -> float:
        """Sum of the losses of all ranks; raise Diverged where a step's is not finite."""
        losses = torch.stack(sums).double()
        if self.ranks > 1:
            from trainers.parallelism.data import sum_over_ranks

            sum_over_ranks(losses)
        finite = losses.isfinite() & torch.stack(norms).isfinite()
        if not finite.all():
            step = int((~finite).int().argmax().item())
            raise Diverged(first + step, losses[step].item())
        return float(losses.sum())


def _uniform_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy against the uniform distribution over classes (Szegedy et al. 2016, section 7)."""
    if targets.is_floating_point() or outputs.ndim != targets.ndim + 1:
        raise ValueError(
            f"label_smoothing: outputs {list(outputs.shape)} and targets {list(targets.shape)} are no classification; "
            "leave label_smoothing out for this task"
        )
    return -log_softmax(outputs, 1).mean()

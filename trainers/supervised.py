"""The built-in trainer: supervised learning by minibatches, one loop for one process and for N ranks.

Minibatch SGD with a warm-up and a cosine schedule over the study's largest fidelity. All draws (weights, order,
augmentation, dropout) are functions of the trial's seed and the epoch, so a leg that goes on from a checkpoint equals
the unbroken run, and no random state need be kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch

from search_spaces import Candidate, Infeasible, broken
from trainers.batches import Tensors, tensors
from trainers.context import Context
from trainers.learner import Learner
from trainers.measurement import Fidelity
from trainers.settings import Settings
from trainers.traced_loss import traced_loss


class Supervised:
    """Trains with ``context.recipe.settings``; the fidelity's unit is the epoch.

    Reports the task's metrics as ``val_NAME`` (``test_NAME`` when retraining), ``train_loss`` and ``parameters``.
    Keeps the data on the device, and the last trial's learner for that trial's next leg.
    """

    axes = ("data", "pipeline")

    def __init__(self) -> None:
        self._live: tuple[object, Learner] | None = None
        self._splits: tuple[str, Tensors, Tensors] | None = None

    def __call__(self, candidate: Candidate, context: Context) -> None:
        """Train; raise Infeasible (a bound is broken), Diverged, or ValueError (settings, fractional epochs)."""
        settings = Settings.parse(context.recipe.settings, candidate.hyperparameters)
        start, until, epochs = (_whole(value) for value in (context.start, context.until, context.maximum))
        with _deterministic(context.device), _own_randomness(context.device):
            learner = self._take_live(candidate, context) or _new_learner(candidate, context, settings, epochs)
            train, held_out = self._data(context)
            with learner.among_ranks(str(candidate)):
                for epoch in range(start, until):
                    loss = learner.train_epoch(train, context.task, epoch)
                    metrics = _measure(learner, held_out, context)
                    metrics |= {"train_loss": loss, "parameters": learner.parameters}
                    self._live = (_identity(candidate, context, epoch + 1), learner)
                    context.report(epoch + 1, metrics, state=learner.state, step=learner.step)
                    self._live = self._live if epoch + 1 == until else None

    def _take_live(self, candidate: Candidate, context: Context) -> Learner | None:
        """The learner of the leg before, where this leg goes on from just there; else it is let go."""
        live, self._live = self._live, None
        own = context.checkpoint and context.checkpoints and context.checkpoint.path.parent == context.checkpoints.path
        return live[1] if live and own and live[0] == _identity(candidate, context, context.start) else None

    def _data(self, context: Context) -> tuple[Tensors, Tensors]:
        """What is learnt from and what is measured on, kept on the device for the next trial."""
        if self._splits is None or self._splits[0] != context.device:
            data, dtype = context.data, context.task.signature.input.dtype
            with context.during("load"):
                self._splits = (
                    context.device,
                    tensors(data.train, dtype, context.device),
                    tensors(data.validation, dtype, context.device),
                )
        return self._splits[1], self._splits[2]


def _new_learner(candidate: Candidate, context: Context, settings: Settings, epochs: int) -> Learner:
    """Build, judge and place the network; load the checkpoint where there is one."""
    network = context.build(candidate)
    reasons = broken(context.recipe.bounds, {"parameters": _parameters(network)})
    if reasons:
        raise Infeasible("; ".join(reasons))
    learner = (_stage_of if context.plan.pipeline > 1 else _replica_of)(network, context, settings, epochs)
    if context.checkpoint:
        with context.during("load"):
            learner.load(context.checkpoint.state)
    return learner


def _replica_of(network: torch.nn.Module, context: Context, settings: Settings, epochs: int) -> Learner:
    """The whole network on this rank."""
    if settings.batch_norm == "global" and context.world_size > 1:
        from trainers.parallelism.batch_norm import make_global

        network = make_global(network)
    return Learner(
        network.to(context.device),
        settings,
        seed=context.seed,
        epochs=epochs,
        device=context.device,
        rank=context.rank,
        ranks=context.world_size,
    )


def _stage_of(network: torch.nn.Module, context: Context, settings: Settings, epochs: int) -> Learner:
    """A stage of the network on this rank; raise Infeasible where it cannot be cut into as many."""
    from trainers.parallelism.chain import CutError
    from trainers.staged_learner import staged

    try:
        return staged(
            network,
            context.task.signature,
            settings,
            plan=context.plan,
            rank=context.rank,
            device=context.device,
            seed=context.seed,
            epochs=epochs,
            loss=traced_loss(context.task, lambda: context.data),
        )
    except CutError as error:
        raise Infeasible(str(error)) from error


def _measure(learner: Learner, held_out: Tensors, context: Context) -> dict[str, float]:
    prefix = "test" if context.recipe.test else "val"
    return {f"{prefix}_{name}": value for name, value in learner.measure(held_out, context.task).items()}


def _identity(candidate: Candidate, context: Context, epoch: Fidelity) -> object:
    """All that a kept learner depends on."""
    place = (context.device, context.rank, context.world_size, context.plan)
    return (context.recipe.folder, context.trial, candidate, context.seed, place, epoch)


def _parameters(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _whole(fidelity: Fidelity) -> int:
    if fidelity != int(fidelity):
        raise ValueError(
            f"fidelity = {fidelity}: the supervised trainer counts whole epochs; choose [fidelity] min, max and eta "
            "so that every rung is an integer"
        )
    return int(fidelity)


@contextmanager
def _deterministic(device: str) -> Iterator[None]:
    """Deterministic operators on the CPU, where they cost next to nothing; the process is left as it was."""
    if torch.device(device).type != "cpu":
        yield
        return
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    memory = cast(Any, torch.utils.deterministic)
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        memory.fill_uninitialized_memory = filled


@contextmanager
def _own_randomness(device: str) -> Iterator[None]:
    """Leave torch's random state as it was."""
    place = torch.device(device)
    devices = [place.index or 0] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield

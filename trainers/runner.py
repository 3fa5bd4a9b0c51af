"""Runs the legs of one study in one process: the last step before a trainer, the same under every executor."""

import errno
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import cast

from search_spaces import Candidate, Infeasible
from trainers.checkpoint import Checkpoint, CheckpointFolder, StorageError
from trainers.context import Context, Halted, Recipe, Trainer
from trainers.failure import Diverged, Failure, FailureKind
from trainers.materials import Materials
from trainers.measurement import Fidelity, Measurement
from trainers.parallelism.plan import Plan
from trainers.registries import TRAINERS
from trainers.replicates import mean_of, replicate_seed

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Runner:
    """Space, task, data and trainer of ``recipe`` are made on first use and kept for all its trials."""

    recipe: Recipe

    @cached_property
    def materials(self) -> Materials:
        """Space, task and data."""
        return Materials(self.recipe.space, self.recipe.task, self.recipe.test)

    @cached_property
    def trainer(self) -> Trainer:
        """The trainer, which may keep the last trial's model for its next leg."""
        return cast(Trainer, self.recipe.trainer.make(TRAINERS))

    def checkpoints(self, trial: int, replicate: int = 0) -> CheckpointFolder:
        """Where the checkpoints of a replicate of ``trial`` are; those of the first are the trial's own."""
        return CheckpointFolder(checkpoint_folder(self.recipe.folder, trial, replicate))

    def run(
        self,
        candidate: Candidate,
        *,
        trial: int,
        until: Fidelity,
        seed: int,
        emit: Callable[[Measurement], None],
        plan: Plan = Plan(),  # noqa: B008 - frozen
        attempt: int = 0,
        source: tuple[int, Fidelity] | None = None,
        rank: int = 0,
        world_size: int = 1,
        device: str = "cpu",
        halted: Callable[[], bool] = lambda: False,
        start: Fidelity = 0,
        virtual: bool = False,
        reseed: Callable[[int], None] = lambda seed: None,
    ) -> Failure | None:
        """Run one rank of a leg to ``until``, replicate after replicate; return how it failed, or None.

        The leg goes on from the trial's newest checkpoint up to ``until``, else from that of ``source`` (trial,
        fidelity), else from 0. Where the checkpoint stands at ``until`` its measurement is emitted and nothing
        trained. A ``virtual`` leg has no checkpoints and no clock: it goes on from ``start``.

        Several replicates are measured as one: their means are emitted at ``until``, before it the first one's
        progress. One that fails fails the leg; those before it have their checkpoints and are not trained again.
        ``reseed`` is called before each training, with its seed. Of all exceptions only KeyboardInterrupt passes.
        """
        measured: list[Measurement] = []
        replicates = self.recipe.replicates

        def gather(measurement: Measurement) -> None:
            if measurement.fidelity == until:
                measured.append(measurement)
            elif not measured:
                emit(measurement)

        def context(replicate: int, its_seed: int) -> Context:
            return Context(
                recipe=self.recipe,
                trial=trial,
                until=until,
                seed=its_seed,
                emit=emit if replicates == 1 else gather,
                checkpoint=None if virtual else self._start(trial, replicate, until, source, world_size, device),
                checkpoints=None if virtual else self.checkpoints(trial, replicate),
                attempt=attempt,
                plan=plan,
                rank=rank,
                world_size=world_size,
                device=device,
                halted=halted,
                clock=None if virtual else monotonic,
                begin=start if virtual else 0,
                materials=self.materials,
                replicate=replicate,
            )

        for replicate in range(replicates):
            its_seed = replicate_seed(seed, replicate)
            reseed(its_seed)
            failure = self._attempt(candidate, partial(context, replicate, its_seed))
            if failure is not None:
                return failure
        if measured:
            emit(mean_of(measured))
        return None

    def _attempt(self, candidate: Candidate, make_context: Callable[[], Context]) -> Failure | None:
        """Train one replicate, unless its checkpoint is at the leg's end already."""
        context = None
        try:
            context = make_context()
            done = context.checkpoint
            if done is None or done.fidelity != context.until:
                self._train(candidate, context)
            elif context.rank == 0:
                context.emit(done.measurement)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure_of(error, context.stage if context else "load")
        return None

    def _checkpoint(
        self, trial: int, replicate: int, until: Fidelity, source: tuple[int, Fidelity] | None
    ) -> Checkpoint | None:
        """Return the trial's own newest checkpoint up to ``until``, else the source's; make the trial's folder."""
        if not self.recipe.folder.is_dir():
            raise StorageError(f"{self.recipe.folder}: the study's folder is gone, or this machine does not see it")
        own = self.checkpoints(trial, replicate)
        try:
            own.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{own.path.parent}: the folder cannot be made ({error.strerror})") from error
        found = own.newest(until)
        if found or source is None:
            return found
        number, fidelity = source
        if fidelity >= until:
            raise ValueError(f"source = {source}: trial {trial} cannot go on from there to {until}, which is not above")
        return self.checkpoints(number, replicate).newest(fidelity)

    def _start(
        self,
        trial: int,
        replicate: int,
        until: Fidelity,
        source: tuple[int, Fidelity] | None,
        world_size: int,
        device: str,
    ) -> Checkpoint | None:
        """Return what the leg goes on from; raise StorageError where the ranks do not see the same."""
        if world_size == 1:
            return self._checkpoint(trial, replicate, until, source)
        from trainers.parallelism.collectives import differing_ranks, from_rank_0

        from_rank_0(0, device)  # waits for rank 0, which may still write the leg before
        found = self._checkpoint(trial, replicate, until, source)
        start = found.fidelity if found else 0
        others = differing_ranks(str(float(start)), device)
        if others:
            raise StorageError(
                f"ranks {others} do not see the checkpoint that rank 0 goes on from (here: {start}); "
                f"{self.recipe.folder} must be on storage that all nodes share"
            )
        return found

    def _train(self, candidate: Candidate, context: Context) -> None:
        with context.during("start"):
            trainer = self.trainer
        if not callable(trainer):
            raise ValueError(
                f"trainer = {self.recipe.trainer.name!r} is a {type(trainer).__name__}; "
                "a trainer is a function train(candidate, context), or a class whose objects are called so"
            )
        trainer(candidate, context)
        if context.reached != context.until:
            raise RuntimeError(
                f"the trainer returned without having reported fidelity {context.until} (its last report: "
                f"{context.reached}); call context.report(context.until, metrics) before it returns"
            )


def checkpoint_folder(study: Path, trial: int, replicate: int = 0) -> Path:
    """The folder of a replicate's checkpoints; its parent holds the learning curve."""
    folder = study / "trials" / f"{trial:05d}"
    return (folder / f"replicate-{replicate}" if replicate else folder) / "checkpoints"


def failure_of(error: BaseException, stage: str) -> Failure:
    """Sort an exception into a kind of failure (DESIGN, "Outcomes")."""
    kind = _kind(error)
    if kind is FailureKind.STORAGE:
        stage = "checkpoint"
    return Failure.of(error, stage, kind)


def _kind(error: BaseException) -> FailureKind:
    if isinstance(error, Halted):
        return FailureKind.CANCELLED
    if isinstance(error, Infeasible):
        return FailureKind.INFEASIBLE
    if isinstance(error, Diverged):
        return FailureKind.DIVERGED
    if isinstance(error, StorageError) or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return FailureKind.STORAGE
    if isinstance(error, MemoryError) or _torch_out_of_memory(error):
        return FailureKind.OUT_OF_MEMORY
    return FailureKind.ERROR


def _torch_out_of_memory(error: BaseException) -> bool:
    """Whether torch ran out of a device's memory, or of the host's, which it tells by text only."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(error, RuntimeError):
        return False
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error)

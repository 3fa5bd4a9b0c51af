"""A network of which each rank learns one stage of a pipeline; several pipelines share each batch where data > 1."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed import ProcessGroup
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from search_spaces import Signature
from search_spaces.tracing import Loss
from trainers.batches import Batch, Tensors, share
from trainers.evaluation import chunks, judged
from trainers.learner import Learner
from trainers.parallelism import pipeline
from trainers.parallelism.borders import Borders
from trainers.parallelism.collectives import from_rank, gather_rows
from trainers.parallelism.data import check_same, share_buffers
from trainers.parallelism.one_forward_one_backward import Pipeline
from trainers.parallelism.plan import Plan
from trainers.parallelism.resharding import Whole, to_rank_0
from trainers.settings import Settings
from trainers.task import Task


@dataclass(kw_only=True)
class StagedLearner(Learner):
    """One rank's part: ``network`` is its stage. Ranks of one stage are neighbours: rank = stage * data + replica."""

    plan: Plan
    whole: Whole
    _pipeline: Pipeline = field(init=False)
    _group: ProcessGroup | None = field(init=False, default=None)
    _learning: list[torch.Tensor] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision.scaler:
            raise ValueError(
                'precision = "float16": a pipeline trains in float32 or bfloat16, for its stages would scale their '
                "gradients apart; set one of them, or a plan without pipeline"
            )

    @property
    def replica(self) -> int:
        """Which of the pipelines this rank is of."""
        return self.rank % self.plan.data

    @property
    def replicas(self) -> int:
        """Number of pipelines."""
        return self.plan.data

    @property
    def stage(self) -> int:
        """Which stage this rank holds."""
        return self.rank // self.plan.data

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole network."""
        return self.whole.parameters

    @contextmanager
    def among_ranks(self, text: str) -> Iterator[None]:
        """Join the process group for a leg; ``text`` (the candidate) must be the same on all ranks."""
        check_same(self.whole.described, f"{self._told(text)}; plan {self.plan}", self.device)
        self._group, self._learning = self._stage_group(), []
        before = self.rank - self.replicas if self.stage > 0 else None
        after = self.rank + self.replicas if self.stage < self.plan.pipeline - 1 else None
        borders = Borders(before, after, self.device)
        self._pipeline = Pipeline(self.network, self.stage, self.plan.pipeline, borders, self.precision.autocast)
        try:
            yield
        finally:
            del self._pipeline  # the next leg has a process group of its own
            self._group = None
            self.optimizer.zero_grad()

    def measure(self, held_out: Tensors, task: Task) -> dict[str, float]:
        """The task's metrics and ``loss`` over all of ``held_out``, on every rank."""
        rows = [share(len(held_out), replica, self.replicas) for replica in range(self.replicas)]
        was_training = self.network.training
        self.network.eval()
        parts = self._pipeline.outputs(list(chunks(held_out, rows[self.replica], self.device)))
        self.network.train(was_training)
        metrics: dict[str, float] = {}
        if parts:
            counts = [end - first for first, end in rows]
            outputs = torch.cat([part.float() for part in parts])[: counts[self.replica]]
            if self.replicas > 1:
                outputs = gather_rows(outputs, counts, self._group)
            metrics = judged(outputs, held_out, task, self.device)
        last: dict[str, float] = from_rank(self.ranks - self.replicas, metrics, self.device)
        return last

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds, of the whole network; on rank 0, and nothing on others."""
        own = self.whole.own_state(self.network, self.optimizer)
        parts = to_rank_0(own, self.rank, range(self.replicas, self.ranks, self.replicas), self.device)
        if not parts:
            return {}
        return {**self.whole.joined(parts), "optimizer_name": self.settings.optimizer, "scaler": {}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint's state, of whichever plan; moments of another kind of optimiser are left behind."""
        same = state["optimizer_name"] == self.settings.optimizer
        self.whole.load(state, self.network, self.optimizer, same)

    def _stage_group(self) -> ProcessGroup | None:
        """The group of the ranks that hold this stage; None where it is this one alone."""
        own = None
        for stage in range(self.plan.pipeline if self.replicas > 1 else 0):
            first = stage * self.replicas
            group = distributed.new_group(list(range(first, first + self.replicas)))  # by all ranks, in one order
            own = group if stage == self.stage else own
        return own

    def _accumulate(self, batch: Batch, task: Task) -> torch.Tensor:
        own = len(batch.inputs)
        count = min(self.plan.micro_batches, own)
        rows = [slice(*share(own, number, count)) for number in range(count)]
        sums = [torch.zeros((), device=self.device)]

        def loss(number: int, outputs: torch.Tensor) -> torch.Tensor:
            targets = batch.targets[rows[number]]
            mean = self._loss_of(outputs, targets, task)
            sums.append(mean.detach() * len(targets))
            return mean * (len(targets) / batch.size)

        self._pipeline.accumulate([batch.inputs[part] for part in rows], loss)
        if self._group is not None:
            self._add_up(self._group)
        return torch.stack(sums).sum()

    def _add_up(self, group: ProcessGroup) -> None:
        """Sum the gradients of all replicas of the stage; a replica without samples adds nothing."""
        if not self._learning:
            reached = torch.tensor([float(weight.grad is not None) for weight in self._weights], device=self.device)
            distributed.all_reduce(reached, group=group)
            self._learning = [weight for weight, by in zip(self._weights, reached.tolist(), strict=True) if by]
        gradients = []
        for weight in self._learning:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            gradients.append(weight.grad)
        together = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(together, group=group)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, total in zip(gradients, torch.split(together, sizes), strict=True):
            gradient.copy_(total.view_as(gradient))

    def _clip(self) -> torch.Tensor:
        own = get_total_norm([weight.grad for weight in self._weights if weight.grad is not None]).to(self.device)
        square = own.double().square() / self.replicas
        distributed.all_reduce(square)
        norm = square.sqrt().float()
        clip_grads_with_norm_(self._weights, self.settings.gradient_norm, norm)
        return norm

    def _end_epoch(self) -> None:
        if self._group is not None:
            share_buffers(self.network, self._group)


def staged(
    network: nn.Module,
    signature: Signature,
    settings: Settings,
    *,
    plan: Plan,
    rank: int,
    device: str,
    loss: Loss,
    **rest: Any,
) -> StagedLearner:
    """Cut ``network``, which lies on the CPU, and take this rank's stage to its ``device``.

    Raises ``partition.CutError`` on all ranks alike, ValueError for settings that no pipeline has.
    """
    if settings.batch_norm == "global":
        raise ValueError(
            'batch_norm = "global": stages of a pipeline see one micro-batch at a time; set "local", or a plan '
            "without pipeline"
        )
    samples = settings.batch_size // (plan.data * plan.micro_batches)
    stages = pipeline.apply(network, plan, signature, samples, loss)
    own = stages[rank // plan.data]
    whole = Whole.of(network, stages, own, settings)
    return StagedLearner(
        own.to(device),
        settings,
        plan=plan,
        whole=whole,
        rank=rank,
        ranks=plan.width,
        device=device,
        **rest,
    )

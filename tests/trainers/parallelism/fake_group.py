"""What a process sends in a step that torch really runs, on a process group that only pretends to send.

torch's CommDebugMode sees every collective; from what each is given follow the bytes on a ring. Nothing here knows of
the product's prices.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from unittest.mock import patch

import torch
from torch import Tensor, distributed, fx, nn
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed import DeviceMesh, ProcessGroup
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.debug import CommDebugMode, _clear_sharding_prop_cache
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trainers import staged_learner
from trainers.batches import Batch
from trainers.parallelism import data
from trainers.parallelism.borders import Borders
from trainers.parallelism.one_forward_one_backward import Pipeline
from trainers.parallelism.plan import Plan
from trainers.parallelism.resharding import Whole
from trainers.settings import Settings
from trainers.staged_learner import StagedLearner

Group = tuple[int, ...]
"""Ranks that exchange."""

_WAITING = ("wait_tensor", "_wrap_tensor_autograd", "recv_", "monitored_barrier_")


@contextmanager
def fake_group(ranks: int, rank: int = 0) -> Iterator[None]:
    """Within this context the process is ``rank`` of ``ranks``; what it receives is whatever lay in memory."""
    _clear_sharding_prop_cache()  # it keeps groups of the world before
    distributed.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        distributed.destroy_process_group()


@dataclass(frozen=True)
class Message:
    """One exchange of a tensor that is whole on all ranks, or together makes one of ``bytes``."""

    kind: str
    group: Group
    bytes: int

    @property
    def sent(self) -> float:
        """Bytes that a process sends: on a ring, each step passes 1/p of the tensor on."""
        p = len(self.group)
        steps = {"send": p, "all_gather": p - 1, "reduce_scatter": p - 1, "all_reduce": 2 * (p - 1)}[self.kind]
        return self.bytes * steps / p


class Traffic(CommDebugMode):
    """Counts as torch does, and keeps the ``messages``; all is of one module, for hooks fail where a pass is cut."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self.advanced_module_tracker = SimpleNamespace(
            name="Global", is_bw=False, activation_checkpointing=False, module_parents_dict={"Global": ()}
        )

    def __enter__(self) -> "Traffic":
        return TorchDispatchMode.__enter__(self)

    def __exit__(self, *error: object) -> None:
        TorchDispatchMode.__exit__(self, *error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if DTensor not in types and func.namespace in ("c10d", "_c10d_functional", "c10d_functional"):
            self._note(func._schema.name.partition("::")[2], [*args, *(kwargs or {}).values()])
        return super().__torch_dispatch__(func, types, args, kwargs)

    def sent(self) -> dict[Group, float]:
        """Bytes that the process sends in each group; each collective that torch counted is among them."""
        assert self.get_total_counts() == sum(message.kind != "send" for message in self.messages)
        sent: dict[Group, float] = defaultdict(float)
        for message in self.messages:
            sent[message.group] += message.sent
        return dict(sent)

    def _note(self, name: str, arguments: Sequence[object]) -> None:
        if name in _WAITING:
            return
        group = next(filter(None, map(_group, arguments)))
        tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, Tensor)]
        sizes = [tensor.nbytes for tensor in tensors]
        match name:
            case "allreduce_" | "all_reduce":
                self._add("all_reduce", group, sum(sizes))
            case "send":
                self._add("send", group, sum(sizes))
            case "_allgather_base_" | "_reduce_scatter_base_":
                self._add("all_gather" if "gather" in name else "reduce_scatter", group, max(sizes))
            case "all_gather_into_tensor":
                self._add("all_gather", group, sum(sizes) * len(group))
            case "reduce_scatter_tensor":
                self._add("reduce_scatter", group, sum(sizes))
            case _:
                raise AssertionError(f"{name}: nobody said what a process sends of it")

    def _add(self, kind: str, group: Group, size: int) -> None:
        self.messages.append(Message(kind, group, size))


def _group(argument: object) -> Group | None:
    if isinstance(argument, str):
        try:
            found = _resolve_process_group(argument)
        except RuntimeError:
            return None  # a reduction, "sum"
        return tuple(distributed.get_process_group_ranks(found))
    if isinstance(argument, torch.ScriptObject) and "ProcessGroup" in str(argument._type()):
        return tuple(distributed.get_process_group_ranks(ProcessGroup.unbox(argument)))
    return None


def seen(step: Callable[[], None]) -> dict[Group, float]:
    """Bytes that the process sends in a ``step``, in each group."""
    with Traffic() as traffic:
        step()
    return traffic.sent()


def replicated(network: nn.Module, mesh: DeviceMesh | None = None) -> nn.Module:
    """What trials train on the data axis, over all ranks; over those of a ``mesh`` torch's own.

    Its first pass, in which ranks agree on what gets gradients, is no step like the others.
    """
    if mesh is None:
        replica = data.apply(network, "cpu")
    else:
        replica = nn.parallel.DistributedDataParallel(
            network, device_mesh=mesh, forward_sync_buffers=False, static_graph=True
        )
    # torch's own all-reduce asks what the group has received
    replica.register_comm_hook(replica.process_group, _all_reduced)
    return replica


def _all_reduced(group: ProcessGroup, bucket: distributed.GradBucket) -> torch.futures.Future[Tensor]:
    distributed.all_reduce(bucket.buffer(), group=group)
    result: torch.futures.Future[Tensor] = torch.futures.Future()
    result.set_result(bucket.buffer())
    return result


def sharded(network: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """ZeRO-3: weights are gathered for each pass and then dropped; of two dims of a ``mesh`` the first replicates.

    FSDP knows no weights that lie in memory in an order of their own.
    """
    fully_shard(network.to(memory_format=torch.contiguous_format), mesh=mesh, reshard_after_forward=True)
    return network


def tensor_parallel(
    network: nn.Module, pairs: Sequence[tuple[Sequence[str], str]], alone: Sequence[str], mesh: DeviceMesh
) -> nn.Module:
    """Layers by their paths: ``pairs`` of those split by columns and the one split by rows, others ``alone``.

    Columns that read one tensor are all layers of their module that do, so that gradients of it are summed once.
    """
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel(output_layouts=Replicate()) for name in alone}
    for columns, rows in pairs:
        plan |= {name: ColwiseParallel() for name in columns}
        plan[rows] = RowwiseParallel()
        if len(columns) > 1:
            plan[rows.rpartition(".")[0]] = PrepareModuleInput(
                input_layouts=Replicate(), desired_input_layouts=Replicate(), use_local_output=False
            )
    for module in network.modules():
        if isinstance(getattr(module, "heads", None), int):
            module.heads //= mesh.size()
    return parallelize_module(network, mesh, plan)


@contextmanager
def stage_of(ranks: int, rank: int, looks: list[object]) -> Iterator[None]:
    """A fake group in which a stage hears of its tensors' ``looks`` what the stage before it told."""

    def hear(told: list[object], *_: object, **__: object) -> None:
        told[0] = looks.pop(0)

    with (
        fake_group(ranks, rank),
        patch.object(distributed, "send_object_list", lambda told, *_, **__: looks.extend(told)),
        patch.object(distributed, "recv_object_list", hear),
    ):
        yield


def piped(network: nn.Module, parts: Sequence[fx.GraphModule], plan: Plan, inputs: Tensor) -> list[dict[Group, float]]:
    """What a trial's first replica of each stage sends in a step, for its share ``inputs`` of the batch."""
    looks: list[object] = []
    batch = Batch(inputs, torch.zeros(len(inputs)), len(inputs) * plan.data, inputs[:1])
    task = SimpleNamespace(loss=lambda outputs, targets: outputs.square().mean())
    sent = []
    for stage, own in enumerate(parts):
        rank = stage * plan.data
        with stage_of(plan.width, rank, looks), patch.object(staged_learner, "check_same"):
            whole = Whole.of(network, parts, own, Settings())
            learner = StagedLearner(own, Settings(), 0, 1, rank=rank, ranks=plan.width, plan=plan, whole=whole)
            with learner.among_ranks(""):
                if plan.data > 1:
                    learner._accumulate(batch, task)  # in which ranks agree on what gets gradients
                    learner.optimizer.zero_grad()
                sent.append(seen(lambda: learner._accumulate(batch, task)))
    return sent


def piped_in_parts(
    parts: Sequence[fx.GraphModule],
    layers: Sequence[tuple[Sequence[tuple[Sequence[str], str]], Sequence[str]]],
    plan: Plan,
    inputs: Tensor,
) -> list[dict[Group, float]]:
    """What the first process of each stage sends where the ``layers`` of each (pairs, and alone) are divided."""
    looks: list[object] = []
    sent = []
    for stage, (own, (pairs, alone)) in enumerate(zip(parts, layers, strict=True)):
        rank = stage * plan.tensor
        before = rank - plan.tensor if stage else None
        after = rank + plan.tensor if stage < plan.pipeline - 1 else None
        with stage_of(plan.width, rank, looks):
            mesh = init_device_mesh("cpu", (plan.pipeline, plan.tensor), mesh_dim_names=("pipeline", "tensor"))
            divided = tensor_parallel(own, pairs, alone, mesh["tensor"])
            pipeline = Pipeline(divided, stage, plan.pipeline, Borders(before, after, "cpu"))
            micro_batches = inputs.chunk(plan.micro_batches)
            sent.append(seen(lambda: pipeline.accumulate(micro_batches, lambda _, outputs: outputs.square().mean())))
    return sent

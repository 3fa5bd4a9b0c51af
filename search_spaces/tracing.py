"""The operators of one training step of any network, counted on the meta device: real forward, real backward.

Nothing is assumed of the backward pass: autograd runs it, and what it runs is recorded.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._pytree import tree_leaves

from search_spaces.fused_attention import fused_attention
from search_spaces.garbage_collection import collection_paused
from search_spaces.meta_results import look, make
from search_spaces.module_paths import ModulePaths
from search_spaces.operator_graph import Operator, OperatorGraph, Phase, Role, Storage, Value, Weight
from search_spaces.signature import Signature
from search_spaces.trace_recorder import Recorder

Loss = Callable[[Any], Tensor]
"""From a network's outputs to a scalar; what it compares them with it makes on the outputs' device."""


class TraceError(Exception):
    """A network could not be followed without data, for the reason in ``original``; run for real, it may be sound."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(f"tracing on the meta device failed ({type(original).__name__}: {original})")
        self.original = original


def class_loss(outputs: Any) -> Tensor:
    """Cross-entropy over the last dim, the mean over others; of all floating tensors in ``outputs``, the sum."""
    floating = [output for output in tree_leaves(outputs) if isinstance(output, Tensor) and output.is_floating_point()]
    if not floating:
        raise TypeError(
            f"the network returns {type(outputs).__name__} without a floating tensor: it needs a loss of its own"
        )
    losses = [_cross_entropy(output) for output in floating]
    return losses[0] if len(losses) == 1 else torch.stack(losses).sum()


@collection_paused()
def trace(
    network: nn.Module, inputs: Signature | Sequence[Tensor], batch: int, loss: Loss = class_loss
) -> OperatorGraph:
    """Operators of forward, ``loss`` and backward in training mode, without the optimizer.

    ``inputs`` are the network's arguments for ``batch`` samples, or the signature that says how its one input looks.
    The network is left as it was; one whose parameters lie on a device is followed with others on the meta device.
    Attention is fused where a CPU would fuse it.

    Raises `TraceError` where anything in it fails, say because it asks for a value, which no tensor has here.
    """
    loaded = len(sys.modules)
    graph = _traced(network, inputs, batch, loss)
    if len(sys.modules) == loaded:
        return graph
    return _traced(network, inputs, batch, loss)  # modules that kernels load hold frames for good, thus their tensors


def _traced(network: nn.Module, inputs: Signature | Sequence[Tensor], batch: int, loss: Loss) -> OperatorGraph:
    paths = ModulePaths(network)
    recorder = Recorder(paths)
    try:
        with torch.enable_grad(), _training(network, paths.modules):
            followed = _OnMeta(network, paths.modules)
            forward_calls = _step(followed, _arguments(inputs, batch), loss, recorder, paths)
    except (Exception, SystemExit) as error:
        raise TraceError(error) from error
    parameters = sum(weight.numel() for weight in followed.weights)
    operators, storages = _operators(recorder, forward_calls), _storages(recorder, forward_calls)
    weights = tuple(Weight(read.elements, tuple(read.readers), read.trained) for read in recorder.weights.values())
    values = tuple(Value(read.source, read.bytes, tuple(read.readers)) for read in recorder.values.values())
    recorder.lives.forget()
    return OperatorGraph(operators, batch, parameters, storages, tuple(sorted(recorder.unknown)), weights, values)


class _OnMeta:
    """A network with its parameters and buffers on the meta device, where they lay or beside those of a device."""

    def __init__(self, network: nn.Module, modules: Iterable[nn.Module]) -> None:
        self.network = network
        self.weights = _distinct(module._parameters for module in modules)
        self.buffers = _distinct(module._buffers for module in modules)
        self._twins: dict[str, Tensor] | None = None
        if not all(tensor.is_meta for tensor in (*self.weights, *self.buffers)):
            weights = {
                name: nn.Parameter(make(look(given)), given.requires_grad) for name, given in network.named_parameters()
            }
            buffers = {name: make(look(buffer)) for name, buffer in network.named_buffers()}
            self._twins = {**weights, **buffers}
            self.weights, self.buffers = list(weights.values()), list(buffers.values())

    def present(self) -> AbstractContextManager[None]:
        """Within this context the network has them, also where its backward pass calls modules again."""
        if self._twins is None:
            return nullcontext()
        return _reparametrize_module(self.network, self._twins, tie_weights=True)


def _distinct(named: Iterable[Mapping[str, Tensor | None]]) -> list[Tensor]:
    """All tensors, each once."""
    return list({id(tensor): tensor for each in named for tensor in each.values() if tensor is not None}.values())


def _step(network: _OnMeta, arguments: Sequence[Tensor], loss: Loss, recorder: Recorder, paths: ModulePaths) -> int:
    """Record a step; return the number of calls of its forward pass."""
    for weight in network.weights:
        recorder.add_weight(weight)
    for role, tensors in ((Role.BUFFER, network.buffers), (Role.INPUT, arguments)):
        for tensor in tensors:
            recorder.lives.begin(tensor, role)
    with network.present(), _no_gradients(network.weights), fused_attention(), recorder, paths.followed():
        with recorder.saving():
            value = _loss(network.network(*arguments), loss, paths)
        forward_calls = len(recorder.calls)
        if value.requires_grad:
            recorder.phase = Phase.BACKWARD
            value.backward()  # type: ignore[no-untyped-call]
        for weight in network.weights:
            if weight.grad is not None:
                recorder.add_gradient(weight)
    return forward_calls


def _loss(outputs: Any, loss: Loss, paths: ModulePaths) -> Tensor:
    with paths.inside("loss"):
        return loss(outputs)


def _cross_entropy(output: Tensor) -> Tensor:
    logits = output.float().reshape(-1, output.shape[-1] if output.ndim else 1)
    return cross_entropy(logits, torch.empty(len(logits), dtype=torch.int64, device=logits.device))


def _arguments(inputs: Signature | Sequence[Tensor], batch: int) -> list[Tensor]:
    if isinstance(inputs, Signature):
        return [torch.empty(batch, *inputs.input.shape, dtype=getattr(torch, inputs.input.dtype), device="meta")]
    return [make(look(given)).requires_grad_(given.requires_grad) for given in inputs]


@contextmanager
def _training(network: nn.Module, modules: Iterable[nn.Module]) -> Iterator[None]:
    """In training mode; each module goes back to the mode that it had."""
    modes = [(module, module.training) for module in modules]
    if not all(mode and type(module).train is nn.Module.train for module, mode in modes):
        network.train()
    try:
        yield
    finally:
        for module, mode in modes:
            if module.training is not mode:
                module.training = mode


@contextmanager
def _no_gradients(weights: Iterable[Tensor]) -> Iterator[None]:
    """Without gradients at first; then with those that there were."""
    before = [(weight, weight.grad) for weight in weights]
    for weight, _ in before:
        weight.grad = None
    try:
        yield
    finally:
        for weight, gradient in before:
            weight.grad = gradient


def _operators(recorder: Recorder, forward_calls: int) -> tuple[Operator, ...]:
    saved = [0] * len(recorder.calls)
    for place, life in recorder.kept:
        if life.died is None or life.died > forward_calls:
            saved[min(place, forward_calls - 1)] += life.bytes
    return tuple(
        Operator(
            call.name,
            call.cost.kind,
            call.phase,
            call.cost.flops,
            call.cost.work,
            call.cost.depth,
            call.cost.read_bytes,
            call.cost.written_bytes,
            call.parameters,
            kept,
            call.inputs,
            call.forward,
        )
        for call, kept in zip(recorder.calls, saved, strict=True)
    )


def _storages(recorder: Recorder, forward_calls: int) -> tuple[Storage, ...]:
    end = len(recorder.calls)
    storages = []
    for life in recorder.lives.all:
        died = end if life.died is None else life.died
        made = Role.ACTIVATION if life.born < forward_calls < died else Role.TEMPORARY
        if life.bytes and life.born < died:
            storages.append(Storage(life.role or made, life.bytes, life.born, died))
    return tuple(storages)

"""What passes between the stages of a pipeline: activations onwards, their gradients back, as point-to-point messages.

Shapes depend on the size of a micro-batch; a sender tells how its tensors look once for each ``key`` of batches that
look alike, and both sides remember.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, distributed
from torch.distributed import P2POp

Messages: TypeAlias = list[P2POp]


@dataclass(frozen=True)
class Look:
    """A tensor without its values; ``order`` are its dims as they lie in memory, outermost first."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...]
    learns: bool
    """Whether a gradient comes back."""

    @classmethod
    def of(cls, tensor: Tensor) -> "Look":
        """The look of ``tensor``."""
        order = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
        return cls(tuple(tensor.shape), tensor.dtype, tuple(order), tensor.requires_grad)

    def packed(self, tensor: Tensor) -> Tensor:
        """The values in one piece of memory, in the order in which they lie there."""
        return tensor.detach().permute(self.order).contiguous()

    def empty(self, device: str) -> tuple[Tensor, Tensor]:
        """A tensor of this look, and its memory to receive values in."""
        memory = torch.empty([self.shape[dim] for dim in self.order], dtype=self.dtype, device=device)
        return memory.permute([self.order.index(dim) for dim in range(len(self.order))]), memory


@dataclass
class Borders:
    """Both borders of a stage, to the ranks ``before`` and ``after`` it; None at the pipeline's ends.

    Each method makes messages and none sends: those of both directions that belong together go together (`exchange`),
    for each side may wait for the other's.
    """

    before: int | None
    after: int | None
    device: str
    _entering: dict[Hashable, list[Look]] = field(default_factory=dict)
    _leaving: dict[Hashable, list[Look]] = field(default_factory=dict)

    def receive_activations(self, key: Hashable) -> tuple[list[Tensor], Messages]:
        """Tensors that the messages will fill, each a leaf of autograd's graph where it learns."""
        assert self.before is not None
        if key not in self._entering:
            heard: list[Any] = [None]
            distributed.recv_object_list(heard, self.before, device=torch.device(self.device))
            self._entering[key] = heard[0]
        looks = self._entering[key]
        tensors, messages = self._received(looks, self.before)
        for look, tensor in zip(looks, tensors, strict=True):
            tensor.requires_grad_(look.learns)
        return tensors, messages

    def send_activations(self, key: Hashable, tensors: Sequence[Tensor]) -> Messages:
        """Messages of what leaves the stage."""
        assert self.after is not None
        if key not in self._leaving:
            self._leaving[key] = [Look.of(tensor) for tensor in tensors]
            distributed.send_object_list([self._leaving[key]], self.after, device=torch.device(self.device))
        return self._sent(self._leaving[key], tensors, self.after)

    def receive_gradients(self, key: Hashable) -> tuple[list[Tensor], Messages]:
        """Gradients of what left the stage and learns."""
        assert self.after is not None
        return self._received([look for look in self._leaving[key] if look.learns], self.after)

    def send_gradients(self, key: Hashable, entered: Sequence[Tensor]) -> Messages:
        """Messages of the gradients of what entered the stage and learns; zeros where nothing reached it."""
        assert self.before is not None
        looks = [look for look in self._entering[key] if look.learns]
        gradients = [
            torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            for tensor in entered
            if tensor.requires_grad
        ]
        return self._sent(looks, gradients, self.before)

    def _received(self, looks: Sequence[Look], rank: int) -> tuple[list[Tensor], Messages]:
        made = [look.empty(self.device) for look in looks]
        return [tensor for tensor, _ in made], [P2POp(distributed.irecv, memory, rank) for _, memory in made]

    def _sent(self, looks: Sequence[Look], tensors: Sequence[Tensor], rank: int) -> Messages:
        pairs = zip(looks, tensors, strict=True)
        return [P2POp(distributed.isend, look.packed(tensor), rank) for look, tensor in pairs]


def exchange(*messages: P2POp) -> None:
    """Send and receive all ``messages`` at the same time."""
    if messages:
        for work in distributed.batch_isend_irecv(list(messages)):
            work.wait()

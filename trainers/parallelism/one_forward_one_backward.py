"""One forward, one backward: a pipeline's order of micro-batches that holds few activations (Narayanan et al. 2019).

Stage j of S holds those of at most S - j micro-batches at once. The gradients of all are summed before the optimiser
steps, so the result is that of the whole batch. Our own, for the schedules of torch.distributed.pipelining
(2.13) keep the shapes of their first step, and a batch of another size ends the process; ours differ by a sample.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from trainers.parallelism.borders import Borders, Messages, exchange

Loss = Callable[[int, Tensor], Tensor]
"""From the number of a micro-batch and the network's outputs to its part of the loss."""


@dataclass
class Pipeline:
    """One stage at work: ``module`` takes what enters and returns a tuple of what leaves, or the network's outputs."""

    module: nn.Module
    stage: int
    stages: int
    borders: Borders
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext
    _entered: dict[int, Sequence[Tensor]] = field(default_factory=dict)
    _left: dict[int, Sequence[Tensor]] = field(default_factory=dict)
    _gradients: dict[int, list[Tensor]] = field(default_factory=dict)

    @property
    def first(self) -> bool:
        """Whether the stage takes the samples."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether the stage makes the outputs."""
        return self.stage == self.stages - 1

    def accumulate(self, micro_batches: Sequence[Tensor], loss: Loss) -> None:
        """Add the gradients of all ``micro_batches``, which every stage is given, to those of the stage's weights."""
        count = len(micro_batches)
        keys = [_key(inputs, True) for inputs in micro_batches]
        ahead = min(count, self.stages - 1 - self.stage)
        for number in range(ahead):
            exchange(*self._enter(number, micro_batches[number], keys[number]))
            self._forward(number, loss)
            exchange(*self._leave(number, keys[number]))
        if ahead < count:
            exchange(*self._enter(ahead, micro_batches[ahead], keys[ahead]))
        for number in range(ahead, count):
            self._forward(number, loss)
            back, following = number - ahead, number + 1
            exchange(*self._leave(number, keys[number]), *self._await(back, keys[back]))
            self._backward(back)
            entering = self._enter(following, micro_batches[following], keys[following]) if following < count else []
            exchange(*self._return(back, keys[back]), *entering)
        for back in range(count - ahead, count):
            exchange(*self._await(back, keys[back]))
            self._backward(back)
            exchange(*self._return(back, keys[back]))

    @torch.no_grad()
    def outputs(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """The network's outputs for each of ``parts``; of the last stage only."""
        outputs = []
        for inputs in parts:
            key = _key(inputs, False)
            exchange(*self._enter(0, inputs, key))
            with self.autocast():
                left = self.module(*self._entered.pop(0))
            if self.last:
                outputs.append(left)
            else:
                exchange(*self.borders.send_activations(key, left))
        return outputs

    def _enter(self, number: int, inputs: Tensor, key: Hashable) -> Messages:
        if self.first:
            self._entered[number] = (inputs,)
            return []
        self._entered[number], messages = self.borders.receive_activations(key)
        return messages

    def _forward(self, number: int, loss: Loss) -> None:
        # a copy, for a call may change in place what it is given
        given = [entered.clone() if entered.requires_grad else entered for entered in self._entered[number]]
        with self.autocast():
            result: Any = self.module(*given)
        self._left[number] = (loss(number, result),) if self.last else result

    def _leave(self, number: int, key: Hashable) -> Messages:
        return [] if self.last else self.borders.send_activations(key, self._left[number])

    def _await(self, number: int, key: Hashable) -> Messages:
        if self.last:
            return []
        self._gradients[number], messages = self.borders.receive_gradients(key)
        return messages

    def _backward(self, number: int) -> None:
        learning = [tensor for tensor in self._left.pop(number) if tensor.requires_grad]
        gradients = self._gradients.pop(number, None)
        if learning:
            torch.autograd.backward(learning, gradients)

    def _return(self, number: int, key: Hashable) -> Messages:
        entered = self._entered.pop(number)
        return [] if self.first else self.borders.send_gradients(key, entered)


def _key(inputs: Tensor, training: bool) -> Hashable:
    return len(inputs), training

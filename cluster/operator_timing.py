"""How long each operator of a real training step takes on a device, by the names that its trace has for them."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from search_spaces.operator_graph import OperatorGraph
from search_spaces.tracing import Loss
from trainers.precision import precision_for

Seconds = dict[str, list[float]]
"""Of the calls of each operator of torch, in their order."""


@dataclass(frozen=True, slots=True)
class TimedDevice:
    """A device and its clock: on a CPU with one thread the time that it really ran, so that others disturb little.

    ``dtype`` is what forward passes compute in; where that is not float32, by torch's autocast.
    """

    device: str = "cpu"
    threads: int = 1
    dtype: str = "float32"

    @property
    def accelerator(self) -> bool:
        """Whether the host only issues the work."""
        return self.device != "cpu"

    def forward(self) -> AbstractContextManager[object]:
        """Context of a forward pass."""
        return precision_for(self.dtype, self.device).autocast()

    @property
    def now(self) -> Callable[[], float]:
        """Seconds, of one thread or of the wall."""
        return thread_time if not self.accelerator and self.threads == 1 else perf_counter

    def of(self, call: Callable[[], Any]) -> float:
        """Seconds of a call, and of all that it started on the device."""
        self.wait()
        began = self.now()
        call()
        self.wait()
        return self.now() - began

    def wait(self) -> None:
        """Until the device has nothing left to do."""
        if self.accelerator:
            torch.cuda.synchronize(self.device)


class OperatorTimer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within its context each call of an operator is timed."""

    def __init__(self, device: TimedDevice) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._now = device.now
        self._events = device.accelerator
        self._measured: list[tuple[str, Any, Any]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run ``func`` and note when it began and ended."""
        mark = _event if self._events else self._now
        began = mark()
        result = func(*args, **(kwargs or {}))
        self._measured.append((func._schema.name.partition("::")[2], began, mark()))
        return result

    @property
    def seconds(self) -> Seconds:
        """Of what was called; the device must have ended it."""
        found: Seconds = defaultdict(list)
        for name, began, ended in self._measured:
            found[name].append(began.elapsed_time(ended) * 1e-3 if self._events else ended - began)
        return found


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def step(network: nn.Module, inputs: Tensor, loss: Loss, device: TimedDevice) -> None:
    """Forward, loss, backward; the gradients are let go."""
    with device.forward():
        outputs = network(inputs)
    loss(outputs).backward()  # type: ignore[no-untyped-call]
    for weight in network.parameters():
        weight.grad = None


def time_operators(network: nn.Module, inputs: Tensor, loss: Loss, device: TimedDevice) -> Seconds:
    """Time every operator of one step.

    On an accelerator the host first gives the device enough to do to stay ahead of it, so that what is timed is the
    device and not the host.
    """
    if device.accelerator:
        _occupy(device.device)
    with OperatorTimer(device) as timer:
        step(network, inputs, loss, device)
    device.wait()
    found: Seconds = timer.seconds
    return found


def _occupy(device: str) -> None:
    """Products that take a large device some tens of milliseconds."""
    matrix = torch.ones(4096, 4096, device=device)
    for _ in range(10):
        matrix = matrix @ matrix


def aligned(graph: OperatorGraph, seconds: Mapping[str, Sequence[float]]) -> list[float | None]:
    """Seconds of each operator of a step's trace; None where the device ran it in another way than was traced."""
    names = [operator.name.rpartition(".")[2] for operator in graph.operators]
    counts = {name: names.count(name) for name in set(names)}
    queues = {name: iter(seconds[name]) for name, count in counts.items() if len(seconds.get(name, ())) == count}
    return [next(queues[name]) if name in queues else None for name in names]

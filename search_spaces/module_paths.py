"""Which module is at work: by its path in the network during forward, by autograd's sequence numbers in backward."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

_LARGEST = 2**63
"""Nodes that accumulate gradients have a sequence number above, which says nothing of their module."""


def gradient_number() -> int | None:
    """Number of the node whose gradient autograd computes now; None where it does not tell."""
    node = torch._C._current_autograd_node()
    number = _LARGEST if node is None else node._sequence_nr()
    return None if number >= _LARGEST else number


def sequence_number() -> int:
    """Number that autograd gives to the next node of its graph; nodes are made before their operator runs."""
    number: int = torch._C._autograd._get_sequence_nr()
    return number


class ModulePaths:
    """Follows the modules of one network while `followed`; modules of other networks, in other threads, do not count.

    ``modules`` are all of them with their paths; one that has several goes by its first.
    """

    def __init__(self, network: nn.Module) -> None:
        self.modules = {module: path for path, module in network.named_modules()}
        self._open = [""]
        self._numbers = [0]
        self._since = [""]

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Modules that are called in this context are noted."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    @contextmanager
    def inside(self, path: str) -> Iterator[None]:
        """What runs in this context is said to be in ``path``."""
        self._note(path)
        try:
            yield
        finally:
            self._open.pop()
            self._note(self._open.pop())

    @property
    def current(self) -> str:
        """Path of the innermost module at work."""
        return self._open[-1]

    def of_node(self, number: int) -> str:
        """Path of the module that was at work when autograd made its node of this ``number``."""
        return self._since[bisect_right(self._numbers, number) - 1]

    def _enter(self, module: nn.Module, _: Any) -> None:
        path = self.modules.get(module)
        if path is not None:
            self._note(path)

    def _leave(self, module: nn.Module, *_: Any) -> None:
        if module in self.modules:
            self._open.pop()
            self._note(self._open.pop())

    def _note(self, path: str) -> None:
        self._open.append(path)
        self._numbers.append(sequence_number())
        self._since.append(path)

"""SIGINT and SIGTERM as a request to end: the first one is remembered, a second one ends the process at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class AtOnce(BaseException):
    """Raised where a signal comes while `Interrupts.at_once` is entered; ``number`` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interrupts:
    """While entered, takes the two signals; calling it gives the number of the one that came, 0 before.

    Where this is not the main thread nothing is taken, as Python allows handlers there only.
    """

    def __init__(self) -> None:
        self._came = 0
        self._at_once: Callable[[int], None] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> int:
        """Number of the signal that came, 0 before."""
        return self._came

    @contextmanager
    def at_once(self, first: Callable[[int], None] = lambda number: None) -> Iterator[None]:
        """While entered, a signal calls ``first`` and raises `AtOnce`, for what would take long to look at the flag."""
        self._at_once = first
        try:
            yield
        finally:
            self._at_once = None

    def note(self, number: int) -> None:
        """Remember a signal that another handler took."""
        self._came = self._came or number

    def __enter__(self) -> Self:
        try:
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._on_signal)
        except ValueError:
            self._before.clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._came:
            os._exit(128 + number)  # what we started dies with this process
        self._came = number
        if self._at_once is not None:
            self._at_once(number)
            raise AtOnce(number)

"""What a trial prints goes into a file of its own, also from C code and from its children, up to a size."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

_CHECK_SECONDS = 1.0


class TrialLog:
    """Redirects the file descriptors 1 and 2 of this process while a leg runs.

    A file that has grown past half of ``limit_bytes`` becomes ``NAME.1`` and a new one begins, so that both together
    keep the newest output within ``limit_bytes`` (and what is printed in a second).
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._usual = (os.dup(1), os.dup(2))
        self._lock = Lock()
        self._path: Path | None = None
        self._running = Event()
        Thread(target=self._watch, name="trial log", daemon=True).start()

    @contextmanager
    def into(self, path: Path) -> Iterator[None]:
        """Append what is printed to ``path``; a file that stays empty is removed, one that cannot be made is not."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open(path)
        except OSError:  # the trial's own files meet the same trouble, and say so as a failure
            yield
            return
        self._running.set()
        try:
            yield
        finally:
            self._running.clear()
            self._close()

    def _open(self, path: Path) -> None:
        with self._lock:
            _point_at(path)
            self._path = path

    def _close(self) -> None:
        with self._lock:
            _flush()
            for target, usual in zip((1, 2), self._usual, strict=True):
                os.dup2(usual, target)
            path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                if path.stat().st_size == 0:
                    path.unlink()

    def rotate(self) -> None:
        """Begin a new file where the present one has grown too large."""
        with self._lock, suppress(OSError):
            if self._path is not None and os.fstat(1).st_size > self._limit // 2:
                _flush()
                os.replace(self._path, f"{self._path}.1")
                _point_at(self._path)

    def _watch(self) -> None:
        pause = Event()
        while self._running.wait():
            pause.wait(_CHECK_SECONDS)
            self.rotate()


def _point_at(path: Path) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    _flush()
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    os.close(opened)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()

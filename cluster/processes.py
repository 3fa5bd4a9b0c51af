"""The processes of a local Ray and their end; as a script, the one that outlives a driver that was killed.

Ray's own processes go with their driver, but two that its raylet starts stay a minute, looking for a head that is gone.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

_POLL_SECONDS = 0.02
_GRACE_SECONDS = 1.0
_ROUNDS = 10
_LOOK_SECONDS = (0.5, 5.0)
"""Pause between two looks of the reaper: at first, and in the long run."""


class Processes:
    """The processes of a session: those that name its folder on their command line, and all below them.

    A process is kept with its start time, so that another one with the same number is never taken for it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = os.fsencode(folder)
        self._known: set[tuple[int, str]] = set()

    def alive(self) -> list[int]:
        """Look again; return those that live, once seen also where their parent is gone."""
        started, parents = _processes()
        self._known.update((pid, started[pid]) for pid in _below(self._named(started), parents))
        return sorted(pid for pid, start in self._known if started.get(pid) == start)

    def end(self, seconds: float) -> list[int]:
        """Wait ``seconds`` for all to go, then kill the rest; return what could not be killed."""
        deadline = monotonic() + seconds
        while self.alive() and monotonic() < deadline:
            sleep(_POLL_SECONDS)
        for pid in self.alive():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        deadline = monotonic() + 1.0
        while self.alive() and monotonic() < deadline:
            sleep(_POLL_SECONDS)
        return self.alive()

    def _named(self, pids: Iterable[int]) -> Iterator[int]:
        for pid in pids:
            with suppress(OSError):
                if pid != os.getpid() and self._folder in Path(f"/proc/{pid}/cmdline").read_bytes():
                    yield pid


def _processes() -> tuple[dict[int, str], dict[int, int]]:
    """Start time and parent of each living process, by number; empty where the system has no /proc."""
    started: dict[int, str] = {}
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                started[int(folder.name)], parents[int(folder.name)] = fields[19], int(fields[1])
    return started, parents


def _below(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    found = set(roots)
    size = -1
    while size != len(found):
        size = len(found)
        found.update(pid for pid, parent in parents.items() if parent in found)
    return found


class Reaper:
    """A process that ends those of a session, and deletes its folder, when this one is gone without having done so."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C in the terminal is not for it
        )
        assert self._process.stdin is not None
        self._process.stdin.write(os.fsencode(folder) + b"\n")
        self._process.stdin.flush()

    def dismiss(self) -> None:
        """End it; nothing is left for it to do."""
        self._process.kill()
        self._process.communicate()


def _reap() -> None:
    """Read the session's folder from stdin, wait for the driver's end to close, then clean up after it."""
    folder = Path(os.fsdecode(sys.stdin.buffer.readline().rstrip(b"\n")))
    processes = Processes(folder)
    pause, longest = _LOOK_SECONDS
    while not select.select([0], [], [], pause)[0]:
        processes.alive()  # once seen, a process is known also where its parent is gone
        pause = min(1.5 * pause, longest)
    for _ in range(_ROUNDS):
        if not processes.end(_GRACE_SECONDS) and not processes.alive():
            break
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _reap()

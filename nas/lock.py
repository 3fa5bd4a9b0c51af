"""The lock of a study folder: one writer at a time, whose death is noticed.

The file holds host, pid, process start and a random token. A dead owner on this host is taken over at once, one on
another host when the file has not been touched for 60 s. The owner touches it every 10 s and, where it finds another
token, must write no more.
"""

import fcntl
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any

import orjson

from nas.errors import StudyError

_TOUCH_SECONDS = 10.0
_STALE_SECONDS = 60.0


class Lock:
    """Held from construction to `release`; raises StudyError where another process holds it."""

    def __init__(self, folder: Path, touch_seconds: float = _TOUCH_SECONDS) -> None:
        self.path = folder / "lock"
        self.token = secrets.token_hex(16)
        self._lost = False
        self._acquire()
        self._released = threading.Event()
        self._beat = threading.Thread(target=self._keep, args=(touch_seconds,), name="study-lock", daemon=True)
        self._beat.start()

    def _acquire(self) -> None:
        descriptor = _locked(self.path)
        try:
            owner = _parse(os.read(descriptor, 4096))
            if owner is not None and not _stale(owner, os.fstat(descriptor).st_mtime):
                raise StudyError(
                    f"{self.path.parent}: the study is being written by process {owner['pid']} on {owner['host']}; "
                    "wait for it or end it, then resume"
                )
            mine = {"host": socket.gethostname(), "pid": os.getpid(), "token": self.token}
            line = orjson.dumps({**mine, "started": process_start(os.getpid())})
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _keep(self, seconds: float) -> None:
        while not self._released.wait(seconds):
            self.verify()

    def verify(self) -> bool:
        """Look at the file and touch it; False for ever once another token was seen or the file is gone."""
        if not self._lost:
            try:
                owner = _parse(self.path.read_bytes())
                self._lost = owner is None or owner["token"] != self.token
                if not self._lost:
                    os.utime(self.path)
            except FileNotFoundError:
                self._lost = True
            except OSError:
                pass  # the storage may come back; writing the log will tell
        return not self._lost

    @property
    def held(self) -> bool:
        """Whether the last look found our token."""
        return not self._lost

    def release(self) -> None:
        """Give the study back; the file is removed only where it is ours."""
        self._released.set()
        self._beat.join()
        if self.verify():
            self.path.unlink(missing_ok=True)


def _locked(path: Path) -> int:
    """Open and lock the file, so that two takers come one after the other; again where it was removed meanwhile."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def owner(folder: Path) -> dict[str, Any] | None:
    """Who writes the study in ``folder`` now (``host``, ``pid``), None where nobody does; nothing is locked."""
    path = folder / "lock"
    try:
        found, touched = _parse(path.read_bytes()), path.stat().st_mtime
    except OSError:
        return None
    return None if found is None or _stale(found, touched) else found


def process_start(pid: int) -> str | None:
    """Start of a process in clock ticks since boot, None where it is gone or the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None


def _parse(content: bytes) -> dict[str, Any] | None:
    try:
        owner = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    kinds = {"host": str, "pid": int, "token": str, "started": str | None}
    whole = isinstance(owner, dict) and all(isinstance(owner.get(name), kind) for name, kind in kinds.items())
    return owner if whole else None


def _stale(owner: dict[str, Any], touched: float) -> bool:
    if owner["host"] != socket.gethostname():
        return time.time() - touched > _STALE_SECONDS
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # alive, and another user's
    return bool(process_start(owner["pid"]) != owner["started"])

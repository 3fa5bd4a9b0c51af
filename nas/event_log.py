"""The record of a study: append-only JSON lines with one writer.

All events of one turn of the controller's loop go to the operating system in one write, before that turn's commands are
executed: no death of a process loses anything. A machine's death loses at most what `fsync` has not covered yet.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import orjson

from nas.errors import StorageError, StudyError
from nas.lock import Lock

Record: TypeAlias = dict[str, Any]

FILE = "events.jsonl"
_FSYNC_SECONDS = 0.1
_logger = logging.getLogger(__name__)


class EventLog:
    """The writer: holds the lock, buffers a turn's records, writes them as one.

    ``fsync="always"`` makes every turn durable, ``"batch"`` at most one every 0.1 s and the last. Raises StudyError
    where another process writes, StorageError where the storage is full or gone. ``size`` is the file's, in bytes.
    """

    def __init__(self, folder: Path, fsync: str = "batch") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._always = fsync == "always"
        self._turn: list[bytes] = []
        self.lock = Lock(folder)
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self.size = _drop_torn_line(self.path)
        except BaseException:
            self.lock.release()
            raise
        self._synced_at = monotonic()
        self._synced = True

    def append(self, record: Record) -> None:
        """Add a record to this turn."""
        self._turn.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        """Write this turn's records; a turn that does not fit leaves the file as it was before it."""
        if self._turn:
            self._check_owned()
            self._write(b"".join(self._turn))
            self._turn.clear()
        if not self._synced and (self._always or monotonic() - self._synced_at >= _FSYNC_SECONDS):
            self.sync()

    def _check_owned(self) -> None:
        if self.lock.held:
            return
        self._check_there()
        raise StudyError(
            f"{self.path.parent}: the lock is gone, or another process took the study over; this one stops writing"
        )

    def _check_there(self) -> None:
        if os.fstat(self._file).st_nlink == 0:
            raise StorageError(f"{self.path}: the event log is gone; what was written since cannot be kept")

    def _write(self, turn: bytes) -> None:
        left = memoryview(turn)
        try:
            while left:  # a write that falls short says why the next time
                left = left[os.write(self._file, left) :]
        except OSError as error:
            with suppress(OSError):  # a folder that is gone
                os.ftruncate(self._file, self.size)
            raise StorageError(
                f"{self.path.parent}: {len(turn)} bytes of the event log could not be written ({error.strerror}); "
                "make room, then resume"
            ) from error
        self.size += len(turn)
        self._synced = False

    def sync(self) -> None:
        """Make everything written durable; raise StorageError where the file was removed."""
        self._check_there()
        try:
            os.fsync(self._file)
        except OSError as error:
            raise StorageError(f"{self.path}: {self.size} bytes cannot be made durable ({error.strerror})") from error
        self._synced, self._synced_at = True, monotonic()

    def close(self) -> None:
        """Write what is left, make it durable, give the lock back."""
        try:
            self.flush()
            self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give the lock back without writing; what was flushed is kept. Does nothing once closed."""
        self._turn.clear()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self.lock.release()


def read(folder: Path) -> Iterator[Record]:
    """Records of a study, in order. A last line without its end is left out; any other bad line is a StudyError."""
    path = folder / FILE
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed by the generator's end
    except (FileNotFoundError, NotADirectoryError):
        raise StudyError(f"{folder}: no study here (there is no {FILE})") from None
    with file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = orjson.loads(line)
                if not isinstance(record, dict) or "event" not in record:
                    raise ValueError("it is no event")
            except ValueError as error:
                raise StudyError(f"{path}, line {number}: {error}; restore the file from a copy") from error
            yield record


def _drop_torn_line(path: Path) -> int:
    """Cut a last line without its newline, as a kill in the middle of a write leaves it; return the size."""
    with open(path, "rb+") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65_536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            end = start + newline + 1 if newline >= 0 else start
            if newline >= 0:
                break
        if end < size:
            _logger.warning("%s: dropped a torn last line of %d bytes", path, size - end)
            file.truncate(end)
    return end

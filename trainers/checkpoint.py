"""Checkpoints: one whole, self-describing file for each fidelity, with its Measurement.

A file is a line ``ray-nas checkpoint 1 DIGEST``, a line of JSON (measurement, number of threads, world size), and the
state as `torch.save` writes it. DIGEST (BLAKE2b) is over all that follows its line. The measurement is read without
torch.
"""

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from shutil import disk_usage
from typing import Any
from uuid import uuid4

import orjson

from trainers.measurement import Fidelity, Measurement

_MAGIC = b"ray-nas checkpoint 1 "
_SUFFIX = ".ckpt"
_CHUNK_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class StorageError(Exception):
    """The disk is full, or the folder is gone or cannot be written; the text names folder and bytes."""


class StateError(ValueError):
    """A trainer's state holds something that a checkpoint cannot keep; the text says where."""


class _DamagedError(Exception):
    """A file that is torn or altered."""


@dataclass(frozen=True)
class Checkpoint:
    """What a leg goes on from. ``state`` is read on first use, onto the CPU.

    ``threads`` is torch's number of threads when it was written: only with as many is going on bit-identical.
    """

    measurement: Measurement
    path: Path
    threads: int
    world_size: int
    state_offset: int

    @property
    def fidelity(self) -> Fidelity:
        """How much training is in it."""
        return self.measurement.fidelity

    @cached_property
    def state(self) -> Any:
        """What the trainer gave to ``report``; raise StorageError where the file has gone."""
        import torch

        try:
            with self.path.open("rb") as file:
                file.seek(self.state_offset)
                return torch.load(file, map_location="cpu", weights_only=True)
        except OSError as error:
            raise _storage_error(self.path, "a checkpoint cannot be read", error) from error


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one trial, one file for each fidelity.

    The first `save` makes the folder, not its parents: where they have gone, the study's storage has.
    """

    path: Path

    def save(self, measurement: Measurement, state: Mapping[str, Any], rank: int = 0) -> None:
        """Write the checkpoint of ``measurement.fidelity``, whole or not at all; only rank 0 writes.

        Raises StateError where ``state`` holds more than tensors, arrays, numbers, texts and containers of them, and
        StorageError where it cannot be written.
        """
        if rank != 0:
            return
        content = _encode(measurement, state)
        try:
            self.path.mkdir(exist_ok=True)
            _write_whole(self.path / _file_name(measurement.fidelity), content)
        except OSError as error:
            raise _storage_error(self.path, f"{len(content):,} bytes are needed", error) from error

    def fidelities(self) -> list[Fidelity]:
        """Fidelities that have a file, ascending; whether each is whole is not looked at."""
        return sorted(_fidelity(path) for path in self.path.glob(f"*{_SUFFIX}"))

    def newest(self, until: Fidelity) -> Checkpoint | None:
        """Return the whole checkpoint of the highest fidelity up to ``until``.

        A damaged file is passed over with a warning, and the one before is taken. Raises StorageError where a file
        cannot be read.
        """
        for fidelity in reversed(self.fidelities()):
            if fidelity <= until:
                path = self.path / _file_name(fidelity)
                try:
                    return _read(path)
                except FileNotFoundError:  # pruned meanwhile
                    continue
                except OSError as error:
                    raise _storage_error(path, "a checkpoint cannot be read", error) from error
                except _DamagedError as damage:
                    _log.warning("checkpoint %s is damaged (%s); going on from the one before", path, damage)
        return None

    def prune(self, keep: int, spare: Collection[Fidelity] = ()) -> None:
        """Delete all but the newest ``keep`` checkpoints; those in ``spare`` (best, or in use) stay as well."""
        fidelities = self.fidelities()
        for fidelity in fidelities[: max(0, len(fidelities) - keep)]:
            if fidelity not in spare:
                (self.path / _file_name(fidelity)).unlink(missing_ok=True)


def _file_name(fidelity: Fidelity) -> str:
    return f"{int(fidelity) if fidelity == int(fidelity) else float(fidelity)!r}{_SUFFIX}"


def _fidelity(path: Path) -> Fidelity:
    text = path.name.removesuffix(_SUFFIX)
    return int(text) if text.isdecimal() else float(text)


# Writing -----------------------------------------------------------------------------------------------------------


def _encode(measurement: Measurement, state: Mapping[str, Any]) -> bytes:
    from io import BytesIO

    import torch

    from trainers.state import storable

    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    header = {
        **measurement.to_json(),
        "threads": torch.get_num_threads(),
        "world_size": torch.distributed.get_world_size() if distributed else 1,
    }
    # Into memory first: torch ends the process where the disk fills up under its own writer.
    body = BytesIO()
    body.write(orjson.dumps(header) + b"\n")
    torch.save(storable(state, "state"), body)
    content = body.getbuffer()
    return b"".join((_MAGIC, blake2b(content).hexdigest().encode(), b"\n", content))


def _write_whole(path: Path, content: bytes) -> None:
    """Temporary name, fsync, atomic rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _storage_error(folder: Path, needed: str, error: OSError) -> StorageError:
    return StorageError(f"{folder}: {needed}, {_free(folder)} ({error.strerror or error})")


def _free(folder: Path) -> str:
    for existing in (folder, *folder.parents):
        try:
            return f"{disk_usage(existing).free:,} bytes are free"
        except OSError:
            continue
    return "free space is unknown"


# Reading -----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> Checkpoint:
    with path.open("rb") as file:
        first = file.readline(len(_MAGIC) + 200)
        if not first.startswith(_MAGIC):
            raise _DamagedError("no checkpoint of this version")
        expected, digest = first[len(_MAGIC) :].strip().decode("ascii", "replace"), blake2b()
        header = file.readline()
        digest.update(header)
        offset = file.tell()
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        raise _DamagedError("its checksum differs")
    plain = orjson.loads(header)
    return Checkpoint(
        measurement=Measurement.from_json(plain),
        path=path,
        threads=plain["threads"],
        world_size=plain["world_size"],
        state_offset=offset,
    )

"""Where the rates of a machine are kept: a file for each device, version of torch, number type and thread count."""

import json
import os
import platform
import re
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from trainers.parallelism.rates import Machine

FORM = 2
"""Version of the file's form, and of how rates are measured."""


@dataclass(frozen=True, slots=True)
class Key:
    """All that rates depend on."""

    device: str
    torch: str
    dtype: str
    threads: int
    form: int = FORM

    @classmethod
    def here(cls, device: str = "cpu", threads: int = 1, dtype: str = "float32") -> "Key":
        """Of the present machine."""
        return cls(device_name(device), version("torch"), dtype, threads)

    @property
    def file(self) -> str:
        """A name that tells what is in it, and differs wherever the key does."""
        text = f"{self.device} {self.dtype} {self.threads} threads torch {self.torch}"
        digest = blake2b(json.dumps(asdict(self)).encode(), digest_size=4).hexdigest()
        return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-") + f"-{digest}.json"


class DamagedError(ValueError):
    """A file of rates that cannot be read."""


def device_name(device: str) -> str:
    """The model of a processor or a GPU."""
    if device != "cpu":
        import torch

        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        named = []
    return named[0] if named else platform.processor() or platform.machine()


def cache_folder() -> Path:
    """``NAS_CACHE``, else ``ray-nas`` in XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("NAS_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ray-nas"


def save(machine: Machine, key: Key, folder: Path) -> Path:
    """Write whole or not at all; raise OSError where the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / key.file
    write_whole(path, json.dumps({"key": asdict(key), "machine": json.loads(machine.to_json())}, indent=1) + "\n")
    return path


def write_whole(path: Path, text: str) -> None:
    """Put ``text`` into a file that others may read meanwhile; raise OSError, and leave the file as it was."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load(key: Key, folder: Path) -> Machine | None:
    """The rates of this key, None where there are none; raise DamagedError for a file that does not hold them."""
    path = folder / key.file
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedError(_damaged(path, error)) from error
    try:
        values = json.loads(text)
        if values["key"] != asdict(key):
            raise ValueError(f"it is of {values['key']}")
        return Machine.from_json(json.dumps(values["machine"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(_damaged(path, error)) from error


def _damaged(path: Path, error: Exception) -> str:
    return f"{path}: this file holds no rates of this machine ({error}); measure them again by: nas calibrate"

"""Exports a trained network: weights as safetensors, the architecture's text, and what rebuilds it as JSON."""

import os
import shutil
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import orjson
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from search_spaces import SPACES, Architecture, Reference, SearchSpace, Signature, TensorType

WEIGHTS, ARCHITECTURE, DESCRIPTION = "weights.safetensors", "architecture.txt", "model.json"
_SAMPLES = 4


class ExportError(RuntimeError):
    """What was written does not give the same network when read back; nothing is left in the folder."""


def export(
    folder: Path,
    weights: Mapping[str, torch.Tensor],
    space: Reference,
    architecture: Architecture,
    signature: Signature,
    notes: Mapping[str, Any] | None = None,
) -> Path:
    """Write the three files into ``folder`` (made if missing) and return it.

    ``weights`` is the network's state_dict: ``checkpoint.state["model"]``. Before the files appear they are loaded
    back, the network is rebuilt from them, and weights (bit by bit) and outputs on a fixed input are compared. Raises
    ExportError where they differ, OSError where the folder cannot be written. ``notes`` (plain JSON) are kept.
    """
    original = _network(space, architecture, signature)
    original.load_state_dict(dict(weights))
    folder.mkdir(parents=True, exist_ok=True)
    staging = Path(mkdtemp(prefix=".export-", dir=folder))
    try:
        # One copy each: tied weights share memory, which the format refuses.
        copies = {name: value.detach().cpu().contiguous().clone() for name, value in original.state_dict().items()}
        save_file(copies, staging / WEIGHTS)
        (staging / ARCHITECTURE).write_text(f"{architecture}\n", encoding="utf-8")
        description = _description(staging, original, space, signature, notes or {})
        (staging / DESCRIPTION).write_bytes(orjson.dumps(description, option=orjson.OPT_INDENT_2))
        _compare(original, load(staging, space), signature)
        for name in (WEIGHTS, ARCHITECTURE, DESCRIPTION):
            os.replace(staging / name, folder / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def load(folder: Path, space: Reference | None = None) -> nn.Module:
    """Rebuild an exported network with its weights, ready for use (evaluation mode).

    ``space`` is needed only for a space that was given as an object, not by name. Raises ExportError where the weights
    are not those that were written.
    """
    plain = orjson.loads((folder / DESCRIPTION).read_bytes())
    if _digest(folder / WEIGHTS) != plain["weights_blake2b"]:
        raise ExportError(f"{folder / WEIGHTS} is not the file that {DESCRIPTION} describes: its checksum differs")
    architecture = Architecture(Architecture.parse((folder / ARCHITECTURE).read_text(encoding="utf-8")))
    space = space or Reference(plain["space"]["name"], plain["space"]["arguments"])
    network = _network(space, architecture, _signature(plain["signature"]))
    network.load_state_dict(load_file(folder / WEIGHTS))
    return network.eval()


def _network(space: Reference, architecture: Architecture, signature: Signature) -> nn.Module:
    return cast(SearchSpace, space.make(SPACES)).build(architecture, signature).eval()


def _compare(original: nn.Module, loaded: nn.Module, signature: Signature) -> None:
    written = loaded.state_dict()
    for name, value in original.state_dict().items():
        if name not in written or not _same(value, written[name]):
            raise ExportError(f"weight {name!r} is not the same after loading it back")
    with torch.no_grad():
        example = _example(signature.input)
        before, after = original.eval()(example), loaded(example)
    if not _same(before, after):
        raise ExportError("the outputs differ after loading back: build() depends on more than the architecture")


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Equal in type, shape and bits (NaN included)."""
    same_kind = first.dtype == second.dtype and first.shape == second.shape
    return same_kind and torch.equal(first.nan_to_num(), second.nan_to_num())


def _example(kind: TensorType) -> torch.Tensor:
    """Fixed input [4, *shape]: normal numbers, or zeros for a type of whole numbers."""
    dtype = getattr(torch, kind.dtype)
    generator = torch.Generator().manual_seed(0)
    if not dtype.is_floating_point:
        return torch.zeros((_SAMPLES, *kind.shape), dtype=dtype)
    return torch.randn((_SAMPLES, *kind.shape), generator=generator, dtype=dtype)


def _description(
    folder: Path, network: nn.Module, space: Reference, signature: Signature, notes: Mapping[str, Any]
) -> dict[str, Any]:
    tensor_types = {"input": signature.input, "output": signature.output}
    return {
        "format": 1,
        "space": {"name": space.name, "arguments": dict(space.arguments)},
        "signature": {name: _plain(kind) for name, kind in tensor_types.items()},
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "weights_blake2b": _digest(folder / WEIGHTS),
        "torch": torch.__version__,
        "notes": dict(notes),
    }


def _plain(kind: TensorType) -> dict[str, Any]:
    vocabulary = {} if kind.vocabulary is None else {"vocabulary": kind.vocabulary}
    return {"shape": list(kind.shape), "dtype": kind.dtype, **vocabulary}


def _signature(plain: Mapping[str, Any]) -> Signature:
    kinds = (TensorType(**{**plain[name], "shape": tuple(plain[name]["shape"])}) for name in ("input", "output"))
    return Signature(*kinds)


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=32)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()

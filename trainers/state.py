"""The plain form of a trainer's state: what a checkpoint can hold and any later version can read back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from trainers.checkpoint import StateError

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def storable(value: Any, where: str) -> Any:
    """Copy ``value`` as tensors, numbers, texts, dicts, lists and tuples; numpy arrays become tensors.

    Raises StateError naming the place (``where`` and the keys below it) of anything else.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        return _compact(value.detach())
    if isinstance(value, np.ndarray | np.generic):
        return _from_numpy(value, where)
    if isinstance(value, Mapping):
        return {_key(key, where): storable(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [storable(item, f"{where}[{number}]") for number, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    raise StateError(
        f"{where} is a {type(value).__name__}, which a checkpoint cannot hold; give tensors, arrays, numbers, texts "
        f"and dicts, lists or tuples of them{_remedy(value)}"
    )


def _key(key: Any, where: str) -> Any:
    if type(key) not in (str, int, float, bool):
        raise StateError(f"{where} has the key {key!r}; keys are texts or numbers")
    return key


def _compact(tensor: torch.Tensor) -> torch.Tensor:
    """A view would take its whole storage along."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole or tensor.layout != torch.strided else tensor.clone()


def _from_numpy(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        return storable(value.item(), where)
    try:
        return torch.from_numpy(value.copy())
    except TypeError:
        raise StateError(f"{where} is an array of {value.dtype}, which has no tensor; give numbers") from None


def _remedy(value: Any) -> str:
    return f" (for this one: its {where}())" if hasattr(value, where := "state_dict") else ""

"""One call of an operator of torch: its arguments by name, and its results."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor


class AtenCall:
    """``call.stride`` is the argument of that name in the operator's schema, by default what the schema says."""

    def __init__(
        self, operator: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Tensor]
    ) -> None:
        self.results = results
        defaults = _defaults(operator)
        self._values = {**defaults, **dict(zip(defaults, args, strict=False)), **kwargs}

    def __getattr__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    @property
    def result(self) -> Tensor:
        """The first result."""
        return self.results[0]

    @property
    def written(self) -> int:
        """Number of elements of all results."""
        return sum(result.numel() for result in self.results)


@cache
def _defaults(operator: torch._ops.OpOverload) -> dict[str, Any]:
    """Names of all arguments in the schema's order, with what they are where they are not given."""
    return {argument.name: argument.default_value for argument in operator._schema.arguments}


def spread(values: int | Sequence[int], dims: int) -> list[int]:
    """One number for each of ``dims`` dimensions, where one for all may be given."""
    given = [values] if isinstance(values, int) else list(values)
    return given * dims if len(given) == 1 else given


def touched_bytes(tensor: Tensor) -> int:
    """Bytes of its different places in memory: an expanded dim is read once."""
    elements = prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0)
    return min(elements, tensor.numel()) * tensor.element_size()

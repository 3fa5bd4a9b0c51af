"""What an operator of torch does whatever it is called with: makes views, writes in place, is made of others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from search_spaces.aten_names import ALLOCATED, WRITTEN


@dataclass(frozen=True, slots=True)
class Habit:
    """From an operator's schema. Where it ``views`` or ``allocates`` it computes nothing.

    ``written`` are places, or names, of the arguments that it changes in place; ``in_place``: it changes its first
    argument alone, and returns it; ``overwrites``: it does not look at what was there.
    """

    operator: torch._ops.OpOverload
    name: str
    views: bool
    allocates: bool
    decomposes: bool
    written: tuple[int | str, ...]
    in_place: bool
    overwrites: bool

    def changed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """The arguments of a call that are written in place."""
        given = [
            kwargs.get(place) if isinstance(place, str) else args[place] if place < len(args) else None
            for place in self.written
        ]
        return [value for value in given if isinstance(value, Tensor)]


@cache
def habit_of(operator: torch._ops.OpOverload) -> Habit:
    """Read the schema."""
    schema = operator._schema
    written: list[int | str] = []
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append(argument.name if argument.kwarg_only else place)
    aliases = any(value.alias_info is not None for value in schema.returns)
    name = schema.name.partition("::")[2]
    return Habit(
        operator,
        name,
        views=torch.Tag.inplace_view in operator.tags or (aliases and not written) or operator.namespace == "prim",
        allocates=name in ALLOCATED,
        decomposes=_decomposes(operator),
        written=tuple(written),
        in_place=written == [0] and len(schema.returns) == 1 and aliases,
        overwrites=name.rstrip("_") in WRITTEN or name == "copy_",
    )


def _decomposes(operator: torch._ops.OpOverload) -> bool:
    """Whether it is made of other operators, which autograd shows us, but not inference mode."""
    kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = operator.name()  # type: ignore[no-untyped-call]
    return kernel(name, "CompositeImplicitAutograd") and not kernel(name, "Meta")

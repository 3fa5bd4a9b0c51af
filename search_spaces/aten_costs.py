"""Costs of the operators of torch ("aten"), by name: kind, FLOPs, work and depth of a call, bytes read and written.

What torch itself marks as element-wise or as a reduction needs no entry here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from search_spaces.aten_call import AtenCall, touched_bytes
from search_spaces.aten_names import COPIES, LOOKED_UP, OPERATIONS, SHAPED, UNREAD, WRITTEN
from search_spaces.aten_products import ATTENTION, CONVOLUTIONS, PRODUCTS, is_depthwise
from search_spaces.aten_rows import LOSSES, NORMALIZATIONS, SOFTMAXES
from search_spaces.aten_sums import SCATTERS, SUMS, reduced
from search_spaces.aten_windows import POOLINGS
from search_spaces.operator_graph import Kind
from search_spaces.operators import COPY, WorkDepth, elementwise


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call costs; not ``known`` where the operator has no formula."""

    kind: Kind
    flops: int
    work: int
    depth: int
    read_bytes: int
    written_bytes: int
    known: bool


def cost(operator: torch._ops.OpOverload, call: AtenCall, read: list[Tensor], written: list[Tensor]) -> Cost:
    """Cost of a call that reads and writes these tensors.

    An operator without a formula costs one operation for each element that it writes.
    """
    name = operator._schema.name.partition("::")[2]
    kind, flops, counted = Kind.COPY, 0, COPY
    known: bool = True
    if any(tensor.numel() for tensor in written):
        kind, flops, counted, known = _counts(name, operator, call, written)
    written_bytes = sum(map(touched_bytes, written))
    return Cost(kind, flops, counted.work, counted.depth, _read_bytes(name, call, read), written_bytes, known)


def _counts(
    name: str, operator: torch._ops.OpOverload, call: AtenCall, written: list[Tensor]
) -> tuple[Kind, int, WorkDepth, bool]:
    if name in _PRODUCTS:
        kind, product = _PRODUCTS[name]
        if kind is Kind.CONVOLUTION and is_depthwise(call):
            kind = Kind.DEPTHWISE
        return kind, *product(call), True
    if name in _FORMULAS:
        kind, formula = _FORMULAS[name]
        return kind, 0, formula(call), True
    plain = name.rstrip("_")
    elements = sum(tensor.numel() for tensor in written)
    if plain in COPIES or plain in WRITTEN:
        return Kind.COPY, 0, COPY, True
    if plain in OPERATIONS or torch.Tag.pointwise in operator.tags:
        return Kind.ELEMENTWISE, 0, elementwise(elements, OPERATIONS.get(plain, 1)), True
    if torch.Tag.reduction in operator.tags:
        return Kind.REDUCTION, 0, reduced(plain, call), True
    return Kind.ELEMENTWISE, 0, elementwise(elements), False


def _read_bytes(name: str, call: AtenCall, read: list[Tensor]) -> int:
    """Bytes of what is read; of what is looked up, only what comes out."""
    if name in SHAPED:
        return 0
    if name in LOOKED_UP:
        table = getattr(call, LOOKED_UP[name])
        return sum(touched_bytes(tensor) for tensor in read if tensor is not table) + touched_bytes(call.result)
    unread = getattr(call, UNREAD[name]) if name in UNREAD else None
    return sum(touched_bytes(tensor) for tensor in read if tensor is not unread)


_PRODUCTS = {
    **{name: (Kind.MATMUL, formula) for name, formula in PRODUCTS.items()},
    **{name: (Kind.CONVOLUTION, formula) for name, formula in CONVOLUTIONS.items()},
    **{name: (Kind.ATTENTION, formula) for name, formula in ATTENTION.items()},
}
_FORMULAS: Mapping[str, tuple[Kind, Callable[[AtenCall], WorkDepth]]] = {
    **{name: (Kind.NORMALIZATION, formula) for name, formula in NORMALIZATIONS.items()},
    **{name: (Kind.SOFTMAX, formula) for name, formula in SOFTMAXES.items()},
    **{name: (Kind.REDUCTION, formula) for name, formula in LOSSES.items()},
    **{name: (Kind.POOLING, formula) for name, formula in POOLINGS.items()},
    **{name: (Kind.EMBEDDING, formula) for name, formula in SCATTERS.items()},
    **{name: (Kind.REDUCTION, formula) for name, formula in SUMS.items()},
}

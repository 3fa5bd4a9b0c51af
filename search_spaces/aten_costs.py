"""Costs of the operators of torch ("aten"), by name: kind, FLOPs, work and depth of a call, bytes read and written.

What torch itself marks as element-wise or as a reduction needs no entry here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from search_spaces.aten_call import AtenCall, touched_bytes
from search_spaces.aten_products import ATTENTION, CONVOLUTIONS, PRODUCTS, is_depthwise
from search_spaces.aten_rows import LOSSES, NORMALIZATIONS, SOFTMAXES
from search_spaces.aten_windows import POOLINGS
from search_spaces.operator_graph import Kind
from search_spaces.operators import COPY, WorkDepth, elementwise, embedding_gradient, lg, mean, reduction, scatter


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


def overwrites(name: str) -> bool:
    """Whether an operator that writes in place does not read what was there."""
    return name.rstrip("_") in _WRITTEN or name == "copy_"


def is_allocation(name: str) -> bool:
    """Whether an operator only asks for memory."""
    return name in _ALLOCATED


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
    if plain in _COPIES or plain in _WRITTEN:
        return Kind.COPY, 0, COPY, True
    if plain in _OPERATIONS or torch.Tag.pointwise in operator.tags:
        return Kind.ELEMENTWISE, 0, elementwise(elements, _OPERATIONS.get(plain, 1)), True
    if torch.Tag.reduction in operator.tags:
        return Kind.REDUCTION, 0, _reduced(plain, call), True
    return Kind.ELEMENTWISE, 0, elementwise(elements), False


def _reduced(name: str, call: AtenCall) -> WorkDepth:
    """Each element of the result is made of as many of ``self``."""
    results = call.result.numel()
    length = max(1, call.self.numel() // results)
    return results * _REDUCTIONS.get(name, reduction)(length)


def _read_bytes(name: str, call: AtenCall, read: list[Tensor]) -> int:
    """Bytes of what is read; of what is looked up, only what comes out."""
    if name in _LOOKED_UP:
        table = getattr(call, _LOOKED_UP[name])
        return sum(touched_bytes(tensor) for tensor in read if tensor is not table) + touched_bytes(call.result)
    unread = getattr(call, _UNREAD[name]) if name in _UNREAD else None
    return sum(touched_bytes(tensor) for tensor in read if tensor is not unread)


def _embedding_gradient(call: AtenCall) -> WorkDepth:
    tokens = call.indices.numel()
    return embedding_gradient(tokens, call.grad_output.numel() // tokens)


def _scattered(argument: str) -> Callable[[AtenCall], WorkDepth]:
    """All elements of ``argument`` may meet at one place."""

    def formula(call: AtenCall) -> WorkDepth:
        elements = max(1, getattr(call, argument).numel())
        return scatter(elements, elements)

    return formula


def _scan(call: AtenCall) -> WorkDepth:
    """Sums up to each element along ``dim`` (Ladner and Fischer 1980: D = lg n with W below 4 n; here W = n)."""
    length = call.self.shape[call.dim] if call.self.ndim else 1
    return WorkDepth(call.self.numel(), lg(length))


def _copied(call: AtenCall) -> WorkDepth:
    return COPY


def _variance(length: int) -> WorkDepth:
    return mean(length) + elementwise(length, 2) + mean(length)


def _norm(length: int) -> WorkDepth:
    return elementwise(length) + reduction(length) + elementwise(1)


def _log_of_sum(length: int) -> WorkDepth:
    return reduction(length) + elementwise(length, 2) + reduction(length) + elementwise(1, 2)


_PRODUCTS = {
    **{name: (Kind.MATMUL, formula) for name, formula in PRODUCTS.items()},
    **{name: (Kind.CONVOLUTION, formula) for name, formula in CONVOLUTIONS.items()},
    **{name: (Kind.ATTENTION, formula) for name, formula in ATTENTION.items()},
}
_SCATTERS: Mapping[str, Callable[[AtenCall], WorkDepth]] = {
    "embedding": _copied,
    "embedding_dense_backward": _embedding_gradient,
    "index": _copied,
    "index_select": _copied,
    "gather": _copied,
    "take": _copied,
    "index_put": _scattered("values"),
    "index_put_": _scattered("values"),
    "_index_put_impl_": _scattered("values"),
    "_unsafe_index": _copied,
    "_unsafe_index_put": _scattered("values"),
    "index_add": _scattered("source"),
    "index_add_": _scattered("source"),
    "scatter_add": _scattered("src"),
    "scatter_add_": _scattered("src"),
}
_FORMULAS: Mapping[str, tuple[Kind, Callable[[AtenCall], WorkDepth]]] = {
    **{name: (Kind.NORMALIZATION, formula) for name, formula in NORMALIZATIONS.items()},
    **{name: (Kind.SOFTMAX, formula) for name, formula in SOFTMAXES.items()},
    **{name: (Kind.REDUCTION, formula) for name, formula in LOSSES.items()},
    **{name: (Kind.POOLING, formula) for name, formula in POOLINGS.items()},
    **{name: (Kind.EMBEDDING, formula) for name, formula in _SCATTERS.items()},
    "cumsum": (Kind.REDUCTION, _scan),
    "cumprod": (Kind.REDUCTION, _scan),
}
_REDUCTIONS: Mapping[str, Callable[[int], WorkDepth]] = {
    "mean": mean,
    "var": _variance,
    "var_mean": _variance,
    "std": lambda length: _variance(length) + elementwise(1),
    "std_mean": lambda length: _variance(length) + elementwise(1),
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "logsumexp": _log_of_sum,
}
"""Of one row; the others (sum, maximum...) take one operation for two elements."""

_OPERATIONS: Mapping[str, int] = {
    "addcdiv": 2,
    "addcmul": 2,
    "binary_cross_entropy": 5,
    "elu": 3,
    "gelu": 5,
    "gelu_backward": 8,
    "hardsigmoid": 3,
    "hardswish": 4,
    "hardswish_backward": 4,
    "hardtanh": 2,
    "hardtanh_backward": 2,
    "leaky_relu": 2,
    "leaky_relu_backward": 2,
    "lerp": 3,
    "log_sigmoid_forward": 3,
    "log_sigmoid_backward": 3,
    "mse_loss_backward": 3,
    "native_dropout": 3,
    "native_dropout_backward": 2,
    "_prelu_kernel": 2,
    "_prelu_kernel_backward": 3,
    "rrelu_with_noise": 2,
    "sigmoid_backward": 3,
    "silu": 2,
    "silu_backward": 5,
    "softplus": 3,
    "softplus_backward": 3,
    "tanh_backward": 3,
    "upsample_bilinear2d": 7,
    "upsample_bilinear2d_backward": 7,
}
"""Operations for each element where they are more than one, or where torch does not call the operator element-wise."""

_COPIES = frozenset(
    {
        "_to_copy",
        "cat",
        "channel_shuffle",
        "clone",
        "constant_pad_nd",
        "copy",
        "diagonal_backward",
        "flip",
        "lift_fresh_copy",
        "pixel_shuffle",
        "pixel_unshuffle",
        "reflection_pad1d",
        "reflection_pad2d",
        "repeat",
        "replication_pad2d",
        "roll",
        "select_backward",
        "slice_backward",
        "slice_scatter",
        "select_scatter",
        "split_with_sizes_copy",
        "stack",
        "tril",
        "triu",
        "unfold_backward",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
    }
)
_WRITTEN = frozenset(
    {
        "arange",
        "bernoulli",
        "exponential",
        "eye",
        "fill",
        "full",
        "full_like",
        "linspace",
        "new_full",
        "new_ones",
        "new_zeros",
        "normal",
        "ones",
        "ones_like",
        "rand",
        "rand_like",
        "randint",
        "randn",
        "randn_like",
        "random",
        "scalar_tensor",
        "uniform",
        "zero",
        "zeros",
        "zeros_like",
    }
)
"""They read nothing, and what is drawn costs no operation."""

_ALLOCATED = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})

_LOOKED_UP = {
    "embedding": "weight",
    "index": "self",
    "index_select": "self",
    "gather": "self",
    "nll_loss_forward": "self",
}
"""The argument of which only few places are read, as many as come out."""

_UNREAD = {
    "nll_loss_backward": "self",
    "max_pool2d_with_indices_backward": "self",
    "max_pool3d_with_indices_backward": "self",
    "avg_pool2d_backward": "self",
    "avg_pool3d_backward": "self",
    "_adaptive_avg_pool2d_backward": "self",
    "_adaptive_avg_pool3d_backward": "self",
}
"""The argument of which only the shape is used."""

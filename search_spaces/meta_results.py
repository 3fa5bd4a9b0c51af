"""What results of frequent operators look like, known without running torch's slow kernels of the meta device."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Look = tuple[torch.Size | tuple[int, ...], tuple[int, ...], torch.dtype]
"""Shape, strides and dtype of a tensor."""


def look(tensor: Tensor) -> Look:
    """Shape, strides and dtype."""
    return tensor.shape, tensor.stride(), tensor.dtype


def make(wanted: Look) -> Tensor:
    """A tensor of this look on the meta device, with a storage of its own."""
    shape, strides, dtype = wanted
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def known_looks(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Look, ...] | None:
    """Looks of an operator's results; None where they are not known here, and it must run.

    Only for dense float32 tensors: other dtypes may be computed, or summed, in another one.
    """
    rule = _RULES.get(name)
    if (
        rule is None
        or kwargs.keys() - _IRRELEVANT
        or not all(map(_plain, (value for value in args if isinstance(value, Tensor))))
    ):
        return None
    return rule(args)


_IRRELEVANT = {"approximate"}
"""Named arguments that do not change how results look."""


def _plain(tensor: Tensor) -> bool:
    if tensor.dtype is not torch.float32 or tensor.storage_offset():
        return False
    return tensor.is_contiguous() or (tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def _alike(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """One result, which looks as all tensors among the arguments do."""
    first, *others = {look(value) for value in args if isinstance(value, Tensor)}
    return None if others else (first,)


def _batch_norm(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """input, weight, bias, running mean and variance, training: result, mean and deviation of each channel."""
    images, weight, training = args[0], args[1], args[5]
    if not training or images.ndim < 2 or weight is None:
        return None
    channel: Look = ((images.shape[1],), (1,), images.dtype)
    return look(images), channel, channel


def _batch_norm_backward(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """grad_out, input, weight...: gradients of input, weight and bias."""
    gradient, images, weight, mask = args[0], args[1], args[2], args[9]
    if weight is None or not all(mask) or look(gradient) != look(images):
        return None
    return look(images), look(weight), look(weight)


_RULES: Mapping[str, Callable[[Sequence[Any]], tuple[Look, ...] | None]] = {
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    **dict.fromkeys(
        (
            "relu",
            "threshold_backward",
            "gelu",
            "gelu_backward",
            "silu",
            "silu_backward",
            "sigmoid",
            "sigmoid_backward",
            "tanh",
            "tanh_backward",
            "hardtanh",
            "hardtanh_backward",
            "_softmax",
            "_softmax_backward_data",
            "_log_softmax",
            "_log_softmax_backward_data",
        ),
        _alike,
    ),
}

"""What results of frequent operators look like, known without running torch's slow kernels of the meta device.

A rule speaks only where it is sure, of float32 alone: other dtypes may be computed, or summed, in another one.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
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
    """Looks of an operator's results; None where they are not known here, and it must run."""
    rule = _RULES.get(name)
    if rule is None or kwargs.keys() - _IRRELEVANT:
        return None
    return rule(args)


def own_looks(result: Any, arguments: Sequence[Tensor]) -> tuple[Look | None, ...] | None:
    """Looks of the results of a call that ran; None where they cannot be made alone, each with a whole storage."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    if type(result) not in (Tensor, tuple, list) or not all(type(value) in (Tensor, type(None)) for value in results):
        return None
    given = [value for value in results if value is not None]
    storages = {tensor.untyped_storage()._cdata for tensor in given}
    if len(storages) < len(given) or any(shared([tensor], arguments) for tensor in given):
        return None
    if any(make(look(value)).untyped_storage().nbytes() != value.untyped_storage().nbytes() for value in given):
        return None
    return tuple(None if value is None else look(value) for value in results)


def shared(results: Sequence[Tensor], arguments: Sequence[Tensor]) -> bool:
    """Whether all results are views of arguments."""
    given = {tensor.untyped_storage()._cdata for tensor in arguments}
    return all(result.untyped_storage()._cdata in given for result in results)


_IRRELEVANT = {"approximate"}
"""Named arguments that do not change how results look."""


def _plain(*tensors: Tensor) -> bool:
    """Whether all are dense, of float32, from the start of their storage."""
    return all(
        tensor.dtype is torch.float32
        and not tensor.storage_offset()
        and max(tensor.stride(), default=0) <= tensor.numel()
        and (tensor.is_contiguous() or (tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)))
        for tensor in tensors
    )


def _rows(*sizes: int) -> Look:
    """A contiguous tensor."""
    return sizes, tuple(prod(sizes[dim + 1 :]) for dim in range(len(sizes))), torch.float32


def _alike(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """One result, which looks as all tensors among the arguments do."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    first = look(tensors[0])
    return (first,) if _plain(*tensors) and all(look(tensor) == first for tensor in tensors) else None


def _arithmetic(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """Two tensors that look alike, or a tensor and a real number."""
    return None if isinstance(args[1], complex) or len(args) > 2 else _alike(args)


def _mm(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """``self @ mat2``."""
    left, right = args[:2]
    if left.dtype is not torch.float32 or right.dtype is not torch.float32 or left.shape[1] != right.shape[0]:
        return None
    return (_rows(left.shape[0], right.shape[1]),)


def _addmm(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """``bias + mat1 @ mat2``, where the bias is a row."""
    bias, _, right = args[:3]
    return _mm(args[1:]) if _plain(bias) and bias.shape == right.shape[1:] else None


def _batch_norm(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """input, weight, bias, running mean and variance, training: result, mean and deviation of each channel."""
    images, weight, training = args[0], args[1], args[5]
    if not training or images.ndim < 2 or weight is None or not _plain(images, weight):
        return None
    channels = images.shape[1]
    return look(images), _rows(channels), _rows(channels)


def _batch_norm_backward(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """grad_out, input, weight...: gradients of input, weight and bias."""
    gradient, images, weight, mask = args[0], args[1], args[2], args[9]
    if weight is None or not all(mask) or look(gradient) != look(images) or not _plain(images, weight):
        return None
    return look(images), look(weight), look(weight)


def _layer_norm(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """input, normalized shape, weight, bias: result, mean and deviation of each row."""
    features, last, weight, bias = args[:4]
    if weight is None or bias is None or not _plain(features, weight, bias) or not features.is_contiguous():
        return None
    row = _rows(*features.shape[: features.ndim - len(last)], *(1 for _ in last))
    return look(features), row, row


def _layer_norm_backward(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """grad_out, input, normalized shape, mean, deviation, weight, bias: gradients of input, weight and bias."""
    gradient, features, weight, bias, mask = args[0], args[1], args[5], args[6], args[7]
    if weight is None or bias is None or not all(mask) or look(gradient) != look(features):
        return None
    if not _plain(features, weight, bias) or not features.is_contiguous():
        return None
    return look(features), look(weight), look(bias)


def _nll_loss(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """self, target, weight, reduction...: the mean, and the weight of all targets."""
    scores, _, weight, reduction = args[:4]
    return (_rows(), _rows()) if weight is None and reduction != 0 and _plain(scores) else None


def _nll_loss_backward(args: Sequence[Any]) -> tuple[Look, ...] | None:
    """grad_output, self...: the gradient of the scores."""
    scores = args[1]
    return (look(scores),) if _plain(scores) and scores.is_contiguous() else None


_RULES: Mapping[str, Callable[[Sequence[Any]], tuple[Look, ...] | None]] = {
    "mm": _mm,
    "addmm": _addmm,
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "nll_loss_forward": _nll_loss,
    "nll_loss_backward": _nll_loss_backward,
    **dict.fromkeys(("add", "mul"), _arithmetic),
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

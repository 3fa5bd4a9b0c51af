"""Normalisation, softmax and losses among the operators of torch: work and depth of a call."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from search_spaces import operators_rows as rows
from search_spaces.aten_call import AtenCall
from search_spaces.operators import WorkDepth, elementwise, mean

_MEAN = 1
"""Torch's number for losses that are averaged; others are kept apart or summed."""


def batch_norm(call: AtenCall) -> WorkDepth:
    """Rows are channels, dim 1."""
    channels, length = _channels(call)
    if not call.training:
        return rows.batch_norm_inference(call.input.numel())
    return rows.normalization(channels, length, affine=call.weight is not None)


def batch_norm_gradients(call: AtenCall) -> WorkDepth:
    """Of input, gain and shift."""
    return rows.batch_norm_gradients(*_channels(call), affine=call.weight is not None)


def layer_norm(call: AtenCall) -> WorkDepth:
    """Rows are all but the last dims."""
    length = prod(call.normalized_shape)
    return rows.normalization(call.input.numel() // length, length, affine=call.weight is not None)


def layer_norm_gradients(call: AtenCall) -> WorkDepth:
    """Of input, gain and shift."""
    length = prod(call.normalized_shape)
    return rows.layer_norm_gradients(call.input.numel() // length, length, 0 if call.weight is None else length)


def group_norm(call: AtenCall) -> WorkDepth:
    """Rows are groups of channels of a sample."""
    return rows.normalization(*_groups(call), affine=call.weight is not None)


def group_norm_gradients(call: AtenCall) -> WorkDepth:
    """Of input, gain and shift."""
    return rows.layer_norm_gradients(*_groups(call), 0 if call.weight is None else call.C)


def rms_norm(call: AtenCall) -> WorkDepth:
    """``gain x / sqrt(mean(x^2) + epsilon)`` (Zhang and Sennrich 2019, eq. 4)."""
    length = prod(call.normalized_shape)
    scale = elementwise(length) + mean(length) + elementwise(1, 2)
    count: int = call.input.numel() // length
    return count * (scale + elementwise(length, 1 if call.weight is None else 2))


def rms_norm_gradients(call: AtenCall) -> WorkDepth:
    """As those of layer norm without the mean: counted as that."""
    return layer_norm_gradients(call)


def softmax(call: AtenCall) -> WorkDepth:
    """Over ``dim``."""
    return rows.softmax(*_classes(call))


def softmax_gradient(call: AtenCall) -> WorkDepth:
    """Over ``dim``."""
    return rows.softmax_gradient(*_classes(call))


def log_softmax(call: AtenCall) -> WorkDepth:
    """Over ``dim``."""
    return rows.log_softmax(*_classes(call))


def log_softmax_gradient(call: AtenCall) -> WorkDepth:
    """Over ``dim``."""
    return rows.log_softmax_gradient(*_classes(call))


def nll_loss(call: AtenCall) -> WorkDepth:
    """Of all targets, or where losses are kept apart, their sign."""
    targets: int = call.target.numel()
    return rows.nll_loss(targets) if call.reduction == _MEAN else elementwise(targets)


def nll_loss_gradient(call: AtenCall) -> WorkDepth:
    """One number for all targets, or one each."""
    return rows.nll_loss_gradient() if call.reduction == _MEAN else elementwise(call.target.numel())


def elementwise_loss(operations: int, call: AtenCall) -> WorkDepth:
    """``operations`` for each element, and the mean."""
    n = call.self.numel()
    losses = elementwise(n, operations)
    return losses + mean(n) if call.reduction == _MEAN else losses


NORMALIZATIONS: Mapping[str, Callable[[AtenCall], WorkDepth]] = {
    "native_batch_norm": batch_norm,
    "_native_batch_norm_legit": batch_norm,
    "native_batch_norm_backward": batch_norm_gradients,
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_gradients,
    "native_group_norm": group_norm,
    "native_group_norm_backward": group_norm_gradients,
    "_fused_rms_norm": rms_norm,
    "_fused_rms_norm_backward": rms_norm_gradients,
}
SOFTMAXES: Mapping[str, Callable[[AtenCall], WorkDepth]] = {
    "_softmax": softmax,
    "_safe_softmax": softmax,
    "_softmax_backward_data": softmax_gradient,
    "_log_softmax": log_softmax,
    "_log_softmax_backward_data": log_softmax_gradient,
}
LOSSES: Mapping[str, Callable[[AtenCall], WorkDepth]] = {
    "nll_loss_forward": nll_loss,
    "nll_loss_backward": nll_loss_gradient,
    "nll_loss2d_forward": nll_loss,
    "nll_loss2d_backward": nll_loss_gradient,
    "mse_loss": partial(elementwise_loss, 2),
    "smooth_l1_loss": partial(elementwise_loss, 4),
    "huber_loss": partial(elementwise_loss, 4),
    "binary_cross_entropy": partial(elementwise_loss, 6),
    "binary_cross_entropy_with_logits": partial(elementwise_loss, 7),
}


def _channels(call: AtenCall) -> tuple[int, int]:
    channels: int = call.input.shape[1]
    return channels, call.input.numel() // channels


def _groups(call: AtenCall) -> tuple[int, int]:
    return call.N * call.group, call.C // call.group * call.HxW


def _classes(call: AtenCall) -> tuple[int, int]:
    result = call.result
    classes = result.shape[call.dim] if result.ndim else 1
    return result.numel() // classes, classes

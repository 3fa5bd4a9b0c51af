"""Pooling among the operators of torch: work and depth of a call; sizes are the last dims."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from search_spaces import operators_windows as windows
from search_spaces.aten_call import AtenCall, spread
from search_spaces.operators import WorkDepth

Pooling = Callable[[int, windows.Windows], WorkDepth]


def _sliding(dims: int, pooling: Pooling, gradient: bool, call: AtenCall) -> WorkDepth:
    output = call.grad_output if gradient else call.result
    kernel = spread(call.kernel_size, dims)
    dilation = spread(call.dilation, dims) if "dilation" in call else None
    moved = windows.sliding(output.shape[-dims:], kernel, spread(call.stride or kernel, dims), dilation)
    return pooling(prod(output.shape[:-dims]), moved)


def _adaptive(dims: int, pooling: Pooling, gradient: bool, call: AtenCall) -> WorkDepth:
    output = call.grad_output if gradient else call.result
    moved = windows.adaptive(call.self.shape[-dims:], output.shape[-dims:])
    return pooling(prod(output.shape[:-dims]), moved)


POOLINGS: Mapping[str, Callable[[AtenCall], WorkDepth]] = {
    "max_pool2d_with_indices": partial(_sliding, 2, windows.max_pool, False),
    "max_pool2d_with_indices_backward": partial(_sliding, 2, windows.max_pool_gradient, True),
    "max_pool3d_with_indices": partial(_sliding, 3, windows.max_pool, False),
    "max_pool3d_with_indices_backward": partial(_sliding, 3, windows.max_pool_gradient, True),
    "avg_pool2d": partial(_sliding, 2, windows.average_pool, False),
    "avg_pool2d_backward": partial(_sliding, 2, windows.average_pool_gradient, True),
    "avg_pool3d": partial(_sliding, 3, windows.average_pool, False),
    "avg_pool3d_backward": partial(_sliding, 3, windows.average_pool_gradient, True),
    "_adaptive_avg_pool2d": partial(_adaptive, 2, windows.average_pool, False),
    "_adaptive_avg_pool2d_backward": partial(_adaptive, 2, windows.average_pool_gradient, True),
    "_adaptive_avg_pool3d": partial(_adaptive, 3, windows.average_pool, False),
    "_adaptive_avg_pool3d_backward": partial(_adaptive, 3, windows.average_pool_gradient, True),
    "adaptive_max_pool2d": partial(_adaptive, 2, windows.max_pool, False),
    "adaptive_max_pool2d_backward": partial(_adaptive, 2, windows.max_pool_gradient, True),
    "adaptive_max_pool3d": partial(_adaptive, 3, windows.max_pool, False),
    "adaptive_max_pool3d_backward": partial(_adaptive, 3, windows.max_pool_gradient, True),
}

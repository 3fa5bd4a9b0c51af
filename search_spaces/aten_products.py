"""Products among the operators of torch: matrices, convolutions, attention; FLOPs, and work and depth, of a call.

FLOPs follow torch's counter (`search_spaces.operator_graph.Operator`); it leaves out products of matrix and vector, so
that they have none. A convolution's input is [N, channels, *sizes], its weights [outputs, inputs / groups, *kernel],
transposed [inputs, outputs / groups, *kernel].
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from search_spaces import operators_convolution as direct
from search_spaces import operators_products as products
from search_spaces.aten_call import AtenCall, spread
from search_spaces.operators import WorkDepth, elementwise
from search_spaces.operators_windows import Windows, sliding

Counts = tuple[int, WorkDepth]
"""FLOPs, and work and depth."""


def mm(call: AtenCall) -> Counts:
    """``self @ mat2``."""
    return _matmul(call.self.shape, call.mat2.shape)


def addmm(call: AtenCall) -> Counts:
    """``self + mat1 @ mat2``."""
    flops, product = _matmul(call.mat1.shape, call.mat2.shape)
    return flops, product + elementwise(call.written)


def bmm(call: AtenCall) -> Counts:
    """``self[i] @ mat2[i]`` for each i."""
    batch, *left = call.self.shape
    return _matmul(left, call.mat2.shape[1:], batch)


def baddbmm(call: AtenCall) -> Counts:
    """``self[i] + batch1[i] @ batch2[i]`` for each i."""
    batch, *left = call.batch1.shape
    flops, product = _matmul(left, call.batch2.shape[1:], batch)
    return flops, product + elementwise(call.written)


def mv(call: AtenCall) -> Counts:
    """``self @ vec``."""
    rows, inner = call.self.shape
    return 0, products.matmul(rows, inner, 1)


def dot(call: AtenCall) -> Counts:
    """The sum of products of two vectors."""
    return 0, products.matmul(1, call.self.numel(), 1)


def convolution(call: AtenCall) -> Counts:
    """``input * weight + bias``; transposed, the gradient of such a convolution's input."""
    inputs, outputs = call.input.shape, call.result.shape
    if call.transposed:
        windows = _windows(call, inputs)
        work = direct.convolution_input_gradient(inputs[0], outputs[1], inputs[1], windows, call.groups)
        work = work + elementwise(call.written) if call.bias is not None else work
        return _convolution_flops(inputs, call.weight.shape), work
    windows, bias = _windows(call, outputs), call.bias is not None
    work = direct.convolution(inputs[0], inputs[1], outputs[1], windows, call.groups, bias)
    return _convolution_flops(outputs, call.weight.shape), work


def convolution_backward(call: AtenCall) -> Counts:
    """Gradients of input, weights and bias, side by side, those that ``output_mask`` asks for."""
    inputs, outputs, kernel = call.input.shape, call.grad_output.shape, call.weight.shape
    small, large = (inputs, outputs) if call.transposed else (outputs, inputs)
    windows, groups, batch = _windows(call, small), call.groups, inputs[0]
    parts: list[Counts] = []
    if call.output_mask[0]:
        through = direct.convolution if call.transposed else direct.convolution_input_gradient
        parts.append((_convolution_flops(small, kernel), through(batch, large[1], small[1], windows, groups)))
    if call.output_mask[1]:
        flops = 2 * batch * large[1] * small[1] * windows.outputs * windows.widest
        parts.append((flops, direct.convolution_weight_gradient(batch, large[1], small[1], windows, groups)))
    if call.output_mask[2]:
        parts.append((0, products.bias_gradient(batch * prod(outputs[2:]), outputs[1])))
    work = WorkDepth(0, 0)
    for _, part in parts:
        work = work | part
    return sum(flops for flops, _ in parts), work


def attention(call: AtenCall) -> Counts:
    """Two products forward."""
    sizes = _attention_sizes(call)
    return _attention_flops(sizes), products.attention(*sizes) + _mask(call, sizes)


def attention_gradients(call: AtenCall) -> Counts:
    """Four products, as torch counts them where attention is not fused; the fifth, of scores again, is in the work."""
    sizes = _attention_sizes(call)
    return 2 * _attention_flops(sizes), products.attention_gradients(*sizes) + _mask(call, sizes)


PRODUCTS: Mapping[str, Callable[[AtenCall], Counts]] = {
    "mm": mm,
    "_int_mm": mm,
    "_scaled_mm": mm,
    "addmm": addmm,
    "bmm": bmm,
    "baddbmm": baddbmm,
    "mv": mv,
    "dot": dot,
    "vdot": dot,
}
CONVOLUTIONS: Mapping[str, Callable[[AtenCall], Counts]] = {
    "convolution": convolution,
    "convolution_backward": convolution_backward,
}
ATTENTION: Mapping[str, Callable[[AtenCall], Counts]] = {
    "_scaled_dot_product_flash_attention_for_cpu": attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_gradients,
}


def is_depthwise(call: AtenCall) -> bool:
    """Whether each group of a convolution is one input channel."""
    channels: int = call.weight.shape[0] if call.transposed else call.groups * call.weight.shape[1]
    groups: int = call.groups
    return 1 < groups == channels


def _matmul(left: Sequence[int], right: Sequence[int], batch: int = 1) -> Counts:
    (rows, inner), columns = left, right[-1]
    return 2 * batch * rows * inner * columns, products.matmul(rows, inner, columns, batch)


def _windows(call: AtenCall, shape: Sequence[int]) -> Windows:
    """Windows that give an output of ``shape``, the smaller side of the convolution."""
    dims = len(shape) - 2
    return sliding(shape[2:], call.weight.shape[2:], spread(call.stride, dims), spread(call.dilation, dims))


def _convolution_flops(shape: Sequence[int], kernel: Sequence[int]) -> int:
    """Of a convolution, or its transpose, whose smaller side has ``shape``."""
    return 2 * shape[0] * prod(shape[2:]) * prod(kernel)


def _attention_sizes(call: AtenCall) -> tuple[int, int, int, int, int]:
    """Heads of all samples, queries, keys, width of these and of values."""
    batch, heads, queries, width = call.query.shape
    return batch * heads, queries, call.key.shape[2], width, call.value.shape[3]


def _attention_flops(sizes: tuple[int, int, int, int, int]) -> int:
    heads, queries, keys, width, value_width = sizes
    return 2 * heads * queries * keys * (width + value_width)


def _mask(call: AtenCall, sizes: tuple[int, int, int, int, int]) -> WorkDepth:
    heads, queries, keys, _, _ = sizes
    return WorkDepth(0, 0) if call.attn_mask is None else elementwise(heads * queries * keys)

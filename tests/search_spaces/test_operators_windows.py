"""Convolution and pooling against their expressions, which are held to torch's numbers; also other methods."""

from collections import Counter
from itertools import product as grid
from math import prod

import numpy as np
import pytest
import torch
from torch.nn import functional

from search_spaces import operators_convolution as convolutions
from search_spaces import operators_windows as pooling
from search_spaces.operators_windows import Windows, adaptive, output_size, sliding
from tests.search_spaces.expression import (
    Term,
    agree,
    counted,
    draw,
    given,
    maximum,
    numbers,
    padded,
    product,
    tensor,
    tree,
    windows_of,
)

CONVOLVE = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
AVERAGE = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
ADAPTIVE = {1: functional.adaptive_avg_pool1d, 2: functional.adaptive_avg_pool2d, 3: functional.adaptive_avg_pool3d}


def listed(windows: list[list[int]]) -> Windows:
    """Counted from the places of each window."""
    shared = Counter(place for window in windows for place in window)
    lengths = [len(window) for window in windows]
    return Windows(len(windows), sum(lengths), max(lengths), len(shared), max(shared.values()))


@pytest.mark.parametrize("outputs", range(1, 8))
def test_sliding_windows_along_one_dimension(outputs):
    for kernel, stride, dilation in grid(range(1, 8), range(1, 7), range(1, 7)):
        places = [[o * stride + k * dilation for k in range(kernel)] for o in range(outputs)]
        assert sliding((outputs,), (kernel,), (stride,), (dilation,)) == listed(places)


@pytest.mark.parametrize("size", range(1, 12))
def test_windows_of_adaptive_pooling(size):
    for outputs in range(1, 12):
        places = [
            [p for p in range(size) if p + 1 > o * size // outputs and p * outputs < (o + 1) * size]
            for o in range(outputs)
        ]
        windows = adaptive((size,), (outputs,))
        assert windows.touched == size
        assert windows == listed(places)


def test_windows_in_several_dimensions_multiply():
    rows, columns = [[0, 1, 2], [2, 3, 4]], [[0, 2], [1, 3], [2, 4]]
    both = [[(r, c) for r in row for c in column] for row in rows for column in columns]
    assert sliding((2, 3), (3, 2), (2, 1), (1, 2)) == listed(both)


def geometries():
    """Sizes, kernel, stride, padding, dilation: images in one, two and three dimensions, rectangular kernels."""
    for kernel, stride, padding, dilation in grid(
        ((1, 1), (3, 3), (3, 2)), ((1, 1), (2, 2), (3, 1)), ((0, 0), (1, 2)), ((1, 1), (2, 1))
    ):
        yield (5, 4), kernel, stride, padding, dilation
    for kernel, stride, padding, dilation in grid((1, 3, 4), (1, 2, 3), (0, 1), (1, 2)):
        yield (8,), (kernel,), (stride,), (padding,), (dilation,)
    yield (3, 4, 3), (2, 3, 2), (1, 2, 1), (0, 1, 0), (1, 1, 1)
    yield (3, 3, 5), (3, 1, 2), (1, 1, 3), (1, 0, 0), (1, 1, 2)


def outputs_of(sizes, kernel, stride, padding, dilation):
    return tuple(map(output_size, sizes, kernel, stride, padding, dilation))


GEOMETRIES = [geometry for geometry in geometries() if min(outputs_of(*geometry)) > 0]


def collected(terms, places, count):
    """At each of ``count`` places that receives terms their sum; what receives none is left out."""
    found = [[] for _ in range(count)]
    for term, place in zip(terms, places, strict=True):
        found[place].append(term)
    return {place: tree(np.array(parts, dtype=object)) for place, parts in enumerate(found) if parts}


def image_of(sums, sizes, padding):
    """Numbers of maps of collected terms, [maps, *sizes], zero where nothing was received, without the padding."""
    full = [size + 2 * border for size, border in zip(sizes, padding, strict=True)]
    places = range(prod(full))
    flat = np.array([[one[place].number if place in one else 0.0 for place in places] for one in sums])
    inner = tuple(slice(border, -border or None) for border in padding)
    return flat.reshape(-1, *full)[(..., *inner)]


def cost_of(sums):
    return counted([list(one.values()) for one in sums])


class Convolution:
    """Expressions of one convolution, its groups a dimension of their own and places in one line."""

    def __init__(self, batch, inputs, outputs, groups, geometry):
        self.sizes, self.kernel, self.stride, self.padding, self.dilation = geometry
        self.outputs, self.taps = outputs, prod(self.kernel)
        self.places = outputs_of(*geometry)
        self.x = given(draw(batch, inputs, *self.sizes))
        self.w = given(draw(outputs, inputs // groups, *self.kernel))
        self.b = given(draw(outputs))
        self.dy = given(draw(batch, outputs, *self.places))
        image = padded(self.x, self.padding)
        indices = np.arange(prod(image.shape[2:])).reshape(image.shape[2:])
        self.count = indices.size
        self.windows = windows_of(indices, self.kernel, self.stride, self.dilation).reshape(-1, self.taps)
        columns = image.reshape(batch, groups, inputs // groups, -1)[..., self.windows]
        self.columns = np.moveaxis(columns, 3, 2).reshape(batch, groups, len(self.windows), -1)
        self.kernels = self.w.reshape(groups, outputs // groups, -1)
        self.grouped_dy = self.dy.reshape(batch, groups, outputs // groups, -1)

    def output(self):
        """[batch, groups, outputs, places]."""
        return product(self.columns, self.kernels.swapaxes(1, 2)).swapaxes(2, 3)

    def weight_gradient(self):
        """[groups, outputs, inputs and taps]."""
        groups, length = self.kernels.shape[0], self.kernels.shape[2]
        dy = np.moveaxis(self.grouped_dy, 0, 2).reshape(groups, len(self.kernels[0]), -1)
        return product(dy, np.moveaxis(self.columns, 0, 1).reshape(groups, -1, length))

    def bias_gradient(self):
        return tree(np.moveaxis(self.dy, 0, 1).reshape(self.outputs, -1))

    def input_gradient(self):
        """Sums at the places of each map of the padded image, [batch and inputs]."""
        groups, outputs, _ = self.kernels.shape
        kernels = self.kernels.reshape(groups, outputs, -1, 1, self.taps)
        shares = self.grouped_dy[:, :, :, None, :, None] * kernels
        shares = np.moveaxis(shares, 3, 2).reshape(self.x.shape[0] * self.x.shape[1], -1)
        places = np.broadcast_to(self.windows, (outputs, *self.windows.shape)).ravel()
        return [collected(terms, places, self.count) for terms in shares]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(2, 3, 1), (2, 4, 2), (3, 3, 3)])
def test_convolution(inputs, outputs, groups, geometry):
    batch, (sizes, kernel, stride, padding, dilation) = 2, geometry
    known = Convolution(batch, inputs, outputs, groups, geometry)
    y, dw, db, dx = known.output(), known.weight_gradient(), known.bias_gradient(), known.input_gradient()
    with_bias = y + known.b.reshape(groups, -1, 1)

    windows = sliding(known.places, kernel, stride, dilation)
    shape = batch, inputs, outputs, windows, groups
    assert convolutions.convolution(*shape) == counted(y)
    assert convolutions.convolution(*shape, bias=True) == counted(with_bias)
    assert convolutions.convolution_weight_gradient(*shape) == counted(dw)
    assert convolutions.convolution_bias_gradient(batch, outputs, windows) == counted(db)
    assert convolutions.convolution_input_gradient(*shape) == cost_of(dx)
    assert convolutions.im2col_elements(batch, inputs, windows) == known.columns.size

    tensors = tx, tw, tb = tensor(known.x), tensor(known.w), tensor(known.b)
    expected = CONVOLVE[len(sizes)](tx, tw, tb, stride, padding, dilation, groups)
    agree(with_bias.reshape(expected.shape), expected)
    wanted = torch.autograd.grad(expected, tensors, tensor(known.dy))
    np.testing.assert_allclose(image_of(dx, sizes, padding), wanted[0].flatten(0, 1), atol=1e-12)
    agree(dw.reshape(known.w.shape), wanted[1])
    agree(db, wanted[2])


POOLED = [g for g in GEOMETRIES if all(2 * padding <= kernel for kernel, padding in zip(g[1], g[3], strict=True))]


@pytest.mark.parametrize(("sizes", "kernel", "stride", "padding", "dilation"), POOLED)
def test_max_pooling(sizes, kernel, stride, padding, dilation):
    maps, places = 2, outputs_of(sizes, kernel, stride, padding, dilation)
    x = given(draw(maps, *sizes))
    read = windows_of(padded(x, padding, -np.inf), kernel, stride, dilation).reshape(maps, prod(places), -1)
    y = tree(read, operation=maximum)
    agree(y.reshape(maps, *places), MAX[len(sizes)](tensor(x), kernel, stride, padding, dilation))
    assert pooling.max_pool(maps, sliding(places, kernel, stride, dilation)) == counted(y)


@pytest.mark.parametrize(
    ("sizes", "kernel", "stride", "padding"), [geometry[:4] for geometry in POOLED if set(geometry[4]) == {1}]
)
def test_average_pooling(sizes, kernel, stride, padding):
    ones = (1,) * len(sizes)
    maps, places = 2, outputs_of(sizes, kernel, stride, padding, ones)
    windows = sliding(places, kernel, stride)
    x, dy = given(draw(maps, *sizes)), given(draw(maps, *places))
    image = padded(x, padding)
    y = tree(windows_of(image, kernel, stride, ones).reshape(maps, prod(places), -1)) / given(prod(kernel))
    assert pooling.average_pool(maps, windows) == counted(y)

    indices = np.arange(image[0].size).reshape(image[0].shape)
    where = windows_of(indices, kernel, stride, ones).reshape(prod(places), -1)
    shares = np.repeat((dy / given(prod(kernel))).reshape(maps, -1), where.shape[1], axis=1)
    dx = [collected(terms, where.ravel(), indices.size) for terms in shares]
    assert pooling.average_pool_gradient(maps, windows) == cost_of(dx)

    tx = tensor(x)
    expected = AVERAGE[len(sizes)](tx, kernel, stride, padding)
    agree(y.reshape(maps, *places), expected)
    (wanted,) = torch.autograd.grad(expected, tx, tensor(dy))
    np.testing.assert_allclose(image_of(dx, sizes, padding), wanted, atol=1e-12)


@pytest.mark.parametrize(("size", "outputs"), [((7,), (3,)), ((5, 4), (2, 3)), ((3, 3), (1, 1)), ((2, 3), (3, 4))])
def test_adaptive_average_pooling(size, outputs):
    maps, windows = 2, adaptive(size, outputs)
    x, dy = given(draw(maps, *size)), given(draw(maps, *outputs))
    bounds = [[range(o * s // n, -(-(o + 1) * s // n)) for o in range(n)] for s, n in zip(size, outputs, strict=True)]
    indices = np.arange(prod(size)).reshape(size)
    where = [indices[np.ix_(*window)].ravel() for window in grid(*bounds)]
    flat = x.reshape(maps, -1)
    y = np.array([[tree(line[window]) / Term(len(window)) for window in where] for line in flat])
    tx = tensor(x)
    expected = ADAPTIVE[len(size)](tx, outputs)
    agree(y.reshape(expected.shape), expected)
    assert pooling.average_pool(maps, windows) == counted(y)

    dx = []
    for line in dy.reshape(maps, -1):
        shares = [term / Term(len(window)) for term, window in zip(line, where, strict=True)]
        terms = [share for share, window in zip(shares, where, strict=True) for _ in window]
        dx.append(collected(terms, np.concatenate(where), indices.size))
    assert pooling.average_pool_gradient(maps, windows) == cost_of(dx)
    (wanted,) = torch.autograd.grad(expected, tx, tensor(dy))
    np.testing.assert_allclose(image_of(dx, size, (0,) * len(size)), wanted)


@pytest.mark.parametrize(
    ("sizes", "kernel", "stride"), [((5, 5), (3, 3), (2, 2)), ((6, 4), (2, 2), (2, 2)), ((6,), (3,), (1,))]
)
def test_the_gradient_of_max_pooling_adds_at_the_maxima(sizes, kernel, stride):
    ones = (1,) * len(sizes)
    places = outputs_of(sizes, kernel, stride, (0,) * len(sizes), ones)
    where = windows_of(np.arange(prod(sizes)).reshape(sizes), kernel, stride, ones).reshape(prod(places), -1)
    most_shared = Counter(where.ravel().tolist()).most_common(1)[0][0]
    cost = pooling.max_pool_gradient(1, sliding(places, kernel, stride))
    for peak in (None, most_shared):
        image = draw(prod(sizes))
        if peak is not None:
            image[peak] = 10.0
        dy = given(draw(*places)).ravel()
        winners = where[np.arange(len(where)), image[where].argmax(1)]
        zeros = [*given(np.zeros(prod(sizes)))]
        dx = collected([*zeros, *dy], [*range(prod(sizes)), *winners], prod(sizes))
        known = counted(list(dx.values()))
        assert cost.work == known.work
        assert cost.depth == known.depth if peak is not None else cost.depth >= known.depth
        tx = torch.tensor(image.reshape(1, *sizes), requires_grad=True)
        MAX[len(sizes)](tx, kernel, stride).backward(tensor(dy.reshape(1, *places)))
        np.testing.assert_allclose(image_of([dx], sizes, (0,) * len(sizes)), tx.grad)


WINOGRAD = {
    (2, 3): (
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]],
    )
}
"""B^T, G, A^T of F(2 x 2, 3 x 3) (Lavin and Gray 2016, eq. 10)."""


@pytest.mark.parametrize(
    ("batch", "inputs", "outputs", "places"), [(1, 2, 3, (4, 2)), (2, 3, 1, (2, 2)), (1, 1, 1, (2, 4))]
)
def test_winograd(batch, inputs, outputs, places):
    b, g, a = (given(np.array(matrix, dtype=float)) for matrix in WINOGRAD[2, 3])
    x, w = given(draw(batch, inputs, *(side + 2 for side in places))), given(draw(outputs, inputs, 3, 3))
    tiles = windows_of(x, (4, 4), (2, 2), (1, 1))
    filters = product(product(g, w), g.T)
    patches = product(product(b, tiles), b.T)
    points = tree(filters[None, :, :, None, None] * patches[:, None], axis=2)
    y = product(product(a, points), a.T)
    expected = functional.conv2d(tensor(x), tensor(w))
    agree(np.moveaxis(y, 4, 3).reshape(expected.shape), expected)
    assert convolutions.winograd_convolution(batch, inputs, outputs, places, 2, 3) == counted(y)


class Complex:
    """Two terms."""

    def __init__(self, real, imaginary):
        self.parts = real, imaginary

    def __add__(self, other):
        return Complex(*(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def __sub__(self, other):
        return Complex(*(a - b for a, b in zip(self.parts, other.parts, strict=True)))

    def __mul__(self, other):
        (a, b), (c, d) = self.parts, other.parts
        return Complex(a * c - b * d, a * d + b * c)


def spectrum(line, sign):
    """Along the first dimension, by halves (Cooley and Tukey 1965)."""
    n = len(line)
    if n == 1:
        return line
    even, odd = spectrum(line[0::2], sign), spectrum(line[1::2], sign)
    turns = np.exp(sign * 2j * np.pi * np.arange(n // 2) / n)
    factors = np.array([Complex(Term(turn.real), Term(turn.imag)) for turn in turns], dtype=object)
    odd = odd * factors.reshape(-1, *(1,) * (line.ndim - 1))
    return np.concatenate([even + odd, even - odd])


def transformed(image, sign):
    """Along the last two dimensions."""
    for axis in (-1, -2):
        image = np.moveaxis(spectrum(np.moveaxis(image, axis, 0), sign), 0, axis)
    return image


@pytest.mark.parametrize(
    ("batch", "inputs", "outputs", "sizes"), [(1, 2, 3, (4, 2)), (2, 3, 1, (2, 2)), (1, 1, 1, (4, 4))]
)
def test_fft(batch, inputs, outputs, sizes):
    images, filters = draw(batch, inputs, *sizes), draw(outputs, inputs, *sizes)
    to_complex = np.frompyfunc(lambda number: Complex(Term(number), Term(0.0)), 1, 1)
    x, w = transformed(to_complex(images), -1), transformed(to_complex(filters / prod(sizes)), -1)
    y = transformed(tree(x[:, None] * w[None], axis=2), 1)
    parts = np.array([term for value in y.flat for term in value.parts]).reshape(-1, 2)
    spectra = np.fft.fft2(images)[:, None] * np.fft.fft2(filters)[None]
    np.testing.assert_allclose(numbers(parts[:, 0]), np.fft.ifft2(spectra.sum(2)).real.ravel(), atol=1e-12)
    assert convolutions.fft_convolution(batch, inputs, outputs, sizes) == counted(parts)


def test_the_side_of_an_image_is_rounded_up_to_a_power_of_two():
    assert convolutions.fft_convolution(1, 2, 3, (5, 7)) == convolutions.fft_convolution(1, 2, 3, (8, 8))


def test_winograd_needs_fewer_products_than_the_direct_form():
    """Per output of F(2 x 2, 3 x 3) 4 products and not 9, apart from transforms (Lavin and Gray 2016, section 4.1)."""
    direct = convolutions.convolution(1, 256, 256, sliding((56, 56), (3, 3)))
    winograd = convolutions.winograd_convolution(1, 256, 256, (56, 56), 2, 3)
    assert 1.8 < direct.work / winograd.work < 2.25

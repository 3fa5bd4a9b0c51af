"""Work and depth of operators against their expressions, which are held to torch's numbers."""

from itertools import product as grid

import numpy as np
import pytest
import torch
from torch.nn import functional

from search_spaces import operators as basic
from search_spaces import operators_products as products
from search_spaces import operators_rows as rows
from search_spaces.operators import COPY, WorkDepth
from tests.search_spaces.expression import Term, agree, counted, draw, given, maximum, numbers, product, tensor, tree

SMALL = (1, 2, 3, 4, 5, 8)


def test_in_sequence_work_and_depth_add_and_side_by_side_the_deeper_counts():
    first, second = WorkDepth(5, 2), WorkDepth(7, 3)
    assert first + second == WorkDepth(12, 5)
    assert first | second == WorkDepth(12, 3)
    assert 4 * first == first | first | first | first


@pytest.mark.parametrize("n", SMALL)
def test_element_wise_operations_sums_means_and_inner_products(n):
    a, b = given(draw(n)), given(draw(n))
    assert basic.elementwise(n) == counted(a + b)
    assert basic.elementwise(n, 3) == counted(np.tanh(a + b) * b)
    assert basic.dot(n) == counted(tree(a * b))
    assert basic.mean(n) == counted(tree(a) / given(n))
    if n > 1:
        assert basic.reduction(n) == counted(tree(a)) == counted(tree(a, operation=maximum))
    assert basic.reduction(1) == COPY


def test_moving_numbers_is_no_operation():
    joined = np.concatenate([given(draw(2, 3)), given(draw(2, 4))], 1).T[1:]
    assert counted(joined) == COPY


@pytest.mark.parametrize(("batch", "inputs", "outputs"), list(grid((1, 2, 5), (1, 3, 4), (1, 2, 6))))
def test_fully_connected(batch, inputs, outputs):
    x, w, b, dy = (given(draw(*shape)) for shape in ((batch, inputs), (inputs, outputs), (outputs,), (batch, outputs)))
    y, dw, dx, db = product(x, w), product(x.T, dy), product(dy, w.T), tree(dy, 0)
    tx, tw, tb = tensor(x), tensor(w), tensor(b)
    agree(y + b, tx @ tw + tb)
    (tx @ tw + tb).backward(tensor(dy))
    for terms, gradient in ((dx, tx.grad), (dw, tw.grad), (db, tb.grad)):
        agree(terms, gradient)
    assert products.fully_connected(batch, inputs, outputs) == counted(y)
    assert products.fully_connected(batch, inputs, outputs, bias=True) == counted(y + b)
    assert products.fully_connected_weight_gradient(batch, inputs, outputs) == counted(dw)
    assert products.fully_connected_input_gradient(batch, inputs, outputs) == counted(dx)
    assert products.bias_gradient(batch, outputs) == counted(db)


@pytest.mark.parametrize(
    ("queries", "keys", "width", "value_width"),
    [(3, 5, 4, 2), (2, 2, 1, 1), (1, 4, 2, 3), (4, 1, 3, 5), (2, 3, 1, 33), (9, 1, 1, 17)],
)
def test_attention(queries, keys, width, value_width):
    heads = 2
    shapes = ((heads, queries, width), (heads, keys, width), (heads, keys, value_width), (heads, queries, value_width))
    q, k, v, do = (given(draw(*shape)) for shape in shapes)
    scale = given(width**-0.5)
    scores = product(q, k.swapaxes(1, 2)) * scale
    shifted = np.exp(scores - tree(scores, operation=maximum)[..., None])
    y = product(shifted / tree(shifted)[..., None], v)
    assert products.attention(heads, queries, keys, width, value_width) == counted(y)

    log_sums = given(np.log(np.exp(numbers(scores)).sum(-1, keepdims=True)))
    p = np.exp(product(q, k.swapaxes(1, 2)) * scale - log_sums)
    dv, dp = product(p.swapaxes(1, 2), do), product(do, v.swapaxes(1, 2))
    ds = p * (dp - tree(p * dp)[..., None]) * scale
    dq, dk = product(ds, k), product(ds.swapaxes(1, 2), q)
    assert products.attention_gradients(heads, queries, keys, width, value_width) == counted(dq, dk, dv)

    tensors = tq, tk, tv = tensor(q), tensor(k), tensor(v)
    expected = functional.scaled_dot_product_attention(tq, tk, tv)
    agree(y, expected)
    for terms, gradient in zip((dq, dk, dv), torch.autograd.grad(expected, tensors, tensor(do)), strict=True):
        agree(terms, gradient)


@pytest.mark.parametrize("words", [(0, 0, 0, 0), (2,), (1, 1, 2, 1, 0)])
def test_the_gradient_of_an_embedding(words):
    width, vocabulary, dy = 3, 4, given(draw(len(words), 3))
    where = [[place for place, word in enumerate(words) if word == row] for row in range(vocabulary)]
    table = np.array([tree(np.concatenate([given(np.zeros((1, width))), dy[places]]), 0) for places in where])
    weight = torch.zeros(vocabulary, width, dtype=torch.float64, requires_grad=True)
    functional.embedding(torch.tensor(words), weight).backward(tensor(dy))
    agree(table, weight.grad)
    known, cost = counted(table), basic.embedding_gradient(len(words), width)
    assert cost.work == known.work
    assert cost.depth == known.depth if len(set(words)) == 1 else cost.depth >= known.depth


def normalised(x):
    """Of the rows, [R, M]; and what the gradient keeps of it: the means and the roots' reciprocals."""
    length = given(x.shape[1])
    mean = (tree(x) / length)[:, None]
    centred = x - mean
    root = np.sqrt((tree(centred * centred) / length)[:, None] + given(1e-5))
    return centred / root, given(numbers(mean)), given(1 / numbers(root))


def gradient_of_rows(z, g, scale):
    """``((g - sum(g) / M) - z sum(g z) / M) scale``, and both sums."""
    sums = tree(g), tree(g * z)
    mean, share = ((part / given(z.shape[1]))[:, None] for part in sums)
    return ((g - mean) - z * share) * scale, *sums


@pytest.mark.parametrize(("channels", "length"), [(2, 1), (1, 2), (3, 6), (2, 9)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(channels, length, affine):
    x, dy = given(draw(channels, length)), given(draw(channels, length)[:, ::-1])
    gain, shift = given(draw(2, channels, 1))
    y, mean, reciprocal = normalised(x)
    y = y * gain + shift if affine else y
    dx, *sums = gradient_of_rows((x - mean) * reciprocal, dy, gain * reciprocal if affine else reciprocal)
    assert rows.normalization(channels, length, affine) == counted(y)
    assert rows.batch_norm_gradients(channels, length, affine) == counted(dx, *sums)
    assert rows.batch_norm_inference(channels * length) == counted(x * gain + shift)
    if length > 1:
        tx, weights = tensor(x.T), [tensor(shift[:, 0]), tensor(gain[:, 0])][: 2 * affine]
        expected = functional.batch_norm(tx, None, None, *reversed(weights), training=True)
        agree(y.T, expected)
        for terms, gradient in zip(
            (dx.T, *sums), torch.autograd.grad(expected, (tx, *weights), tensor(dy.T)), strict=False
        ):
            agree(terms, gradient)


@pytest.mark.parametrize(
    ("samples", "channels", "places", "groups"), [(1, 4, 1, 1), (5, 3, 1, 1), (2, 6, 2, 3), (9, 2, 1, 2)]
)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_and_group_norm(samples, channels, places, groups, affine):
    x, dy = given(draw(samples, channels, places)), given(draw(samples, channels, places)[::-1])
    gain, shift = given(draw(2, channels, 1))

    def as_rows(terms):
        return terms.reshape(samples * groups, -1)

    z, mean, reciprocal = normalised(as_rows(x))
    y = z.reshape(x.shape)
    y = y * gain + shift if affine else y
    z = (as_rows(x) - mean) * reciprocal
    dx, *_ = gradient_of_rows(z, as_rows(dy * gain if affine else dy), reciprocal)
    per_channel = ((dy * z.reshape(x.shape)), dy)
    sums = [tree(np.moveaxis(part, 1, 0).reshape(channels, -1)) for part in per_channel][: 2 * affine]
    length = channels // groups * places
    assert rows.normalization(samples * groups, length, affine) == counted(y)
    assert rows.layer_norm_gradients(samples * groups, length, channels * affine) == counted(dx, *sums)
    tx, weights = tensor(x), [tensor(gain[:, 0]), tensor(shift[:, 0])][: 2 * affine]
    expected = functional.group_norm(tx, groups, *weights)
    agree(y, expected)
    wanted = torch.autograd.grad(expected, (tx, *weights), tensor(dy))
    for terms, gradient in zip((dx.reshape(x.shape), *sums), wanted, strict=True):
        agree(terms, gradient)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("classes", SMALL)
def test_softmax_and_log_softmax_and_cross_entropy(samples, classes):
    x, dy = given(draw(samples, classes)), given(draw(samples + 1, classes)[1:])
    shifted = x - tree(x, operation=maximum)[:, None]
    y = np.exp(shifted)
    y = y / tree(y)[:, None]
    log_y = shifted - np.log(tree(np.exp(shifted)))[:, None]
    labels = np.arange(samples) % classes
    loss = tree(log_y[np.arange(samples), labels]) / given(-samples)
    assert rows.softmax(samples, classes) == counted(y)
    assert rows.log_softmax(samples, classes) == counted(log_y)
    assert rows.cross_entropy(samples, classes) == counted(loss, log_y)

    kept = given(numbers(y))
    softmax_dx = kept * (dy - tree(kept * dy)[:, None])
    kept = given(numbers(log_y))
    log_softmax_dx = dy - np.exp(kept) * tree(dy)[:, None]
    picked = given(np.zeros((samples, classes)))
    picked[np.arange(samples), labels] = Term(1.0) / Term(-samples)
    loss_dx = picked - np.exp(kept) * tree(picked)[:, None]
    assert rows.softmax_gradient(samples, classes) == counted(softmax_dx)
    assert rows.log_softmax_gradient(samples, classes) == counted(log_softmax_dx)
    assert rows.cross_entropy_gradient(samples, classes) == counted(loss_dx)

    tx = tensor(x)
    results = (functional.softmax(tx, 1), y, softmax_dx), (functional.log_softmax(tx, 1), log_y, log_softmax_dx)
    for expected, terms, gradient in results:
        agree(terms, expected)
        agree(gradient, torch.autograd.grad(expected, tx, tensor(dy))[0])
    expected = functional.cross_entropy(tx, torch.tensor(labels))
    agree(loss, expected)
    agree(loss_dx, torch.autograd.grad(expected, tx)[0])

"""Recurrent cells and layers against their expressions, which are held to torch's numbers."""

import numpy as np
import pytest
import torch
from torch import nn

from search_spaces.operators_recurrent import gru_cell, lstm_cell, recurrent_layers
from tests.search_spaces.expression import agree, counted, draw, given, product, sigmoid, tensor

SHAPES = [(1, 1, 1), (2, 3, 2), (1, 2, 5), (3, 4, 4)]


def lstm(x, h, c, w, b):
    """``w`` is [Ci + Ch, 4 Ch], gates in torch's order."""
    gates = product(np.concatenate([x, h], 1), w) + b
    i, f, g, o = np.split(gates, 4, 1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def filled(module, **parameters):
    """Of double precision, with the terms as parameters and zeros for others."""
    module = module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(tensor(parameters[name]) if name in parameters else torch.zeros_like(parameter))
    return module


@pytest.mark.parametrize(("batch", "inputs", "width"), SHAPES)
def test_lstm_cell(batch, inputs, width):
    x, h, c = given(draw(batch, inputs)), given(draw(batch, width)), given(draw(batch, width)[::-1])
    w, b = given(draw(inputs + width, 4 * width)), given(draw(4 * width))
    cell = filled(nn.LSTMCell(inputs, width), weight_ih=w[:inputs].T, weight_hh=w[inputs:].T, bias_ih=b)
    results = lstm(x, h, c, w, b)
    for terms, expected in zip(results, cell(tensor(x), (tensor(h), tensor(c))), strict=True):
        agree(terms, expected)
    assert lstm_cell(batch, inputs, width) == counted(*results)


@pytest.mark.parametrize(("batch", "inputs", "width"), SHAPES)
def test_gru_cell(batch, inputs, width):
    x, h = given(draw(batch, inputs)), given(draw(batch, width))
    w, b, c = given(draw(inputs + width, 3 * width)), given(draw(3 * width)), given(draw(width))
    gates = product(np.concatenate([x, h], 1), w[:, : 2 * width]) + b[: 2 * width]
    r, z = np.split(sigmoid(gates), 2, 1)
    read, kept = product(x, w[:inputs, 2 * width :]) + b[2 * width :], product(h, w[inputs:, 2 * width :]) + c
    new = (given(np.ones_like(z, dtype=float)) - z) * np.tanh(read + r * kept) + z * h
    bias_hh = np.concatenate([given(np.zeros(2 * width)), c])
    cell = filled(nn.GRUCell(inputs, width), weight_ih=w[:inputs].T, weight_hh=w[inputs:].T, bias_ih=b, bias_hh=bias_hh)
    agree(new, cell(tensor(x), tensor(h)))
    assert gru_cell(batch, inputs, width) == counted(new)


@pytest.mark.parametrize(
    ("inputs", "width", "layers", "steps"), [(2, 2, 1, 3), (2, 2, 3, 2), (5, 2, 2, 3), (1, 3, 3, 4)]
)
def test_stacked_layers(inputs, width, layers, steps):
    sequence = given(draw(steps, 1, inputs))
    weights = [given(draw((inputs if layer == 0 else width) + width, 4 * width)) for layer in range(layers)]
    biases = given(draw(layers, 4 * width))
    lines = sequence
    for w, b in zip(weights, biases, strict=True):
        h = c = given(np.zeros((1, width)))
        outputs = []
        for x in lines:
            h, c = lstm(x, h, c, w, b)
            outputs.append(h)
        lines = np.array(outputs)
    parameters = {}
    for layer, (w, b) in enumerate(zip(weights, biases, strict=True)):
        split = len(w) - width
        parameters |= {f"weight_ih_l{layer}": w[:split].T, f"weight_hh_l{layer}": w[split:].T, f"bias_ih_l{layer}": b}
    expected, _ = filled(nn.LSTM(inputs, width, layers), **parameters)(tensor(sequence))
    agree(lines, expected)
    cells = [lstm_cell(1, inputs if layer == 0 else width, width) for layer in range(layers)]
    assert recurrent_layers(cells, steps) == counted(lines, c)


def test_equal_cells_advance_as_a_wavefront():
    cell = lstm_cell(4, 8, 8)
    stack = recurrent_layers([cell] * 3, 10)
    assert (stack.work, stack.depth) == (3 * 10 * cell.work, (3 + 10 - 1) * cell.depth)

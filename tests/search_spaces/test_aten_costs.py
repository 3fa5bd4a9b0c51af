"""Costs of single calls of torch's operators, by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from search_spaces.operator_graph import Kind, Phase
from search_spaces.tracing import trace

BATCH, LENGTH, WIDTH = 4, 8, 16
NUMBERS = BATCH * LENGTH * WIDTH


class Function(nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, inputs):
        return self.function(inputs)


def forward_operators(function, inputs=None):
    given = torch.empty(BATCH, LENGTH, WIDTH) if inputs is None else inputs
    graph = trace(Function(function), [given], BATCH, lambda outputs: outputs)
    assert graph.unknown == ()
    return [operator for operator in graph.operators if operator.phase is Phase.FORWARD]


@pytest.mark.parametrize(
    ("function", "kind", "work", "depth"),
    [
        (torch.relu, Kind.ELEMENTWISE, NUMBERS, 1),
        (lambda x: x + 1, Kind.ELEMENTWISE, NUMBERS, 1),
        (lambda x: x.mul_(2), Kind.ELEMENTWISE, NUMBERS, 1),
        (functional.silu, Kind.ELEMENTWISE, 2 * NUMBERS, 2),
        (lambda x: x.sum(), Kind.REDUCTION, NUMBERS - 1, 9),
        (lambda x: x.sum(1), Kind.REDUCTION, BATCH * WIDTH * 7, 3),
        (lambda x: x.amax((1, 2)), Kind.REDUCTION, BATCH * 127, 7),
        (lambda x: x.mean(-1), Kind.REDUCTION, BATCH * LENGTH * 16, 5),
        (lambda x: x.var(-1), Kind.REDUCTION, BATCH * LENGTH * 4 * 16, 12),
        (lambda x: x.cumsum(1), Kind.REDUCTION, NUMBERS, 3),
        (lambda x: x.softmax(-1), Kind.SOFTMAX, BATCH * LENGTH * (5 * 16 - 2), 11),
        (lambda x: functional.layer_norm(x, (16,)), Kind.NORMALIZATION, BATCH * LENGTH * (5 * 16 + 2), 15),
        (lambda x: functional.max_pool2d(x[None], 2), Kind.POOLING, BATCH * 4 * 8 * 3, 2),
        (lambda x: functional.avg_pool2d(x[None], 2), Kind.POOLING, BATCH * 4 * 8 * 4, 3),
        (lambda x: functional.adaptive_avg_pool2d(x[None], (2, 4)), Kind.POOLING, BATCH * 8 * 16, 5),
        (lambda x: torch.cat([x, x], 1), Kind.COPY, 0, 0),
        (lambda x: x.clone(), Kind.COPY, 0, 0),
        (lambda x: x[:, [1, 2]], Kind.EMBEDDING, 0, 0),
        (lambda x: functional.interpolate(x, scale_factor=2), Kind.COPY, 0, 0),
    ],
)
def test_work_and_depth(function, kind, work, depth):
    operator = forward_operators(function)[-1]
    assert (operator.kind, operator.work, operator.depth, operator.flops) == (kind, work, depth, 0)


def test_views_cost_nothing_and_are_no_operators():
    assert forward_operators(lambda x: x.transpose(1, 2).unflatten(1, (4, 4))[:, 1:, :, None].detach()) == []


@pytest.mark.parametrize(
    ("function", "read", "written"),
    [
        (torch.relu, NUMBERS, NUMBERS),
        (lambda x: x + x, 2 * NUMBERS, NUMBERS),
        (lambda x: x[:, :2] * 2, NUMBERS // 4, NUMBERS // 4),
        (lambda x: x * x[:1, :1].expand_as(x), NUMBERS + WIDTH, NUMBERS),
        (lambda x: x.mul_(2), NUMBERS, NUMBERS),
        (lambda x: x.zero_(), 0, NUMBERS),
        (lambda x: torch.zeros_like(x), 0, NUMBERS),
    ],
)
def test_bytes_are_those_of_different_places(function, read, written):
    (operator,) = forward_operators(function)
    assert (operator.read_bytes, operator.written_bytes) == (4 * read, 4 * written)


def test_of_a_table_only_the_rows_that_come_out_are_read():
    with torch.device("meta"):
        table, tokens = nn.Embedding(1000, WIDTH), torch.empty(BATCH, LENGTH, dtype=torch.int64)
    lookup, *_, gradient = (o for o in trace(table, [tokens], BATCH).operators if o.kind is Kind.EMBEDDING)
    assert (lookup.read_bytes, lookup.written_bytes) == (4 * NUMBERS + 8 * BATCH * LENGTH, 4 * NUMBERS)
    assert lookup.parameters == 1000 * WIDTH
    assert (gradient.work, gradient.depth, gradient.written_bytes) == (NUMBERS, 6, 4 * 1000 * WIDTH)


def test_gradients_of_a_grouped_convolution():
    """MODELS.md 1, and torch's FLOPs, in which the weights' gradient is that of one group."""
    with torch.device("meta"):
        network = nn.Conv2d(4, 6, 3, groups=2)
        images = torch.empty(2, 4, 5, 5, requires_grad=True)
    gradient = trace(network, [images], 2, lambda outputs: outputs.sum()).operators[-1]
    products = 2 * 4 * 3 * 9 * 9  # N, inputs, outputs of a group, places, kernel
    weights = 6 * 2 * 9 * (2 * 2 * 9 - 1)
    inputs = 2 * products - 2 * 4 * 25
    assert gradient.work == weights + inputs + 6 * (2 * 9 - 1)
    assert gradient.depth == max(1 + 5, 1 + 5, 5)  # 18 places; 3 outputs under 9 windows; 18 places
    assert gradient.flops == 2 * products + 2 * 2 * 4 * 6 * 9 * 9

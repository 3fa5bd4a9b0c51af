"""Columns of a graph: what is counted once, where units start, what passes a border."""

import numpy as np
import pytest

from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase, Role, Storage
from tests.trainers.parallelism.priced_samples import perceptron, product
from trainers.parallelism.share import Share
from trainers.parallelism.workload import columns


def test_backward_operators_belong_to_the_unit_of_their_layer():
    work = perceptron(4, (8, 16, 32))
    assert work.unit.tolist() == [0, 1, 1, 1, 0, 0]
    assert work.backward.tolist() == [False, False, True, True, True, True]
    assert work.parameters.tolist() == [128.0, 512.0, 0, 0, 0, 0]


def test_a_layer_that_runs_twice_is_two_units():
    names = ["a", "a", "b", "a", ""]
    graph = OperatorGraph(tuple(product(name, Phase.FORWARD, 1, 1, 1, 0, 0, ()) for name in names), 1, 0)
    assert columns(graph).unit.tolist() == [0, 0, 1, 2, 2]


def test_a_result_that_is_read_later_passes_every_border_between_once():
    sizes, inputs = [10, 20, 30, 40], [(), (0,), (1,), (0, 2)]
    graph = OperatorGraph(
        tuple(
            product(str(place), Phase.FORWARD, 1, 0, size, 0, 0, reads)
            for place, (size, reads) in enumerate(zip(sizes, inputs, strict=True))
        ),
        1,
        0,
    )
    assert columns(graph).crossing_bytes.tolist() == [0, 10, 30, 40, 0]  # 10 to the end, beside 20, then 30
    assert columns(graph).unit_inputs == ((), (0,), (1,), (0, 2))


def test_what_a_backward_operator_reads_passes_no_border_forward():
    assert perceptron(4, (8, 16, 32)).crossing_bytes.tolist() == [0, 4 * 4 * 16, 0]


def test_renumbered_units_hold_the_same_operators():
    work = perceptron(4, (8, 16, 32, 8))
    again = work.reordered([2, 0, 1])
    costs = np.arange(9.0)
    assert again.per_unit(costs).tolist() == work.per_unit(costs)[[2, 0, 1]].tolist()
    assert again.reordered([1, 2, 0]).unit.tolist() == work.unit.tolist()


@pytest.mark.parametrize("starts", [(), (1,), (1, 3)])
def test_equal_operators_are_counted_not_repeated(starts):
    share = Share(perceptron(16, (16,) * 6, divided=False), starts)
    places, times = share.distinct
    assert len(places) == 1  # x, w and y are of one size: forward, by input and by weight alike
    assert times.sum() == 15
    seconds = share.work.flops
    for phase, backward in enumerate((False, True)):
        direct = share.per_stage(seconds * (share.work.backward == backward))
        assert (times[phase] @ seconds[places]).tolist() == direct.tolist()


def test_temporaries_are_those_that_live_while_an_operator_runs():
    operators = tuple(
        Operator(str(place), Kind.MATMUL, Phase.FORWARD, 0, 0, 0, 100, 100, 0, 0, ()) for place in range(3)
    )
    lives = (Storage(Role.TEMPORARY, 5, 0, 2), Storage(Role.TEMPORARY, 7, 1, 3), Storage(Role.ACTIVATION, 9, 0, 3))
    assert columns(OperatorGraph(operators, 1, 0, lives)).temporary_bytes.tolist() == [5, 12, 7]
    assert columns(OperatorGraph(operators, 1, 0)).temporary_bytes.tolist() == [200, 200, 200]


def test_a_traced_network_is_cut_between_its_modules():
    from torch import nn

    from search_spaces.signature import Signature, TensorType
    from search_spaces.tracing import trace

    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    signature = Signature(TensorType((8,), "float32"), TensorType((4,), "float32"))
    graph = trace(network, signature, 32)
    work = columns(graph)
    assert work.units == 4  # with the loss
    assert work.crossing_bytes[1:4].tolist() == [32 * 16 * 4, 32 * 16 * 4, 32 * 4 * 4]
    assert Share(work, (1, 2)).parameters.tolist() == [8 * 16 + 16, 0, 16 * 4 + 4]
    by_unit = work.per_unit(work.flops * work.backward)
    assert by_unit.tolist() == [2 * 32 * 8 * 16, 0, 2 * 2 * 32 * 16 * 4, 0]  # no gradient of the network's input


def traced(network, *shape, batch=8):
    from search_spaces.signature import Signature, TensorType
    from search_spaces.tracing import trace

    return columns(trace(network.to("meta"), Signature(TensorType(shape), TensorType((4,))), batch))


def test_weights_are_shared_out_among_their_own_readers():
    from torch import nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.idle = (nn.Linear(64, 64, bias=False) for _ in range(3))

        def forward(self, x):
            for _ in range(4):
                x = self.a(x).relu()
            return self.b(x)

    work = traced(Tied(), 64)
    assert work.per_unit(work.parameters).tolist() == [4096, 4096, 0]
    assert work.per_unit(work.tensors).tolist() == [1, 1, 0]
    assert sorted(work.parameters[work.parameters > 0].tolist()) == [1024] * 4 + [4096]


def test_gradients_of_a_module_that_runs_several_times_are_of_their_own_units():
    from torch import nn

    act = nn.ReLU()
    work = traced(nn.Sequential(*(module for _ in range(4) for module in (nn.Linear(16, 16), act))), 16)
    moved = work.per_unit(work.bytes * work.backward)
    assert moved[1:8:2].tolist() == [3 * 8 * 16 * 4] * 4  # each reads result and gradient, writes one


def test_what_no_later_unit_reads_passes_no_border():
    from torch import nn

    work = traced(nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.MaxPool2d(2), nn.Dropout(), nn.Flatten()), 3, 32, 32)
    pooled = 8 * 16 * 16 * 16 * 4  # without the places of the maxima, and without the dropped
    assert work.crossing_bytes.tolist() == [0, 4 * pooled, pooled, pooled, 0]


def test_an_input_that_a_later_unit_reads_passes_the_borders_between():
    from torch import nn

    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.act, self.b = nn.Linear(16, 4), nn.ReLU(), nn.Linear(16, 4)

        def forward(self, x):
            return self.act(self.a(x)) + self.b(x)

    border, given = 8 * 4 * 4, 8 * 16 * 4
    assert traced(Late(), 16).crossing_bytes.tolist() == [0, border + given, border + given, border, 0]


def test_graphs_of_two_batches_scale_what_passes_borders():
    from torch import nn

    from trainers.parallelism.scaling import Scaled

    works = {
        batch: traced(nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)), 16, batch=batch)
        for batch in (8, 32, 20)
    }
    assert Scaled(works[8], works[32])(20).crossing_bytes.tolist() == works[20].crossing_bytes.tolist()

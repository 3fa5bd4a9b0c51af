"""Networks of the literature, traced: parameters and multiply-accumulates exact, the shape of their concurrency."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from search_spaces.operator_graph import Kind, OperatorGraph, Phase
from search_spaces.tracing import trace
from search_spaces.work_depth import work_depth
from tests.search_spaces.networks import NETWORKS


@cache
def traced(name: str, batch: int = 1) -> OperatorGraph:
    """Of one training step, with the sum of the outputs as loss."""
    with torch.device("meta"):
        network, inputs = NETWORKS[name].build(), NETWORKS[name].inputs(batch)
    return trace(network, (inputs,), batch, loss=torch.sum)


def forward(graph: OperatorGraph) -> OperatorGraph:
    """The operators of the forward pass, which come first."""
    operators = tuple(operator for operator in graph.operators if operator.phase is Phase.FORWARD)
    assert operators == graph.operators[: len(operators)]
    return replace(graph, operators=operators)


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_and_multiply_accumulates(name):
    graph = traced(name)
    assert graph.parameters == NETWORKS[name].parameters
    assert sum(operator.flops for operator in forward(graph).operators) == 2 * NETWORKS[name].macs
    assert graph.unknown == ()


def test_work_and_depth_of_lenet5_by_hand():
    """Layer by layer, a product with bias of k inputs being 2 k operations an output and 2 + lg k deep."""
    convolutions = 4704 * 2 * 25, 1600 * 2 * 150
    linear = 120 * 2 * 400, 84 * 2 * 120, 10 * 2 * 84
    activations, pools = 4704 + 1600 + 120 + 84, 4704 + 1600
    known = work_depth(forward(traced("lenet5")))
    assert known.work == sum(convolutions) + sum(linear) + activations + pools + 9
    assert known.depth == (2 + 5) + (2 + 8) + (2 + 9) + (2 + 7) + (2 + 7) + 4 * 1 + 2 * 3 + 4


def test_of_alexnet_convolutions_hold_the_work_and_fully_connected_layers_the_parameters():
    operators = forward(traced("alexnet", batch=2)).operators
    convolutions = [operator for operator in operators if operator.kind is Kind.CONVOLUTION]
    flops, case = sum(operator.flops for operator in operators), NETWORKS["alexnet"]
    assert flops == 2 * 2 * case.macs
    assert sum(operator.flops for operator in convolutions) / flops == pytest.approx(0.919, abs=5e-4)
    assert sum(operator.parameters for operator in convolutions) / case.parameters == pytest.approx(0.038, abs=5e-4)


def test_a_larger_batch_adds_work_and_hardly_depth():
    small, large = work_depth(traced("resnet20")), work_depth(traced("resnet20", batch=64))
    assert large.work == pytest.approx(64 * small.work, rel=0.02)
    assert small.depth < large.depth < 1.5 * small.depth


def test_branches_run_side_by_side():
    """The four branches of each Inception module of GoogLeNet, against the one chain of AlexNet."""
    forward_levels = {name: max(work_depth(forward(traced(name))).levels) for name in ("alexnet", "googlenet")}
    assert forward_levels == {"alexnet": 1, "googlenet": 4}

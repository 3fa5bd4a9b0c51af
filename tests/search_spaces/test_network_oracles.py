"""Networks of the literature: parameters and multiply-accumulates exact, summed layer by layer from the formulas."""

import pytest
import torch
from torch import nn

from search_spaces import count_parameters
from search_spaces.operators_convolution import convolution
from search_spaces.operators_products import fully_connected, matmul
from search_spaces.operators_windows import sliding
from tests.search_spaces.networks import NETWORKS, DecoderLayer


def products(module, inputs, output):
    """Multiplications of the layer: a sum of k products is 2 k - 1 operations."""
    if isinstance(module, nn.Conv2d):
        windows = sliding(output.shape[2:], module.kernel_size, module.stride, module.dilation)
        shape = (len(output), module.in_channels, module.out_channels, windows, module.groups)
        return (convolution(*shape).work + output.numel()) // 2
    if isinstance(module, nn.Linear):
        rows = output.numel() // module.out_features
        return (fully_connected(rows, module.in_features, module.out_features).work + output.numel()) // 2
    if isinstance(module, DecoderLayer):
        batch, length, width = output.shape
        heads = batch * module.heads
        scores = matmul(length, width // module.heads, length, heads)
        mixed = matmul(length, length, width // module.heads, heads)
        return (scores.work + heads * length**2 + mixed.work + output.numel()) // 2
    return 0


def counted(case, batch=1):
    """Products by kind of layer."""
    with torch.device("meta"):
        network, inputs = case.build(), case.inputs(batch)
    totals: dict[type, int] = {}

    def count(module, inputs, output):
        totals[type(module)] = totals.get(type(module), 0) + products(module, inputs, output)

    for module in network.modules():
        module.register_forward_hook(count)
    network(inputs)
    return totals, network


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_and_multiply_accumulates(name):
    totals, network = counted(NETWORKS[name])
    assert count_parameters(network) == NETWORKS[name].parameters
    assert sum(totals.values()) == NETWORKS[name].macs


def test_of_alexnet_convolutions_hold_the_work_and_fully_connected_layers_the_parameters():
    case = NETWORKS["alexnet"]
    totals, network = counted(case, batch=2)
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert totals[nn.Conv2d] / (2 * case.macs) == pytest.approx(0.919, abs=5e-4)
    assert sum(map(count_parameters, convolutions)) / case.parameters == pytest.approx(0.038, abs=5e-4)

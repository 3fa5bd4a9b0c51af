"""Inverted residuals: parameters counted by hand, sizes, residuals, what a network is like at the start."""

from math import log

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from search_spaces import Signature, TensorType, static_metrics
from search_spaces.image_modules import SqueezeExcitation
from search_spaces.mobile import Mobile
from search_spaces.mobile_modules import InvertedResidual

SHAPES = [(1, 1, 1), (1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 7, 9), (3, 150, 130)]


def signature(shape, classes=10):
    return Signature(TensorType(shape), TensorType((classes,)))


def networks(space, shape, count=4):
    rng = np.random.default_rng(0)
    for number in range(count):
        architecture = space.sample(rng)
        torch.manual_seed(number)
        yield architecture, space.build(architecture, signature(shape))


def test_parameters_by_hand():
    text = (
        "stages=2, stage.0.depth=1, stage.0.width=8, stage.0.kernel=3, stage.0.expansion=1, stage.0.squeeze=false, "
        "stage.1.depth=2, stage.1.width=16, stage.1.kernel=5, stage.1.expansion=4, stage.1.squeeze=true"
    )
    stem = 3 * 8 * 9 + 2 * 8
    first = (8 * 9 + 2 * 8) + (8 * 8 + 2 * 8)  # no expansion: depthwise, projection
    expected = stem + first
    for inputs in (8, 16):
        hidden = 4 * inputs
        expected += inputs * hidden + 2 * hidden  # expansion
        expected += hidden * 25 + 2 * hidden  # depthwise
        expected += 2 * hidden * 4 + 4 + hidden  # squeeze and excitation, 4 channels between
        expected += hidden * 16 + 2 * 16  # projection
    expected += 16 * 64 + 2 * 64 + 64 * 10 + 10
    space = Mobile()
    for norm in ("batch", "group"):
        counted = static_metrics(Mobile(norm=norm), space.parse(text), signature((3, 32, 32)))["parameters"]
        assert counted == expected


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_images_of_any_size_and_the_count_without_data(shape, norm):
    space = Mobile(norm=norm)
    for architecture, network in networks(space, shape, 3):
        assert network(torch.randn(2, *shape)).shape == (2, 10)
        counted = static_metrics(space, architecture, signature(shape))["parameters"]
        assert counted == sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("side", "sizes"),
    [(5, [5] * 4), (8, [8, 4, 4, 4]), (28, [28, 14, 7, 4]), (32, [32, 16, 8, 4]), (64, [32, 16, 8, 4])],
)
def test_no_stage_leaves_less_than_4x4(side, sizes):
    space = Mobile(stages=4, depth=1)
    (_, network), *_ = networks(space, (1, side, side), 1)
    seen = []
    for stage in network.stages:
        stage.register_forward_hook(lambda _, __, output: seen.append(output.shape[2]))
    network(torch.randn(2, 1, side, side))
    assert seen == sizes


def test_a_block_is_residual_where_shapes_agree_and_starts_as_the_identity():
    (_, network), *_ = networks(Mobile(stages=2, depth=2, widths=(8,)), (1, 16, 16), 1)
    blocks = [module for module in network.modules() if isinstance(module, InvertedResidual)]
    assert [block.residual for block in blocks] == [True, True, False, True]
    features = torch.randn(2, 8, 16, 16)
    assert torch.equal(blocks[0](features), features)
    assert blocks[2](features).shape == (2, 8, 8, 8)


@pytest.mark.parametrize("squeeze", [False, True])
def test_squeeze_and_excitation_is_a_decision(squeeze):
    (_, network), *_ = networks(Mobile(stages=2, depth=2, squeezes=(squeeze,)), (1, 8, 8), 1)
    assert any(isinstance(module, SqueezeExcitation) for module in network.modules()) == squeeze


def test_squeeze_and_excitation_scales_whole_channels():
    torch.manual_seed(0)
    features = torch.randn(3, 6, 4, 5)
    gates = SqueezeExcitation(6, 4)(features) / features
    assert torch.allclose(gates, gates[:, :, :1, :1].expand_as(gates), atol=1e-5)
    assert 0 < gates.min().item() < gates.max().item() < 1


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32)])
def test_the_first_loss_is_about_that_of_a_guess(shape):
    for _, network in networks(Mobile(), shape):
        loss = cross_entropy(network(torch.randn(16, *shape)), torch.randint(10, (16,))).item()
        assert 0.8 * log(10) < loss < 1.3 * log(10)


def test_signals_keep_their_scale_in_the_stages():
    for _, network in networks(Mobile(stages=3, depth=(2, 3)), (3, 16, 16)):
        features = network.last[:-1](network.stages(network.stem(torch.randn(16, 3, 16, 16))))
        assert 0.5 < features.square().mean().item() < 2.0


def test_convolutions_keep_the_scale_of_gradients():
    (_, network), *_ = networks(Mobile(stages=3, depth=3, widths=(48,), expansions=(6,), kernels=(3, 5)), (3, 8, 8), 1)
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert {convolution.groups for convolution in convolutions} == {1, 288}
    for convolution in convolutions:
        fan_out = convolution.kernel_size[0] ** 2 * convolution.out_channels / convolution.groups
        assert convolution.weight.var().item() * fan_out == pytest.approx(2, rel=0.2)


def test_gradients_reach_every_parameter_after_the_first_step():
    for _, network in networks(Mobile(), (1, 8, 8)):
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        for _ in range(2):  # residuals start as the identity, so at the first step only their last norm learns
            optimizer.zero_grad()
            cross_entropy(network(torch.randn(16, 1, 8, 8)), torch.randint(10, (16,))).backward()
            optimizer.step()
        still = [name for name, parameter in network.named_parameters() if not parameter.grad.any()]
        assert still == []


@pytest.fixture
def process_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
def test_data_parallel_training_takes_gradients_without_a_warning():
    for _, network in networks(Mobile(), (1, 8, 8), 6):
        parallel = nn.parallel.DistributedDataParallel(network)
        for _ in range(2):  # warnings are errors; the layout of gradients shows at the second step
            parallel(torch.randn(4, 1, 8, 8)).sum().backward()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mobile(kernels=[4]), r"kernels = \[4\] must be odd"),
        (lambda: Mobile(expansions=[0]), "expansions"),
        (lambda: Mobile(norm="layer"), "norm: 'layer' is not known"),
        (lambda: Mobile().check_signature(Signature(TensorType((64,)), TensorType((2,)))), "space Mobile takes images"),
    ],
)
def test_malformed_arguments_and_tasks_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""The networks of the built-in spaces: parameters counted by hand, odd sizes, initialisation, refused tasks."""

import numpy as np
import pytest
import torch
from torch import nn

from search_spaces import (
    Infeasible,
    MetaBuildError,
    SearchSpace,
    Signature,
    TensorType,
    static_metrics,
)
from search_spaces.convnet import ConvNet
from search_spaces.mlp import MLP

DIGITS = Signature(TensorType((1, 8, 8)), TensorType((10,)))


def parameters(space, text, signature=DIGITS):
    return static_metrics(space, space.parse(text), signature)["parameters"]


def test_the_parameters_of_a_perceptron_by_hand():
    text = 'activation="relu", norm="layer", dropout=0.1, depth=2, layer.0.width=32, layer.1.width=16'
    assert parameters(MLP(), text) == (64 * 32 + 32 + 2 * 32) + (32 * 16 + 16 + 2 * 16) + (16 * 10 + 10)


def stage(number, depth, width, kernel, operation, skip, **more):
    values = {
        "depth": depth,
        "width": width,
        "kernel": kernel,
        "operation": f'"{operation}"',
        "skip": str(skip).lower(),
        **more,
    }
    return ", ".join(f"stage.{number}.{name}={value}" for name, value in values.items())


def test_the_parameters_of_a_convnet_by_hand():
    stages = [stage(0, 2, 8, 3, "conv", True), stage(1, 1, 16, 5, "separable", True)]
    stem = 1 * 8 * 9 + 2 * 8
    first = 2 * (8 * 8 * 9 + 2 * 8)
    second = (8 * 25 + 8 * 16 + 2 * 16) + 8 * 16  # depthwise, pointwise, norm; the shortcut's projection
    head = 16 * 10 + 10
    text = f"stem_stride=1, stages=2, {', '.join(stages)}"
    for norm in ("batch", "group"):
        assert parameters(ConvNet(norm=norm), text) == stem + first + second + head


def test_strides_and_squeezes_are_decisions_where_options_are_given():
    plain, given = ConvNet(), ConvNet(strides=(1, 2), squeezes=(False, True))
    one = [stage(0, 1, 8, 3, "conv", True), stage(1, 2, 32, 3, "conv", False)]
    same = [
        stage(0, 1, 8, 3, "conv", True, stride=1, squeeze="false"),
        stage(1, 2, 32, 3, "conv", False, stride=2, squeeze="false"),
    ]
    built = []
    for space, stages in ((plain, one), (given, same)):
        torch.manual_seed(0)
        network = space.build(space.parse(f"stem_stride=1, stages=2, {', '.join(stages)}"), DIGITS)
        built.append(network(torch.ones(2, 1, 8, 8)))
    assert torch.equal(*built)
    assert given.size() > plain.size()
    squeezed = f"stem_stride=1, stages=2, {', '.join(same)}".replace("squeeze=false", "squeeze=true")
    gates = [(width * hidden + hidden) + (hidden * width + width) for width, hidden in ((8, 4), (32, 4), (32, 4))]
    assert parameters(given, squeezed) == parameters(plain, f"stem_stride=1, stages=2, {', '.join(one)}") + sum(gates)


def test_a_stage_halves_where_its_stride_says_so():
    space = ConvNet(stages=4, depth=1, strides=(1, 2))
    text = ", ".join(stage(number, 1, 8, 5, "separable", True, stride=2 - number % 2) for number in range(4))
    network = space.build(space.parse(f"stem_stride=1, stages=4, {text}"), DIGITS)
    sides = []
    for part in network.stages:
        part.register_forward_hook(lambda _, __, output: sides.append(output.shape[2]))
    network(torch.randn(2, 1, 8, 8))
    assert sides == [4, 4, 2, 2]


def test_the_space_holds_small_and_large_networks():
    space, rng = ConvNet(), np.random.default_rng(0)
    counts = [static_metrics(space, space.sample(rng), DIGITS)["parameters"] for _ in range(100)]
    assert np.mean([count <= 8_000 for count in counts]) > 0.1
    largest = ", ".join(stage(number, 2, 40, 5, "conv", True) for number in range(3))
    assert 200_000 < parameters(ConvNet(), f"stem_stride=1, stages=3, {largest}") < 300_000


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (1, 8, 8), (3, 32, 32), (2, 7, 9), (3, 150, 130)])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_images_of_any_size(shape, norm):
    space, rng = ConvNet(norm=norm), np.random.default_rng(0)
    signature = Signature(TensorType(shape), TensorType((7,)))
    for _ in range(3):
        network = space.build(space.sample(rng), signature)
        assert network(torch.randn(2, *shape)).shape == (2, 7)


@pytest.fixture
def process_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("channels", [1, 3])
def test_data_parallel_training_takes_gradients_without_a_warning(channels):
    space, rng = ConvNet(), np.random.default_rng(0)
    for _ in range(8):
        network = space.build(space.sample(rng), Signature(TensorType((channels, 8, 8)), TensorType((10,))))
        parallel = nn.parallel.DistributedDataParallel(network)
        for _ in range(2):  # warnings are errors; the layout of gradients shows at the second step
            parallel(torch.randn(4, channels, 8, 8)).sum().backward()


def test_stages_halve_the_image():
    sizes = {}
    text = f"stem_stride=2, stages=3, {', '.join(stage(n, 1, 8, 3, 'conv', n == 1) for n in range(3))}"
    space = ConvNet()
    network = space.build(space.parse(text), Signature(TensorType((3, 32, 24)), TensorType((2,))))
    network.stem.register_forward_hook(lambda _, __, output: sizes.update(stem=output.shape[2:]))
    for number, part in enumerate(network.stages):
        part.register_forward_hook(lambda _, __, output, number=number: sizes.update({number: output.shape[2:]}))
    network(torch.randn(1, 3, 32, 24))
    assert {name: tuple(size) for name, size in sizes.items()} == {"stem": (16, 12), 0: (16, 12), 1: (8, 6), 2: (4, 3)}


def test_signals_keep_their_scale_at_the_start():
    torch.manual_seed(0)
    space = MLP(depth=(4, 4), widths=(256,), activations=("relu",), norms=("none",), dropouts=(0.0,))
    network = space.build(space.sample(np.random.default_rng(0)), DIGITS)
    hidden = network[:-1](torch.randn(256, 1, 8, 8))
    assert 0.5 < hidden.square().mean().item() < 2.0


def test_any_output_shape_of_a_perceptron():
    signature = Signature(TensorType((3, 4)), TensorType((2, 5)))
    space = MLP(depth=0)
    assert space.build(space.sample(np.random.default_rng(0)), signature)(torch.randn(6, 3, 4)).shape == (6, 2, 5)


def test_linear_perceptrons_are_one_network():
    space, rng = MLP(depth=(0, 0)), np.random.default_rng(0)
    assert len({space.key(space.sample(rng)) for _ in range(40)}) == 1


@pytest.mark.parametrize(
    ("space", "shape", "dtype", "output", "message"),
    [
        (ConvNet(), (64,), "float32", (10,), r"takes images.*input is \(64,\).*space mlp"),
        (ConvNet(), (1, 8, 8), "int64", (10,), "float dtype, the task gives int64"),
        (ConvNet(), (1, 8, 8), "float32", (10, 2), r"output is \(10, 2\)"),
        (MLP(), (64,), "int64", (10,), "float dtype"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(space, shape, dtype, output, message):
    signature = Signature(TensorType(shape, dtype), TensorType(output))
    architecture = space.sample(np.random.default_rng(0))
    for refused in (lambda: space.check_signature(signature), lambda: space.build(architecture, signature)):
        with pytest.raises(ValueError, match=message):
            refused()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConvNet(stages=(0, 2)), r"stages = \(0, 2\): low must be at least 1"),
        (lambda: ConvNet(depth=(2, 1)), "high at least low"),
        (lambda: ConvNet(kernels=[2, 3]), r"kernels = \[2, 3\] must be odd"),
        (lambda: ConvNet(widths=[]), r"widths = \[\] must list ints"),
        (lambda: ConvNet(widths=[8, 8]), "option 8 is given 2 times"),
        (lambda: ConvNet(operations=["seperable"]), "operations: 'seperable' is not known; did you mean 'separable'"),
        (lambda: ConvNet(norm="layer"), "norm: 'layer' is not known"),
        (lambda: ConvNet(norm=["batch"]), "must be one of batch, group"),
        (lambda: ConvNet(skips=[1]), r"skips = \[1\] must list true, false or both"),
        (lambda: ConvNet(squeezes=[]), r"squeezes = \[\] must list true, false or both"),
        (lambda: ConvNet(strides=[1, 4]), r"strides = \[1, 4\]: a stage's stride is 1 or 2"),
        (lambda: MLP(dropouts=[1.0]), "dropouts: 1.0 must be a rate"),
        (lambda: MLP(dropouts=[]), r"dropouts = \[\] must list at least one rate"),
        (lambda: MLP(depth="deep"), "depth = 'deep' must be a pair of ints"),
    ],
)
def test_malformed_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Tied(SearchSpace):
    decisions = MLP().decisions

    def build(self, architecture, signature):
        network = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False), nn.Linear(4, 2))
        network[1].weight = network[0].weight
        network[2].bias.requires_grad_(False)
        network.register_buffer("steps", torch.zeros(100))
        return network


class Picky(Tied):
    error: type[Exception] = Infeasible

    def build(self, architecture, signature):
        raise self.error("too deep")


class Measuring(Tied):
    def build(self, architecture, signature):
        torch.zeros(1).item()
        return super().build(architecture, signature)


def test_shared_tensors_count_once_and_buffers_do_not():
    space = Tied()
    assert static_metrics(space, space.sample(np.random.default_rng(0)), DIGITS) == {"parameters": 16 + 8 + 2}


def test_infeasible_passes_and_other_errors_are_carried():
    space = Picky()
    architecture = space.sample(np.random.default_rng(0))
    with pytest.raises(Infeasible, match="too deep"):
        static_metrics(space, architecture, DIGITS)
    space.error = KeyError
    with pytest.raises(MetaBuildError, match="KeyError: 'too deep'") as caught:
        static_metrics(space, architecture, DIGITS)
    assert isinstance(caught.value.original, KeyError)
    with pytest.raises(MetaBuildError):
        static_metrics(Measuring(), architecture, DIGITS)


def test_counting_draws_no_random_number():
    state = torch.get_rng_state()
    space = ConvNet()
    static_metrics(space, space.sample(np.random.default_rng(0)), DIGITS)
    assert torch.equal(torch.get_rng_state(), state)

"""Transformers: parameters counted by hand, causality, positions, heads, what a network is like at the start."""

from itertools import product
from math import log

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from search_spaces import Signature, TensorType, static_metrics
from search_spaces.transformer import ACTIVATIONS, POSITIONS, Transformer
from search_spaces.transformer_modules import Attention, Patches, Rotary

TOKENS = TensorType((12,), "int64", vocabulary=30)
SIGNATURES = {
    "8x8x1": Signature(TensorType((1, 8, 8)), TensorType((10,))),
    "28x28x1": Signature(TensorType((1, 28, 28)), TensorType((10,))),
    "32x32x3": Signature(TensorType((3, 32, 32)), TensorType((10,))),
    "33x20x3": Signature(TensorType((3, 33, 20)), TensorType((3,))),
    "1x1x2": Signature(TensorType((2, 1, 1)), TensorType((3,))),
    "tokens": Signature(TOKENS, TensorType((5,))),
    "next token": Signature(TOKENS, TensorType((12, 30))),
    "vectors": Signature(TensorType((7, 4)), TensorType((5,))),
    "vectors, each": Signature(TensorType((7, 4)), TensorType((7, 3))),
}


def batch(signature, samples=2, seed=0):
    generator, given = torch.Generator().manual_seed(seed), signature.input
    if given.of_integers:
        return torch.randint(given.vocabulary, (samples, *given.shape), generator=generator)
    return torch.randn(samples, *given.shape, generator=generator)


def networks(space, signature, count=4):
    rng = np.random.default_rng(0)
    for number in range(count):
        architecture = space.sample(rng)
        torch.manual_seed(number)
        yield architecture, space.build(architecture, signature)


def one(signature, **arguments):
    """The network of a space of one architecture."""
    fixed = {"layers": 2, "widths": 32, "heads": 4, "ratios": 2, "activations": "gelu", "positions": "learned"}
    space = Transformer(**{**fixed, **arguments})
    assert space.size() == 1
    ((_, network),) = networks(space, signature, 1)
    return network


def first_loss(network, signature):
    outputs = network(batch(signature, 64))
    classes = outputs.shape[-1]
    logits = outputs.reshape(-1, classes)
    return cross_entropy(logits, torch.randint(classes, (len(logits),)))


@pytest.mark.parametrize(("activation", "hidden"), [("relu", 2 * 64), ("gelu", 2 * 64), ("swiglu", 3 * 40)])
def test_parameters_by_hand(activation, hidden):
    text = f'width=32, activation="{activation}", position="learned", layers=2, layer.0.heads=1, layer.0.ratio=2, '
    space = Transformer("decoder")
    architecture = space.parse(text + "layer.1.heads=4, layer.1.ratio=2")
    layer = 2 * 2 * 32 + 4 * 32 * 32 + hidden * 32  # norms, attention, perceptron
    expected = 30 * 32 + 12 * 32 + 2 * layer + 2 * 32 + 30 * 32 + 30
    assert static_metrics(space, architecture, SIGNATURES["next token"])["parameters"] == expected


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize("name", SIGNATURES)
def test_any_input_and_the_count_without_data(kind, name):
    space, signature = Transformer(kind), SIGNATURES[name]
    for architecture, network in networks(space, signature):
        assert network(batch(signature)).shape == (2, *signature.output.shape)
        counted = static_metrics(space, architecture, signature)["parameters"]
        assert counted == sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(("activation", "position"), [*product(ACTIVATIONS, POSITIONS)])
@pytest.mark.parametrize("name", ["next token", "vectors, each"])
def test_a_decoder_does_not_see_what_comes_later(activation, position, name):
    signature = SIGNATURES[name]
    arguments = {"activations": activation, "positions": position}
    decoder, encoder = one(signature, kind="decoder", **arguments), one(signature, **arguments)
    inputs, others = batch(signature), batch(signature, seed=1)
    for place in range(signature.input.shape[0]):
        later = inputs.clone()
        later[:, place + 1 :] = others[:, place + 1 :]
        assert torch.allclose(decoder(later)[:, : place + 1], decoder(inputs)[:, : place + 1], atol=1e-5)
    assert not torch.allclose(decoder(later)[:, -1], decoder(others)[:, -1], atol=1e-3)  # but what came before
    changed = inputs.clone()
    changed[:, -1] = others[:, -1]
    assert not torch.allclose(encoder(changed)[:, 0], encoder(inputs)[:, 0], atol=1e-4)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_order_of_tokens_matters(position, kind):
    network = one(SIGNATURES["tokens"], kind=kind, positions=position)
    inputs = batch(SIGNATURES["tokens"])
    inputs[:, -1] = inputs[:, 0]  # a decoder is read at the last position
    order = torch.tensor([0, *range(10, 0, -1), 11])
    assert not torch.allclose(network(inputs[:, order]), network(inputs), atol=1e-4)


def test_rotary_scores_depend_on_the_distance_only():
    rotary = Rotary(12, 8)
    query, key = (torch.randn(8).expand(12, 8) for _ in range(2))
    scores = rotary(query) @ rotary(key).T
    for distance in range(-5, 6):
        assert torch.allclose(
            scores.diagonal(distance), scores.diagonal(distance)[0].expand(12 - abs(distance)), atol=1e-4
        )
    assert torch.allclose(rotary(query).norm(dim=1), query.norm(dim=1))


def test_heads_divide_the_width_in_every_architecture():
    space, signature = Transformer(layers=1), SIGNATURES["tokens"]
    seen = set()
    for values in space.domain.assignments():
        assert values["width"] % (2 * values["layer.0.heads"]) == 0
        seen.add((values["width"], values["layer.0.heads"]))
    assert len(seen) == 4 * 3
    for width, heads in sorted(seen):
        network = one(signature, layers=1, widths=width, heads=heads, positions="rotary")
        (attention,) = [module for module in network.modules() if isinstance(module, Attention)]
        assert attention.rotary.cosines.shape == (12, width // heads // 2)
        assert network(batch(signature)).shape == (2, 5)


def test_swiglu_has_about_as_many_parameters():
    for ratio in (1, 2, 4):
        counts = [
            sum(parameter.numel() for parameter in network.layers[0].perceptron.parameters())
            for network in (
                one(SIGNATURES["tokens"], widths=96, ratios=ratio, activations=name) for name in ACTIVATIONS
            )
        ]
        assert counts[0] == counts[1] == 2 * ratio * 96**2
        assert counts[2] == pytest.approx(counts[0], rel=0.1)


@pytest.mark.parametrize(
    ("shape", "patch", "length"),
    [
        ((1, 8, 8), None, 64),
        ((1, 28, 28), None, 49),
        ((3, 32, 32), None, 64),
        ((3, 33, 20), 8, 15),
        ((3, 224, 224), 16, 196),
    ],
)
def test_images_are_cut_into_patches(shape, patch, length):
    network = one(Signature(TensorType(shape), TensorType((2,))), patch=patch)
    assert isinstance(network.embedding, Patches)
    assert network.position.vectors.shape[0] == length
    assert network.embedding(torch.randn(2, *shape)).shape == (2, length, 32)


def test_a_patch_is_a_square_of_the_image():
    patches = Patches(2, 4, 8)
    image = torch.randn(1, 2, 8, 12)
    changed = image.clone()
    changed[:, :, 4:8, 8:12] += 1.0
    moved = (patches(changed) != patches(image)).any(2)[0]
    assert moved.tolist() == [False] * 5 + [True]


@pytest.mark.parametrize("name", ["8x8x1", "32x32x3", "tokens", "next token", "vectors"])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_first_loss_is_about_that_of_a_guess(kind, name):
    signature = SIGNATURES[name]
    for _, network in networks(Transformer(kind), signature, 3):
        assert 0.8 < first_loss(network, signature).item() / log(signature.output.shape[-1]) < 1.25


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("depth", [1, 4, 16])
def test_the_residual_stream_does_not_grow_with_depth(depth, activation):
    network = one(SIGNATURES["next token"], layers=depth, widths=64, activations=activation)
    embedded = network.position(network.embedding(batch(SIGNATURES["next token"], 32)))
    assert 0.1 < network.layers(embedded).square().mean().item() < 1.0


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize("name", ["8x8x1", "tokens", "next token", "vectors, each"])
def test_gradients_reach_every_parameter(kind, name):
    for _, network in networks(Transformer(kind), SIGNATURES[name]):
        first_loss(network, SIGNATURES[name]).backward()
        assert [name for name, parameter in network.named_parameters() if not parameter.grad.any()] == []


def test_a_decoder_learns_to_repeat_what_it_read():
    signature = Signature(TensorType((12,), "int64", vocabulary=8), TensorType((12, 8)))
    network = one(signature, kind="decoder", positions="rotary", activations="swiglu")
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    for step in range(200):
        half = torch.randint(8, (32, 7), generator=torch.Generator().manual_seed(step))
        text = torch.cat([half, half], 1)[:, :13]  # from the eighth token on, all is known
        loss = cross_entropy(network(text[:, :-1])[:, 6:].flatten(0, 1), text[:, 7:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1 * log(8)


@pytest.fixture
def process_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("name", ["8x8x1", "next token"])
def test_data_parallel_training_takes_gradients_without_a_warning(name):
    for _, network in networks(Transformer(), SIGNATURES[name]):
        parallel = nn.parallel.DistributedDataParallel(network)
        for _ in range(2):  # warnings are errors; the layout of gradients shows at the second step
            parallel(batch(SIGNATURES[name])).sum().backward()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Transformer("both"), "kind: 'both' is not known"),
        (lambda: Transformer(widths=[64, 80], heads=[1, 3]), "a width of 64 has no 3 heads of one size"),
        (lambda: Transformer(widths=[12], heads=[4]), "an even number of channels for each head.*multiples of 8"),
        (lambda: Transformer(layers=0), "layers = 0: low must be at least 1"),
        (lambda: Transformer(patch=0), "patch = 0 must be an int of at least 1"),
        (lambda: Transformer(positions=["rotory"]), "did you mean 'rotary'"),
        (lambda: TensorType((4,), "float32", vocabulary=5), "vocabulary = 5 of dtype float32"),
        (lambda: TensorType((4,), "int64", vocabulary=0), "vocabulary = 0"),
    ],
)
def test_malformed_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_odd_heads_do_without_rotary_positions():
    assert one(SIGNATURES["tokens"], widths=12, heads=4, positions="sinusoidal")(batch(SIGNATURES["tokens"])).shape == (
        2,
        5,
    )


@pytest.mark.parametrize(
    ("given", "output", "message"),
    [
        (TensorType((12,), "int64"), (5,), r'does not say; write TensorType\(\(12,\), "int64", vocabulary='),
        (TensorType((12, 2), "int64", vocabulary=5), (5,), r"int64 of shape \(12, 2\)"),
        (TensorType((12,)), (5,), r"float32 of shape \(12,\)"),
        (TensorType((2, 2, 2), "bool"), (5,), "bool of shape"),
        (TOKENS, (11, 30), r"output is \(11, 30\) for inputs of shape \(12,\)"),
        (TensorType((3, 8, 8)), (3, 10), r"output is \(3, 10\)"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(given, output, message):
    with pytest.raises(ValueError, match=message):
        Transformer().check_signature(Signature(given, TensorType(output)))

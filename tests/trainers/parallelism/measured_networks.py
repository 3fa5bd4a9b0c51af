"""Small networks of which torch tells what processes send: samples of all built-in spaces, and some like others'."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from search_spaces import SPACES, Signature, TensorType
from tests.search_spaces.networks import basic_block, googlenet, gpt2, lenet5, nas_bench_201, resnet20

CLASSES = 24
IMAGES = Signature(TensorType((3, 16, 16)), TensorType((CLASSES,)))
WORDS = Signature(TensorType((12,), "int64", vocabulary=96), TensorType((12, 96)))
VECTORS = Signature(TensorType((24,)), TensorType((CLASSES,)))
SQUARES = Signature(TensorType((48, 48)), TensorType((48, 48)))
SEQUENCES = Signature(TensorType((12, 48)), TensorType((12, 48)))


@dataclass(frozen=True)
class Measured:
    """A network and what it takes and makes."""

    build: Callable[[], nn.Module]
    signature: Signature

    def inputs(self, samples: int) -> Tensor:
        """Some samples."""
        given = self.signature.input
        shape = (samples, *given.shape)
        return torch.zeros(shape, dtype=torch.int64) if given.of_integers else torch.randn(shape)


class Perceptron(nn.Module):
    """Two layers, that add to their input."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.inputs, self.output = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = features + self.output(functional.gelu(self.inputs(self.norm(features))))
        return result


class Attention(nn.Module):
    """Heads with layers of their own for queries, keys and values, whose scores drop out in training."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, written_out: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.dropout, self.written_out = heads, dropout, written_out

    def forward(self, features: Tensor) -> Tensor:
        queries, keys, values = (
            layer(features).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if self.written_out:
            scores = (queries @ keys.transpose(2, 3) / 4).softmax(-1)
            mixed = functional.dropout(scores, self.dropout, self.training) @ values
        else:
            dropout = self.dropout if self.training else 0.0
            mixed = functional.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result


class Encoder(nn.Module):
    """``x + attention(norm(x))``, then a perceptron."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, written_out: bool = False) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads, dropout, written_out)
        self.perceptron = Perceptron(width, 2 * width)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.perceptron(features + self.attention(self.norm(features)))
        return result


class Mixer(nn.Module):
    """Mixes tokens, then channels (Tolstikhin et al. 2021, section 2)."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.tokens, self.channels = Perceptron(length, 2 * length), Perceptron(width, 2 * width)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.channels(self.tokens(features.transpose(1, 2)).transpose(1, 2))
        return result


class Crossed(nn.Module):
    """A layer over channels, then one over tokens, with nothing but an activation between."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.channels, self.tokens = nn.Linear(width, width), nn.Linear(length, length)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.tokens(functional.gelu(self.channels(features)).transpose(1, 2)).transpose(1, 2)
        return result


class Detached(nn.Module):
    """One of its branches gets no gradients, as those behind which a cell computes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.other, self.middle = nn.Linear(24, 48), nn.Linear(24, 48), nn.Linear(48, 96)
        self.output = nn.Linear(96, CLASSES)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.inputs(features).relu() + self.other(features).detach()
        return self.output(self.middle(result).relu())


class Gated(nn.Module):
    """SwiGLU with one layer for gates and values (Shazeer 2020, eq. 6)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.inputs = nn.LayerNorm(width), nn.Linear(width, 2 * hidden, bias=False)
        self.output = nn.Linear(hidden, width, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        gates, values = self.inputs(self.norm(features)).chunk(2, -1)
        result: Tensor = features + self.output(functional.silu(gates) * values)
        return result


def small_resnet(width: int) -> nn.Module:
    """Residual blocks of two widths."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        *(basic_block(width, width, 1), basic_block(width, 2 * width, 2), basic_block(2 * width, 2 * width, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, CLASSES)),
    )


def untied_gpt(width: int, layers: int) -> nn.Module:
    """A decoder whose head has weights of its own."""
    network = gpt2(96, 12, width, layers, 24)
    network.head = nn.Linear(width, 96, bias=False)
    return network


def _sample(space: str, seed: int, signature: Signature) -> nn.Module:
    made = SPACES.load(space)()
    return made.build(made.sample(np.random.default_rng(seed)), signature)


def _between_layers(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(48, 48), *layers, nn.LayerNorm(48), nn.Linear(48, 48))


def _sampled(space: str, seeds: Iterable[int], signature: Signature, kind: str = "") -> dict[str, Measured]:
    return {f"{space}{kind}-{seed}": Measured(partial(_sample, space, seed, signature), signature) for seed in seeds}


class Scaled(nn.Module):
    """A parameter of its own is read before each layer, and the input once more at the end."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, features: Tensor) -> Tensor:
        given = features
        for layer in self.layers:
            features = layer(features * self.scale).relu()
        result: Tensor = self.head(features[:, :, :] + given)
        return result


NETWORKS: dict[str, Measured] = {
    **_sampled("mlp", range(4), IMAGES),
    **_sampled("convnet", range(4), IMAGES),
    **_sampled("cell201", (0, 1, 6, 8, 22), IMAGES),
    **_sampled("mobile", range(2), IMAGES),
    **_sampled("transformer", range(4), IMAGES),
    **_sampled("transformer", range(4), WORDS, "-words"),
    "lenet5": Measured(lenet5, Signature(TensorType((1, 32, 32)), TensorType((10,)))),
    "resnet20": Measured(resnet20, Signature(TensorType((3, 16, 16)), TensorType((10,)))),
    "nas-bench-201": Measured(nas_bench_201, Signature(TensorType((3, 8, 8)), TensorType((10,)))),
    "googlenet": Measured(googlenet, Signature(TensorType((3, 32, 32)), TensorType((1000,)))),
    "small-resnet-8": Measured(partial(small_resnet, 8), IMAGES),
    "small-resnet-24": Measured(partial(small_resnet, 24), IMAGES),
    "gpt-48": Measured(partial(gpt2, 96, 12, 48, 2, 24), WORDS),
    "gpt-96": Measured(partial(gpt2, 96, 12, 96, 3, 24), WORDS),
    "untied-gpt": Measured(partial(untied_gpt, 48, 3), WORDS),
    "perceptron": Measured(
        lambda: nn.Sequential(nn.Linear(24, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 48), nn.Linear(48, CLASSES)),
        VECTORS,
    ),
    "detached": Measured(Detached, VECTORS),
    "encoder": Measured(lambda: _between_layers(Encoder(48, 24), Encoder(48, 24)), SEQUENCES),
    "dropout": Measured(lambda: _between_layers(Encoder(48, 24, 0.1)), SEQUENCES),
    "written-out": Measured(lambda: _between_layers(Encoder(48, 24, 0.1, True)), SEQUENCES),
    "mixer": Measured(lambda: _between_layers(Mixer(12, 48), Mixer(12, 48)), SEQUENCES),
    "crossed": Measured(lambda: _between_layers(nn.LayerNorm(48), Crossed(12, 48)), SEQUENCES),
    "crossed-square": Measured(lambda: _between_layers(nn.LayerNorm(48), Crossed(48, 48)), SQUARES),
    "scaled": Measured(lambda: Scaled(48), SEQUENCES),
    "gated": Measured(lambda: _between_layers(Gated(48, 96), Gated(48, 96)), SEQUENCES),
}

"""Small networks that a device is calibrated with: every kind of operator, at sizes spread over decades.

They are drawn, and of no search space: image networks of plain, depthwise and inverted convolutions, sequences with
attention, and perceptrons. Images lie in memory channel by channel of each pixel ("channels last"), which is the layout
that convolutions are fastest in. Torch is imported with this module.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log2

import numpy as np
import torch
from torch import Tensor, nn

ACTIVATIONS: tuple[Callable[[], nn.Module], ...] = (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Hardswish, nn.Tanh)
VOCABULARY, CLASSES = 256, 10


@dataclass(frozen=True, slots=True)
class Reference:
    """A network and its inputs, on the CPU; logits are in its outputs' last dim."""

    network: nn.Module
    inputs: Tensor


def references(rng: np.random.Generator) -> Iterator[Reference]:
    """Draw without end: two of images, then one of sequences, then a perceptron."""
    while True:
        for draw in (_images, _images, _sequence, _perceptron):
            yield draw(rng)


def class_loss(outputs: Tensor) -> Tensor:
    """Cross-entropy over the last dim, against class 0."""
    rows = outputs.float().reshape(-1, outputs.shape[-1])
    return nn.functional.cross_entropy(rows, torch.zeros(len(rows), dtype=torch.int64, device=outputs.device))


class _Sum(nn.Module):
    """``body(x) + shortcut(x)``."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.body(features) + self.shortcut(features)
        return result


class _Joined(nn.Module):
    """Branches, concatenated along channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat([branch(features) for branch in self.branches], 1)


class _Gate(nn.Module):
    """Channels weighted by a perceptron of their means (Hu et al. 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(4, channels // 4)
        self.weights = nn.Sequential(
            *(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, hidden, 1), nn.ReLU()),
            *(nn.Conv2d(hidden, channels, 1), nn.Sigmoid()),
        )

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = features * self.weights(features)
        return result


class _Attention(nn.Module):
    """Multi-head attention in a residual branch, with normalisation before it."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm, self.inputs, self.output = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        parts = self.inputs(self.norm(features)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=self.causal)
        result: Tensor = features + self.output(mixed.transpose(1, 2).flatten(2))
        return result


class _Mean(nn.Module):
    """Over the positions of a sequence."""

    def forward(self, features: Tensor) -> Tensor:
        return features.mean(1)


def _between(rng: np.random.Generator, least: int, most: int, step: int = 1) -> int:
    """An integer, uniform in its logarithm; mostly a multiple of ``step``, as in networks that people make."""
    drawn: float = 2 ** rng.uniform(log2(least), log2(most))
    return step * max(1, round(drawn / step)) if rng.random() < 0.85 else max(1, round(drawn))


def _batch(rng: np.random.Generator) -> int:
    """A power of two."""
    return int(rng.choice([8, 16, 32, 64, 128, 256]))


def _activation(rng: np.random.Generator) -> nn.Module:
    return ACTIVATIONS[int(rng.choice(len(ACTIVATIONS), p=[0.5, *[0.1] * 5]))]()


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


def _norm(rng: np.random.Generator, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if rng.random() < 0.8 else nn.GroupNorm(4 if channels % 4 == 0 else 1, channels)


def _images(rng: np.random.Generator) -> Reference:
    side, channels = int(rng.choice([4, 8, 8, 14, 16, 28, 32, 32])), int(rng.choice([1, 3]))
    width = _between(rng, 8, 64, 8)
    layers = [_convolution(channels, width, 3, int(rng.choice([1, 2]))), _norm(rng, width), _activation(rng)]
    for _ in range(int(rng.integers(2, 6))):
        outputs = _between(rng, 8, 128, 8)
        layers.append(_block(rng, width, outputs, int(rng.choice([1, 1, 2]))))
        width = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES)]
    network = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(_batch(rng), channels, side, side)
    return Reference(network, images.contiguous(memory_format=torch.channels_last))


def _block(rng: np.random.Generator, inputs: int, outputs: int, stride: int) -> nn.Module:
    kernel = int(rng.choice([1, 3, 3, 3, 5]))
    match int(rng.integers(5)):
        case 0:
            layers = [_convolution(inputs, outputs, kernel, stride), _norm(rng, outputs), _activation(rng)]
        case 1:
            spread = _convolution(inputs, inputs, max(kernel, 3), stride, groups=inputs)
            layers = [spread, _convolution(inputs, outputs, 1), _norm(rng, outputs), _activation(rng)]
        case 2:
            hidden = int(rng.choice([2, 3, 4, 6])) * inputs
            layers = [_convolution(inputs, hidden, 1), _norm(rng, hidden), _activation(rng)]
            layers += [_convolution(hidden, hidden, max(kernel, 3), stride, hidden), _norm(rng, hidden)]
            layers += [_activation(rng), _Gate(hidden), _convolution(hidden, outputs, 1), _norm(rng, outputs)]
        case 3:
            body = nn.Sequential(_convolution(inputs, inputs, kernel), _norm(rng, inputs), _activation(rng))
            pool = nn.AvgPool2d(3, stride, 1) if rng.random() < 0.5 else nn.MaxPool2d(3, stride, 1)
            layers = [_Sum(body, nn.Identity()), pool, _convolution(inputs, outputs, 1)]
        case _:
            branches = _Joined(nn.Identity(), _convolution(inputs, inputs, kernel))
            layers = [branches, nn.AvgPool2d(stride, ceil_mode=True), _convolution(2 * inputs, outputs, 1)]
            layers += [_norm(rng, outputs), _activation(rng)]
    return nn.Sequential(*layers)


def _sequence(rng: np.random.Generator) -> Reference:
    heads, length = int(rng.choice([1, 2, 4])), _between(rng, 8, 128, 8)
    width, batch = heads * int(rng.choice([8, 16, 32, 64])), _batch(rng)
    causal, tokens = bool(rng.integers(2)), bool(rng.integers(2))
    layers: list[nn.Module] = [nn.Embedding(VOCABULARY, width) if tokens else nn.Linear(24, width)]
    for _ in range(int(rng.integers(1, 4))):
        hidden = int(rng.choice([1, 2, 4])) * width
        perceptron = (nn.LayerNorm(width), nn.Linear(width, hidden), _activation(rng), nn.Linear(hidden, width))
        layers += [_Attention(width, heads, causal), _Sum(nn.Sequential(*perceptron), nn.Identity())]
    layers += [
        nn.LayerNorm(width),
        *([nn.Linear(width, VOCABULARY)] if causal else [_Mean(), nn.Linear(width, CLASSES)]),
    ]
    given = torch.randint(VOCABULARY, (batch, length)) if tokens else torch.randn(batch, length, 24)
    return Reference(nn.Sequential(*layers), given)


def _perceptron(rng: np.random.Generator) -> Reference:
    width = inputs = _between(rng, 8, 1024, 16)
    layers: list[nn.Module] = []
    for _ in range(int(rng.integers(1, 5))):
        outputs = _between(rng, 8, 512, 16)
        layers += [nn.Linear(width, outputs), nn.LayerNorm(outputs) if rng.random() < 0.5 else nn.Identity()]
        layers += [_activation(rng), nn.Dropout(0.1) if rng.random() < 0.5 else nn.Identity()]
        width = outputs
    return Reference(nn.Sequential(*layers, nn.Linear(width, CLASSES)), torch.randn(_batch(rng), inputs))

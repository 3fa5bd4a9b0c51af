"""Networks of the space `transformer`.

Layers normalise before attention and before the perceptron (Xiong et al. 2020, "pre-LN"); weights that add to the
residual stream start smaller by the root of their number (Radford et al. 2019, GPT-2, section 2.3).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, pixel_unshuffle, relu, scaled_dot_product_attention, silu

from search_spaces.signature import Signature, TensorType
from search_spaces.values import Architecture

_BASE = 10_000.0
"""Wavelengths of positions rise from 2 pi to 2 pi times this (Vaswani et al. 2017, section 3.5)."""

_PATCHES = 8
"""Patches along the shorter side of an image, about."""

_EMBEDDED, _PLACED = 0.3, 0.2
"""Deviations at the start: of what is embedded, and of its positions. Tried: 0.02 to 1 (docs/lab.md)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one layer, those of the whole network among them."""

    width: int
    heads: int
    ratio: int
    activation: str
    rotary: bool
    causal: bool
    residuals: int
    """Branches that add to the residual stream, of all layers."""


class TransformerModule(nn.Module):
    """Embedding, layers, norm, head: [batch, *input shape] to [batch, *output shape]."""

    def __init__(self, architecture: Architecture, signature: Signature, causal: bool, patch: int | None) -> None:
        super().__init__()
        values: dict[str, Any] = dict(architecture)
        width, position, count = values["width"], values["position"], values["layers"]
        shared = (values["activation"], position == "rotary", causal, 2 * count)
        self.embedding, length = _embedding(signature.input, width, patch)
        self.position = _position(position, length, width)
        self.layers = nn.Sequential()
        for number in range(count):
            heads, ratio = values[f"layer.{number}.heads"], values[f"layer.{number}.ratio"]
            self.layers.append(Block(Layer(width, heads, ratio, *shared), length))
        self.norm = nn.LayerNorm(width)
        self.pool = Pool(causal) if len(signature.output.shape) == 1 else nn.Identity()
        self.head = _linear(width, signature.output.shape[-1], gain=0.5, bias=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits."""
        features = self.layers(self.position(self.embedding(inputs)))
        logits: Tensor = self.head(self.pool(self.norm(features)))
        return logits


class Block(nn.Module):
    """``x + attention(norm(x))``, then ``x + perceptron(norm(x))``."""

    def __init__(self, layer: Layer, length: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(layer.width)
        self.attention = Attention(layer, length)
        self.perceptron_norm = nn.LayerNorm(layer.width)
        self.perceptron = Perceptron(layer)

    def forward(self, features: Tensor) -> Tensor:
        """[batch, length, width] to the same shape."""
        features = features + self.attention(self.attention_norm(features))
        result: Tensor = features + self.perceptron(self.perceptron_norm(features))
        return result


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), causal or not, rotary or not."""

    def __init__(self, layer: Layer, length: int) -> None:
        super().__init__()
        self.heads, self.causal = layer.heads, layer.causal
        self.inputs = _linear(layer.width, 3 * layer.width)
        self.rotary = Rotary(length, layer.width // layer.heads) if layer.rotary else nn.Identity()
        self.output = _linear(layer.width, layer.width, gain=layer.residuals**-0.5)

    def forward(self, features: Tensor) -> Tensor:
        """[batch, length, width] to the same shape."""
        parts = self.inputs(features).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind(0)
        mixed = scaled_dot_product_attention(self.rotary(queries), self.rotary(keys), values, is_causal=self.causal)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result


class Perceptron(nn.Module):
    """Two linear layers around an activation, or SwiGLU (Shazeer 2020, eq. 6) of about as many parameters."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        width, hidden = layer.width, layer.width * layer.ratio
        self.activation = layer.activation
        gain = 2**0.5 if self.activation == "relu" else 1.0
        if self.activation == "swiglu":
            hidden = max(1, round(hidden * 2 / 3 / 8)) * 8
        self.inputs = _linear(width, hidden * (2 if self.activation == "swiglu" else 1), gain=gain)
        self.output = _linear(hidden, width, gain=layer.residuals**-0.5)

    def forward(self, features: Tensor) -> Tensor:
        """[batch, length, width] to the same shape."""
        hidden = self.inputs(features)
        if self.activation == "swiglu":
            gates, values = hidden.chunk(2, -1)
            hidden = silu(gates) * values
        else:
            hidden = relu(hidden) if self.activation == "relu" else gelu(hidden)
        result: Tensor = self.output(hidden)
        return result


class Rotary(nn.Module):
    """Rotates pairs of channels by angles that grow with the position (Su et al. 2021, eq. 34)."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        angles = _angles(length, width // 2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """[..., length, width] to the same shape; channel i is paired with channel i + width / 2."""
        first, second = features.chunk(2, -1)
        turned = (first * self.cosines - second * self.sines, second * self.cosines + first * self.sines)
        return torch.cat(turned, -1).type_as(features)


class Learned(nn.Module):
    """Adds a vector for each position, which is learnt."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.vectors, std=_PLACED)

    def forward(self, features: Tensor) -> Tensor:
        """[batch, length, width] to the same shape."""
        return features + self.vectors


class Sinusoidal(nn.Module):
    """Adds sines and cosines of the position (Vaswani et al. 2017, section 3.5)."""

    waves: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        angles = _angles(length, -(-width // 2))
        waves = torch.cat([angles.sin(), angles.cos()], -1)[:, :width]
        self.register_buffer("waves", 2**0.5 * _PLACED * waves, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """[batch, length, width] to the same shape."""
        return features + self.waves


class Tokens(nn.Module):
    """A learnt vector for each token."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=_EMBEDDED)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, length] to [batch, length, width]."""
        result: Tensor = self.table(tokens.long())
        return result


class Patches(nn.Module):
    """Squares of an image, row by row, each through one linear layer (Dosovitskiy et al. 2021, section 3.1)."""

    def __init__(self, channels: int, side: int, width: int) -> None:
        super().__init__()
        self.side = side
        self.linear = _linear(channels * side**2, width, gain=_EMBEDDED, bias=True)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, channels, height, width] to [batch, patches, width]; zeros fill incomplete patches."""
        height, width = images.shape[2:]
        images = pad(images, (0, -width % self.side, 0, -height % self.side))
        result: Tensor = self.linear(pixel_unshuffle(images, self.side).flatten(2).transpose(1, 2))
        return result


class Pool(nn.Module):
    """The mean over positions, or where attention is causal the last one, which alone has seen all."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, features: Tensor) -> Tensor:
        """[batch, length, width] to [batch, width]."""
        return features[:, -1] if self.causal else features.mean(1)


def _embedding(given: TensorType, width: int, patch: int | None) -> tuple[nn.Module, int]:
    """What makes a sequence of the input, and the sequence's length."""
    if given.of_integers:
        assert given.vocabulary is not None
        return Tokens(given.vocabulary, width), given.shape[0]
    if len(given.shape) == 2:
        return _linear(given.shape[1], width, gain=_EMBEDDED, bias=True), given.shape[0]
    channels, *sides = given.shape
    patch = patch or -(-min(sides) // _PATCHES)
    return Patches(channels, patch, width), -(-sides[0] // patch) * -(-sides[1] // patch)


def _position(kind: str, length: int, width: int) -> nn.Module:
    """What is added to the embedding; rotary positions act in each layer's attention."""
    if kind == "rotary":
        return nn.Identity()
    return Learned(length, width) if kind == "learned" else Sinusoidal(length, width)


def _angles(length: int, count: int) -> Tensor:
    """Position times frequency, [length, count]."""
    return torch.outer(torch.arange(length).float(), _BASE ** -(torch.arange(count) / count))


def _linear(inputs: int, outputs: int, gain: float = 1.0, bias: bool = False) -> nn.Linear:
    """A linear layer that keeps the variance, times ``gain`` squared (LeCun et al. 1998)."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=gain * inputs**-0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer

"""Networks of the space `convnet`.

Plain and depthwise separable convolutions (Sifre and Mallat 2014; Chollet 2017, without an activation between
the two), residual layers as in He et al. 2016 with the average-pooled shortcut of He et al. 2019 ("Bag of
tricks", ResNet-D); squeeze-and-excitation by a sixteenth of the channels as in Hu et al. 2018.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from search_spaces.image_modules import ImageClassifier, SqueezeExcitation, norm, stem_stride
from search_spaces.signature import Signature
from search_spaces.values import Architecture, Value

_LEAST_TO_HALVE = 4
"""An image is halved only where both its sides are at least this long."""

_REDUCTION = 16
"""Channels for each hidden channel of a squeeze."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The values of one stage; ``stride`` and ``squeeze`` need not be decisions of the space."""

    depth: int
    width: int
    kernel: int
    operation: str
    skip: bool
    stride: int
    squeeze: bool


class ConvNetModule(ImageClassifier):
    """Stem, stages, global average pooling, linear head: [batch, channels, height, width] to [batch, classes]."""

    def __init__(self, architecture: Architecture, signature: Signature, kind: str) -> None:
        channels, *sides = signature.input.shape
        side = min(sides)
        stages = _stages(architecture)
        stride = _stem_stride(side, architecture["stem_stride"])
        width, side = stages[0].width, -(-side // stride)
        stem = nn.Sequential(_conv(channels, width, max(3, 2 * stride - 1), stride), norm(kind, width), nn.ReLU())
        body = nn.Sequential()
        for stage in stages:
            stride = stage.stride if side >= _LEAST_TO_HALVE else 1
            side = -(-side // stride)
            body.append(_stage(width, stage, stride, kind))
            width = stage.width
        super().__init__(stem, body, width, signature.output.elements)


class Residual(nn.Module):
    """``relu(body(x) + shortcut(x))``."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.activation = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        """[batch, inputs, height, width] to [batch, outputs, height / stride, width / stride]."""
        result: Tensor = self.activation(self.body(features) + self.shortcut(features))
        return result


def _stages(architecture: Architecture) -> list[Stage]:
    count = architecture["stages"]
    assert isinstance(count, int)
    return [_values(architecture, number) for number in range(count)]


def _values(architecture: Architecture, number: int) -> Stage:
    fixed: dict[str, Value] = {"stride": 1 if number == 0 else 2, "squeeze": False}

    def value(name: str) -> Value:
        return architecture.get(f"stage.{number}.{name}", fixed.get(name))

    return Stage(**{name: value(name) for name in Stage.__slots__})  # type: ignore[arg-type]


def _stem_stride(side: int, wanted: Value) -> int:
    """The wanted stride or more; 1 for a tiny image."""
    assert isinstance(wanted, int)
    return stem_stride(side, wanted if side >= _LEAST_TO_HALVE else 1)


def _stage(inputs: int, stage: Stage, stride: int, kind: str) -> nn.Sequential:
    layers = nn.Sequential()
    for number in range(stage.depth):
        first = number == 0
        layers.append(_layer(inputs if first else stage.width, stage, stride if first else 1, kind))
    return layers


def _layer(inputs: int, stage: Stage, stride: int, kind: str) -> nn.Module:
    make = _conv if stage.operation == "conv" else _separable
    body = nn.Sequential(make(inputs, stage.width, stage.kernel, stride), norm(kind, stage.width))
    if stage.squeeze:
        body.append(SqueezeExcitation(stage.width, max(4, stage.width // _REDUCTION)))
    if stage.skip:
        return Residual(body, _shortcut(inputs, stage.width, stride))
    return body.append(nn.ReLU())


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Identity where shapes agree; else average pooling and a 1x1 projection, whichever is needed."""
    parts: list[nn.Module] = []
    if stride > 1:
        parts.append(nn.AvgPool2d(stride, ceil_mode=True, count_include_pad=False))
    if inputs != outputs:
        parts.append(_conv(inputs, outputs, 1, 1))
    return nn.Sequential(*parts) if parts else nn.Identity()


def _separable(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(_conv(inputs, inputs, kernel, stride, groups=inputs), _conv(inputs, outputs, 1, 1))


def _conv(inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size (divided by ``stride``), before a norm: no bias; He et al. 2015."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu" if groups == 1 else "linear")
    return conv

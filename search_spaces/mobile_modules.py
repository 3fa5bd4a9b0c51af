"""Networks of the space `mobile`.

Inverted residuals with a linear bottleneck (Sandler et al. 2018, MobileNetV2, table 1), squeeze-and-excitation
after the depthwise convolution with a quarter of the block's inputs (Tan et al. 2019, MnasNet, figure 7).
"""

from dataclasses import dataclass

from torch import Tensor, nn

from search_spaces.image_modules import ImageClassifier, SqueezeExcitation, norm, stem_stride
from search_spaces.signature import Signature
from search_spaces.values import Architecture

_LEAST_TO_HALVE = 7
"""An image is halved only where both its sides are at least this long: 4x4 is left."""

_LAST = 4
"""Channels before pooling for each channel of the last stage: 1280 to 320 in both papers."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The values of one stage."""

    depth: int
    width: int
    kernel: int
    expansion: int
    squeeze: bool


class MobileModule(ImageClassifier):
    """Stem, stages, 1x1 convolution, pooling, linear head: [batch, channels, height, width] to [batch, classes]."""

    def __init__(self, architecture: Architecture, signature: Signature, kind: str) -> None:
        channels, *sides = signature.input.shape
        stages = _stages(architecture)
        stride = stem_stride(min(sides))
        width, side = stages[0].width, -(-min(sides) // stride)
        stem = _layer(channels, width, max(3, 2 * stride - 1), stride, norm_kind=kind)
        body = nn.Sequential()
        for number, stage in enumerate(stages):
            stride = 2 if number > 0 and side >= _LEAST_TO_HALVE else 1
            side = -(-side // stride)
            body.append(_stage(width, stage, stride, kind))
            width = stage.width
        last = _layer(width, _LAST * width, 1, norm_kind=kind)
        super().__init__(stem, body, _LAST * width, signature.output.elements, last, spread=0.5)


class InvertedResidual(nn.Module):
    """Expand, depthwise, squeeze, project; plus the input where shapes agree.

    Such a residual starts as the identity: its last norm is zero (Goyal et al. 2017, section 5.1).
    """

    def __init__(self, inputs: int, stage: Stage, stride: int, kind: str) -> None:
        super().__init__()
        hidden, width = stage.expansion * inputs, stage.width
        self.residual = stride == 1 and inputs == width
        self.body = nn.Sequential()
        if stage.expansion > 1:
            self.body.append(_layer(inputs, hidden, 1, norm_kind=kind))
        self.body.append(_layer(hidden, hidden, stage.kernel, stride, groups=hidden, norm_kind=kind))
        if stage.squeeze:
            self.body.append(SqueezeExcitation(hidden, max(4, inputs // 4)))
        last = norm(kind, width)
        if self.residual:
            nn.init.zeros_(last.weight)
        self.body.extend([_conv(hidden, width, 1), last])

    def forward(self, features: Tensor) -> Tensor:
        """[batch, inputs, height, width] to [batch, width, height / stride, width / stride]."""
        result: Tensor = self.body(features)
        return features + result if self.residual else result


def _stages(architecture: Architecture) -> list[Stage]:
    count = architecture["stages"]
    assert isinstance(count, int)
    names = Stage.__slots__
    return [Stage(**{name: architecture[f"stage.{at}.{name}"] for name in names}) for at in range(count)]  # type: ignore[arg-type]


def _stage(inputs: int, stage: Stage, stride: int, kind: str) -> nn.Sequential:
    first = InvertedResidual(inputs, stage, stride, kind)
    return nn.Sequential(first, *(InvertedResidual(stage.width, stage, 1, kind) for _ in range(stage.depth - 1)))


def _layer(
    inputs: int, outputs: int, kernel: int, stride: int = 1, *, groups: int = 1, norm_kind: str
) -> nn.Sequential:
    return nn.Sequential(_conv(inputs, outputs, kernel, stride, groups), norm(norm_kind, outputs), nn.ReLU6())


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size (divided by ``stride``), before a norm; He et al. 2015, eq. 14 (fan-out)."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    nn.init.normal_(conv.weight, std=(2 * groups / (kernel**2 * outputs)) ** 0.5)
    return conv

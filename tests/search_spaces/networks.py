"""Networks of the literature, with what is known of them, as oracles of the analysis (`NETWORKS`)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from search_spaces import Signature, TensorType
from search_spaces.cell201 import Cell201

IMAGENET = (3, 224, 224)


@dataclass(frozen=True, slots=True)
class Case:
    """A network, the shape of one sample, its parameters, and the multiply-accumulates of one sample, forward."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    parameters: int
    macs: int
    tokens: int | None = None
    """Size of the vocabulary where a sample is tokens."""

    def inputs(self, batch: int) -> Tensor:
        """A batch on the present default device; zeros."""
        dtype = torch.float32 if self.tokens is None else torch.int64
        return torch.zeros(batch, *self.shape, dtype=dtype)


def lenet5() -> nn.Module:
    """LeNet-5 (LeCun et al. 1998, figure 2) with each map of C3 connected to all of S2; images 1 x 32 x 32."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
    )


def alexnet() -> nn.Module:
    """AlexNet (Krizhevsky et al. 2012, section 3.5), its two halves as groups; images 3 x 227 x 227."""
    pool, norm = partial(nn.MaxPool2d, 3, 2), partial(nn.LocalResponseNorm, 5)
    return nn.Sequential(
        *(nn.Conv2d(3, 96, 11, 4), nn.ReLU(), norm(), pool()),
        *(nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), norm(), pool()),
        *(nn.Conv2d(256, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), pool()),
        nn.Flatten(),
        *(nn.Linear(9216, 4096), nn.ReLU()),
        *(nn.Linear(4096, 4096), nn.ReLU()),
        nn.Linear(4096, 1000),
    )


class Inception(nn.Module):
    """Four branches, concatenated (Szegedy et al. 2015, figure 2b)."""

    def __init__(self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pooled: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [
                _conv_relu(inputs, one, 1),
                nn.Sequential(_conv_relu(inputs, three[0], 1), _conv_relu(*three, 3)),
                nn.Sequential(_conv_relu(inputs, five[0], 1), _conv_relu(*five, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), _conv_relu(inputs, pooled, 1)),
            ]
        )

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat([branch(features) for branch in self.branches], 1)


def googlenet() -> nn.Module:
    """GoogLeNet (Szegedy et al. 2015, table 1) without auxiliary heads."""
    pool = partial(nn.MaxPool2d, 3, 2, ceil_mode=True)
    return nn.Sequential(
        *(_conv_relu(3, 64, 7, 2), pool(), nn.LocalResponseNorm(5)),
        *(_conv_relu(64, 64, 1), _conv_relu(64, 192, 3), nn.LocalResponseNorm(5), pool()),
        Inception(192, 64, (96, 128), (16, 32), 32),
        Inception(256, 128, (128, 192), (32, 96), 64),
        pool(),
        Inception(480, 192, (96, 208), (16, 48), 64),
        Inception(512, 160, (112, 224), (24, 64), 64),
        Inception(512, 128, (128, 256), (24, 64), 64),
        Inception(512, 112, (144, 288), (32, 64), 64),
        Inception(528, 256, (160, 320), (32, 128), 128),
        pool(),
        Inception(832, 256, (160, 320), (32, 128), 128),
        Inception(832, 384, (192, 384), (48, 128), 128),
        *_head(1024),
    )


class Residual(nn.Module):
    """``relu(x + body(x))``, with a projection of x where shapes change (He et al. 2016, figure 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        alike = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if alike else _conv_norm(inputs, outputs, 1, stride)

    def forward(self, features: Tensor) -> Tensor:
        return functional.relu(self.shortcut(features) + self.body(features))


def basic_block(inputs: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions (He et al. 2016, figure 5, left)."""
    body = nn.Sequential(_conv_norm(inputs, width, 3, stride), nn.ReLU(), _conv_norm(width, width, 3))
    return Residual(inputs, width, stride, body)


def bottleneck(inputs: int, width: int, stride: int, stride_in_3x3: bool) -> Residual:
    """1x1, 3x3, 1x1 to four times the width (He et al. 2016, figure 5, right)."""
    strides = (1, stride) if stride_in_3x3 else (stride, 1)
    body = nn.Sequential(
        *(_conv_norm(inputs, width, 1, strides[0]), nn.ReLU()),
        *(_conv_norm(width, width, 3, strides[1]), nn.ReLU()),
        _conv_norm(width, 4 * width, 1),
    )
    return Residual(inputs, 4 * width, stride, body)


def resnet50(stride_in_3x3: bool = False) -> nn.Module:
    """ResNet-50 (He et al. 2016, table 1); "v1.5" halves in the 3x3 convolution."""
    stages, channels = nn.Sequential(), 64
    for number, depth in enumerate((3, 4, 6, 3)):
        for block in range(depth):
            stride = 2 if number > 0 and block == 0 else 1
            stages.append(bottleneck(channels, 64 << number, stride, stride_in_3x3))
            channels = 256 << number
    return nn.Sequential(_conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), stages, *_head(2048))


def resnet20() -> nn.Module:
    """ResNet-20 for images 3 x 32 x 32 (He et al. 2016, section 4.2), with projections."""
    stages, channels = nn.Sequential(), 16
    for width in (16, 32, 64):
        for block in range(3):
            stages.append(basic_block(channels, width, 2 if width > 16 and block == 0 else 1))
            channels = width
    return nn.Sequential(_conv_norm(3, 16, 3), nn.ReLU(), stages, *_head(64, 10))


class DenseBlock(nn.Module):
    """Layers that read all before them: BN-ReLU-1x1 to 128, BN-ReLU-3x3 to 32 (Huang et al. 2017, section 3)."""

    def __init__(self, inputs: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(_norm_relu_conv(inputs + 32 * layer, 128, 1), _norm_relu_conv(128, 32, 3))
            for layer in range(count)
        )

    def forward(self, features: Tensor) -> Tensor:
        for layer in self.layers:
            features = torch.cat([features, layer(features)], 1)
        return features


def densenet121() -> nn.Module:
    """DenseNet-BC-121 (Huang et al. 2017, table 1)."""
    body, channels = nn.Sequential(_conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)), 64
    for count in (6, 12, 24, 16):
        if len(body) > 3:
            channels //= 2
            body.extend([_norm_relu_conv(2 * channels, channels, 1), nn.AvgPool2d(2)])
        body.append(DenseBlock(channels, count))
        channels += 32 * count
    return nn.Sequential(body, nn.BatchNorm2d(channels), nn.ReLU(), *_head(channels))


class DecoderLayer(nn.Module):
    """``x + attention(norm(x))``, then ``x + perceptron(norm(x))`` (Radford et al. 2019, section 2.3)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, features: Tensor) -> Tensor:
        queries, keys, values = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in self.inputs(self.norms[0](features)).chunk(3, 2)
        )
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        features = features + self.output(mixed.transpose(1, 2).flatten(2))
        result: Tensor = features + self.perceptron(self.norms[1](features))
        return result


class Decoder(nn.Module):
    """Tokens [batch, length] to logits [batch, length, vocabulary]; the head shares the embedding's weights."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(DecoderLayer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        logits: Tensor = self.head(self.norm(self.layers(self.tokens(tokens) + self.positions(positions))))
        return logits


def gpt2(vocabulary: int = 50_257, length: int = 1024, width: int = 768, layers: int = 12, heads: int = 12) -> Decoder:
    """GPT-2 small (Radford et al. 2019, table 2)."""
    return Decoder(vocabulary, length, width, layers, heads)


def nas_bench_201() -> nn.Module:
    """One network of NAS-Bench-201 for CIFAR-10, with every operation but zero in its cell."""
    space = Cell201()
    operations = ("nor_conv_3x3", "nor_conv_3x3", "avg_pool_3x3", "skip_connect", "nor_conv_1x1", "nor_conv_3x3")
    edges = ("1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2")
    text = ", ".join(f'{edge}="{operation}"' for edge, operation in zip(edges, operations, strict=True))
    return space.build(space.parse(text), Signature(TensorType((3, 32, 32)), TensorType((10,))))


def _conv_relu(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.ReLU())


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


def _norm_relu_conv(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), convolution)


def _head(channels: int, classes: int = 1000) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)


NETWORKS: dict[str, Case] = {
    "lenet5": Case(lenet5, (1, 32, 32), 61_706, 416_520),
    "alexnet": Case(alexnet, (3, 227, 227), 60_965_224, 724_406_816),
    "googlenet": Case(googlenet, IMAGENET, 6_998_552, 1_582_671_872),
    "resnet50": Case(resnet50, IMAGENET, 25_557_032, 3_857_973_248),
    "resnet50-v1.5": Case(partial(resnet50, stride_in_3x3=True), IMAGENET, 25_557_032, 4_089_184_256),
    "densenet121": Case(densenet121, IMAGENET, 7_978_856, 2_834_161_664),
    "resnet20": Case(resnet20, (3, 32, 32), 272_474, 40_813_184),
    "gpt2": Case(gpt2, (1024,), 124_439_808, 145_824_153_600, tokens=50_257),
    "nas-bench-201": Case(nas_bench_201, (3, 32, 32), 830_426, 117_883_520),
}

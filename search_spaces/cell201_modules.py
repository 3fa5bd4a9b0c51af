"""Networks of the space `cell201`: the skeleton of NAS-Bench-201 (Dong and Yang 2020, figure 1 and section 2.1)."""

from torch import Tensor, nn

from search_spaces.cell201 import NONE
from search_spaces.cell_graph import CellGraph
from search_spaces.image_modules import ImageClassifier, stem_stride
from search_spaces.signature import Signature
from search_spaces.values import Value


class Cell201Module(ImageClassifier):
    """Stem, three stages of cells, BN-ReLU, pooling, linear head: [batch, channels, height, width] to [batch, classes].

    Images of 64 and more are brought below by the stem's stride; those of the benchmark are smaller.
    """

    def __init__(self, graph: CellGraph, signature: Signature, width: int, cells: int) -> None:
        channels, *sides = signature.input.shape
        stride = stem_stride(min(sides))
        stem = nn.Sequential(_conv(channels, width, max(3, 2 * stride - 1), stride), nn.BatchNorm2d(width))
        stages = nn.Sequential()
        for stage in range(3):
            if stage > 0:
                stages.append(Reduction(width))
                width *= 2
            stages.append(nn.Sequential(*(CellModule(graph, width) for _ in range(cells))))
        last = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU())
        super().__init__(stem, stages, width, signature.output.elements, last)


class CellModule(nn.Module):
    """One cell, [batch, width, height, width of the image] to the same shape; zeros where the output is not reached.

    Edges of dead branches keep their parameters, frozen, and are not computed.
    """

    def __init__(self, graph: CellGraph, width: int) -> None:
        super().__init__()
        self.edges = graph.live(NONE).edges
        self.operations = nn.ModuleDict()
        for edge in graph.edges:
            operation = _operation(graph.operations[edge], width)
            self.operations[_name(*edge)] = operation.requires_grad_(edge in self.edges)

    def forward(self, features: Tensor) -> Tensor:
        """Sum at each node what its live edges bring."""
        nodes: dict[int, Tensor] = {0: features}
        for source, target in self.edges:
            term = self.operations[_name(source, target)](nodes[source])
            nodes[target] = nodes[target] + term if target in nodes else term
        return nodes.get(3, features * 0.0)


class Reduction(nn.Module):
    """Residual block that doubles the channels and halves the image (He et al. 2016), before activation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_relu_conv_norm(width, 2 * width, 3, 2), _relu_conv_norm(2 * width, 2 * width, 3))
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False), _conv(width, 2 * width, 1)
        )

    def forward(self, features: Tensor) -> Tensor:
        """[batch, width, height, width of the image] to [batch, 2 width, half, half], rounded up."""
        result: Tensor = self.body(features) + self.shortcut(features)
        return result


def _name(source: int, target: int) -> str:
    return f"from_{source}_to_{target}"


def _operation(operation: Value, width: int) -> nn.Module:
    match operation:
        case "nor_conv_1x1":
            return _relu_conv_norm(width, width, 1)
        case "nor_conv_3x3":
            return _relu_conv_norm(width, width, 3)
        case "avg_pool_3x3":
            return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    return nn.Identity()


def _relu_conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), _conv(inputs, outputs, kernel, stride), nn.BatchNorm2d(outputs))


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size (divided by ``stride``), before a norm: no bias; He et al. 2015.

    Uniform, for on the meta device a normal draw takes longer than all else of building a network.
    """
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_uniform_(conv.weight, nonlinearity="relu")
    return conv

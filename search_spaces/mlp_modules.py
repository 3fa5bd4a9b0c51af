"""Networks of the space `mlp`."""

from collections.abc import Callable, Mapping

from torch import nn

from search_spaces.signature import Signature
from search_spaces.values import Architecture

_ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
_NORMS: Mapping[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d}


def perceptron(architecture: Architecture, signature: Signature) -> nn.Sequential:
    """Flatten, then for each layer linear, norm, activation, dropout; then the linear head."""
    activation, norm = str(architecture["activation"]), str(architecture["norm"])
    dropout, depth = architecture["dropout"], architecture["depth"]
    assert isinstance(dropout, float)
    assert isinstance(depth, int)
    layers: list[nn.Module] = [nn.Flatten()]
    width = signature.input.elements
    for number in range(depth):
        layers.append(_linear(width, width := _width(architecture, number), activation))
        layers.extend([_NORMS[norm](width)] if norm in _NORMS else [])
        layers.append(_ACTIVATIONS[activation]())
        layers.extend([nn.Dropout(dropout)] if dropout > 0 else [])
    layers.append(_linear(width, signature.output.elements, "linear"))
    if len(signature.output.shape) != 1:
        layers.append(nn.Unflatten(1, signature.output.shape))
    return nn.Sequential(*layers)


def _width(architecture: Architecture, number: int) -> int:
    width = architecture[f"layer.{number}.width"]
    assert isinstance(width, int)
    return width


def _linear(inputs: int, outputs: int, follows: str) -> nn.Linear:
    """He et al. 2015 before rectifiers, Glorot and Bengio 2010 before tanh and at the head; biases 0."""
    layer = nn.Linear(inputs, outputs)
    if follows in ("tanh", "linear"):
        nn.init.xavier_uniform_(layer.weight)
    else:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer

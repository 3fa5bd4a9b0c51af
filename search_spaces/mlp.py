"""Multilayer perceptrons: depth, width of each layer, activation, normalisation, dropout."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search_spaces.arguments import int_range, ints, names, rates
from search_spaces.decisions import Choice, Decision, Integer, Repeat
from search_spaces.signature import Signature
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture

if TYPE_CHECKING:
    from torch.nn import Module

ACTIVATIONS = ("relu", "gelu", "silu", "tanh")
NORMS = ("none", "layer", "batch")


class MLP(SearchSpace):
    """Any input is flattened, any output shape is met.

    ``depth`` is the least and the greatest number of hidden layers (0: a linear model), ``widths``,
    ``activations``, ``norms`` and ``dropouts`` are the options of these decisions.
    """

    def __init__(
        self,
        depth: Sequence[int] = (1, 4),
        widths: Sequence[int] = (16, 32, 64, 128, 256),
        activations: Sequence[str] = ("relu", "gelu", "tanh"),
        norms: Sequence[str] = ("none", "layer"),
        dropouts: Sequence[float] = (0.0, 0.1, 0.3),
    ) -> None:
        least, most = int_range("depth", depth, 0)
        self.decisions: dict[str, Decision] = {
            "activation": Choice(*names("activations", activations, ACTIVATIONS)),
            "norm": Choice(*names("norms", norms, NORMS)),
            "dropout": Choice(*rates("dropouts", dropouts), ordered=True),
            "depth": Integer(least, most),
        }
        if most > 0:
            self.decisions["layer"] = Repeat("depth", {"width": Choice(*ints("widths", widths), ordered=True)})

    def canonical(self, architecture: Architecture) -> Architecture:
        """Without hidden layers there is nothing to activate, to normalise or to drop."""
        if architecture["depth"] != 0:
            return architecture
        first = {name: choice.options[0] for name, choice in self.decisions.items() if isinstance(choice, Choice)}
        return Architecture({**architecture, **first})

    def check_signature(self, signature: Signature) -> None:
        """Raise ValueError for an input that holds no real numbers."""
        if not signature.input.dtype.startswith(("float", "bfloat")):
            raise ValueError(f"space MLP takes inputs of a float dtype, the task gives {signature.input.dtype}")

    def build(self, architecture: Architecture, signature: Signature) -> "Module":
        """Build the perceptron: [batch, *input shape] to [batch, *output shape]."""
        from search_spaces.mlp_modules import perceptron

        self.check_signature(signature)
        return perceptron(architecture, signature)

"""Transformers (Vaswani et al. 2017), encoder or decoder: layers, heads, width, ratio, activation, position."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search_spaces.arguments import int_of, int_range, ints, name_of, names
from search_spaces.decisions import Choice, Integer, Repeat
from search_spaces.signature import Signature
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture

if TYPE_CHECKING:
    from torch.nn import Module

KINDS = ("encoder", "decoder")
ACTIVATIONS = ("relu", "gelu", "swiglu")
POSITIONS = ("learned", "sinusoidal", "rotary")


class Transformer(SearchSpace):
    """Attention for tokens, vectors or images, encoder or decoder; the defaults suit short sequences and small images.

    ``kind`` is "encoder", or "decoder": an output depends on no later input. Inputs are tokens (length,) of an
    integer dtype, vectors (length, features), or images (channels, height, width), cut into squares of ``patch``
    pixels (None: about 8 x 8 of them). The output is (classes,), from the mean over an encoder's positions or from
    a decoder's last one; or (length, classes), as for the next token.

    ``layers`` is a pair, least and greatest. Each layer has its own number of ``heads`` and ``ratio`` (hidden
    width of its perceptron for each of its inputs), as in Chen et al. 2021 (AutoFormer); ``widths``,
    ``activations`` and ``positions`` are options for the whole network. Heads share the width, so each option of
    heads must divide each width; with rotary positions twice each must.
    """

    def __init__(
        self,
        kind: str = "encoder",
        layers: Sequence[int] = (1, 4),
        widths: Sequence[int] = (32, 64, 96, 128),
        heads: Sequence[int] = (1, 2, 4),
        ratios: Sequence[int] = (1, 2, 4),
        activations: Sequence[str] = ACTIVATIONS,
        positions: Sequence[str] = POSITIONS,
        patch: int | None = None,
    ) -> None:
        self.causal = name_of("kind", kind, KINDS) == "decoder"
        self.patch = None if patch is None else int_of("patch", patch, 1)
        widths, heads = ints("widths", widths), ints("heads", heads)
        positions = names("positions", positions, POSITIONS)
        _check_heads(widths, heads, 2 if "rotary" in positions else 1)
        self.decisions = {
            "width": Choice(*widths, ordered=True),
            "activation": Choice(*names("activations", activations, ACTIVATIONS)),
            "position": Choice(*positions),
            "layers": Integer(*int_range("layers", layers, 1)),
            "layer": Repeat(
                "layers",
                {
                    "heads": Choice(*heads, ordered=True),
                    "ratio": Choice(*ints("ratios", ratios), ordered=True),
                },
            ),
        }

    def check_signature(self, signature: Signature) -> None:
        """Raise ValueError for inputs or outputs of another form, and for tokens of an unknown vocabulary."""
        given, output = signature.input, signature.output.shape
        real = given.dtype.startswith(("float", "bfloat"))
        if len(given.shape) not in ((1,) if given.of_integers else (2, 3) if real else ()):
            raise ValueError(
                "space Transformer takes integers of shape (length,), or floats of shape (length, features) or "
                f"(channels, height, width); the task's input is {given.dtype} of shape {given.shape}"
            )
        if given.of_integers and given.vocabulary is None:
            raise ValueError(
                "space Transformer must know how many tokens there are, and the task's input does not say; "
                f'write TensorType({given.shape}, "{given.dtype}", vocabulary=...)'
            )
        each = len(output) == 2 and len(given.shape) < 3 and output[0] == given.shape[0]
        if len(output) != 1 and not each:
            raise ValueError(
                "space Transformer gives (classes,), or for a sequence (length, classes); "
                f"the task's output is {output} for inputs of shape {given.shape}"
            )

    def build(self, architecture: Architecture, signature: Signature) -> "Module":
        """Build the network: [batch, *input shape] to [batch, *output shape]."""
        from search_spaces.transformer_modules import TransformerModule

        self.check_signature(signature)
        return TransformerModule(architecture, signature, self.causal, self.patch)


def _check_heads(widths: Sequence[int], heads: Sequence[int], multiple: int) -> None:
    for width in widths:
        for count in heads:
            if width % (multiple * count):
                rule = "an even number of channels for each head (rotary positions)" if multiple == 2 else "equal heads"
                raise ValueError(
                    f"widths, heads: a width of {width} has no {count} heads of one size; every width must give "
                    f"{rule}, so use multiples of {multiple * count}, or other heads"
                )

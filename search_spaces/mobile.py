"""Mobile networks: stages of inverted residuals (Sandler et al. 2018), searched as in MnasNet (Tan et al. 2019)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search_spaces.arguments import flags, int_range, ints, name_of, odd
from search_spaces.decisions import Choice, Integer, Repeat
from search_spaces.images import check_images
from search_spaces.signature import Signature
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture

if TYPE_CHECKING:
    from torch.nn import Module

NORMS = ("batch", "group")


class Mobile(SearchSpace):
    """Inverted residuals for images of any size, number of channels and number of classes; the defaults suit 8x8
    to 32x32.

    A stem, then ``stages`` stages of ``depth`` inverted residuals each (both a pair: least and greatest), then
    a 1x1 convolution to four times the last width, global average pooling and a linear head. Each stage but the
    first halves the image at its start, down to 4x4; the stem brings larger images below 64. ``widths``,
    ``kernels`` of the depthwise convolutions, ``expansions`` (hidden channels for each input channel) and
    ``squeezes`` (squeeze-and-excitation or not) are options of each stage; ``norm`` ("batch" or "group") holds
    for all.
    """

    def __init__(
        self,
        stages: Sequence[int] = (1, 3),
        depth: Sequence[int] = (1, 3),
        widths: Sequence[int] = (8, 16, 24, 32, 48),
        kernels: Sequence[int] = (3, 5),
        expansions: Sequence[int] = (1, 2, 4, 6),
        squeezes: Sequence[bool] = (False, True),
        norm: str = "batch",
    ) -> None:
        self.norm = name_of("norm", norm, NORMS)
        self.decisions = {
            "stages": Integer(*int_range("stages", stages, 1)),
            "stage": Repeat(
                "stages",
                {
                    "depth": Integer(*int_range("depth", depth, 1)),
                    "width": Choice(*ints("widths", widths), ordered=True),
                    "kernel": Choice(*odd("kernels", kernels), ordered=True),
                    "expansion": Choice(*ints("expansions", expansions), ordered=True),
                    "squeeze": Choice(*flags("squeezes", squeezes)),
                },
            ),
        }

    def check_signature(self, signature: Signature) -> None:
        """Raise ValueError unless the input is (channels, height, width) of floats and the output (classes,)."""
        check_images(self.name, signature)

    def build(self, architecture: Architecture, signature: Signature) -> "Module":
        """Build the network: [batch, channels, height, width] to [batch, classes]."""
        from search_spaces.mobile_modules import MobileModule

        self.check_signature(signature)
        return MobileModule(architecture, signature, self.norm)

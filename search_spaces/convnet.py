"""Convolutional networks in stages: depth, width, kernel, stride, kind of convolution, squeeze, skips of each stage."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search_spaces.arguments import flags, int_range, ints, name_of, names, odd
from search_spaces.decisions import Choice, Decision, Integer, Repeat
from search_spaces.images import check_images
from search_spaces.signature import Signature
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture

if TYPE_CHECKING:
    from torch.nn import Module

OPERATIONS = ("conv", "separable")
NORMS = ("batch", "group")


class ConvNet(SearchSpace):
    """Classifiers of images of any size, number of channels and number of classes; the defaults suit 8x8 to
    32x32.

    A stem, then ``stages`` stages of ``depth`` layers each (both a pair: least and greatest), then global
    average pooling and a linear head. ``widths``, ``kernels``, ``operations`` (a plain convolution, or a
    depthwise separable one) and ``skips`` are options of each stage, ``stem_strides`` of the stem (larger images
    are brought below 64 by it in any case); ``norm`` ("batch" or "group") holds for all.

    Two more decisions of each stage are there only where their options are given. ``strides``: 2 halves the image
    at the stage's start, 1 does not; without it each stage but the first halves. Tiny images are not halved in any
    case. ``squeezes``: whether layers end in squeeze-and-excitation; without it none does.
    """

    def __init__(
        self,
        stages: Sequence[int] = (1, 3),
        depth: Sequence[int] = (1, 2),
        widths: Sequence[int] = (8, 16, 24, 32, 40),
        kernels: Sequence[int] = (3, 5),
        operations: Sequence[str] = OPERATIONS,
        skips: Sequence[bool] = (False, True),
        stem_strides: Sequence[int] = (1, 2),
        norm: str = "batch",
        strides: Sequence[int] | None = None,
        squeezes: Sequence[bool] | None = None,
    ) -> None:
        self.norm = name_of("norm", norm, NORMS)
        stage: dict[str, Decision] = {
            "depth": Integer(*int_range("depth", depth, 1)),
            "width": Choice(*ints("widths", widths), ordered=True),
            "kernel": Choice(*odd("kernels", kernels), ordered=True),
            "operation": Choice(*names("operations", operations, OPERATIONS)),
            "skip": Choice(*flags("skips", skips)),
        }
        if strides is not None:
            stage["stride"] = Choice(*_strides(strides), ordered=True)
        if squeezes is not None:
            stage["squeeze"] = Choice(*flags("squeezes", squeezes))
        self.decisions = {
            "stem_stride": Choice(*ints("stem_strides", stem_strides), ordered=True),
            "stages": Integer(*int_range("stages", stages, 1)),
            "stage": Repeat("stages", stage),
        }

    def check_signature(self, signature: Signature) -> None:
        """Raise ValueError unless the input is (channels, height, width) of floats and the output (classes,)."""
        check_images(self.name, signature)

    def build(self, architecture: Architecture, signature: Signature) -> "Module":
        """Build the network: [batch, channels, height, width] to [batch, classes]."""
        from search_spaces.convnet_modules import ConvNetModule

        self.check_signature(signature)
        return ConvNetModule(architecture, signature, self.norm)


def _strides(strides: Sequence[int]) -> list[int]:
    options = ints("strides", strides)
    if options[-1] > 2:
        raise ValueError(f"strides = {strides!r}: a stage's stride is 1 or 2; stem_strides may be larger")
    return options

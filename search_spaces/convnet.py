"""Convolutional networks in stages: depth, width, kernel, kind of convolution and skips of each stage."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search_spaces.arguments import flags, int_range, ints, names
from search_spaces.decisions import Choice, Integer, Repeat
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
    average pooling and a linear head. A stage halves the image at its start, the first one and tiny images
    excepted. ``widths``, ``kernels``, ``operations`` (a plain convolution, or a depthwise separable one) and
    ``skips`` are options of each stage, ``stem_strides`` of the stem (larger images are brought below 64 by
    it in any case); ``norm`` ("batch" or "group") holds for all.
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
    ) -> None:
        kernels = ints("kernels", kernels)
        if any(kernel % 2 == 0 for kernel in kernels):
            raise ValueError(f"kernels = {kernels!r} must be odd, so that a layer keeps the image's size")
        if not isinstance(norm, str):
            raise ValueError(f"norm = {norm!r} must be one of {', '.join(NORMS)}")
        (self.norm,) = names("norm", norm, NORMS)
        self.decisions = {
            "stem_stride": Choice(*ints("stem_strides", stem_strides), ordered=True),
            "stages": Integer(*int_range("stages", stages, 1)),
            "stage": Repeat(
                "stages",
                {
                    "depth": Integer(*int_range("depth", depth, 1)),
                    "width": Choice(*ints("widths", widths), ordered=True),
                    "kernel": Choice(*kernels, ordered=True),
                    "operation": Choice(*names("operations", operations, OPERATIONS)),
                    "skip": Choice(*flags("skips", skips)),
                },
            ),
        }

    def check_signature(self, signature: Signature) -> None:
        """Raise ValueError unless the input is (channels, height, width) of floats and the output (classes,)."""
        shape, dtype = signature.input.shape, signature.input.dtype
        if len(shape) != 3:
            raise ValueError(
                f"space ConvNet takes images, shape (channels, height, width); the task's input is {shape}; "
                "reshape it, or search the space mlp"
            )
        if not dtype.startswith(("float", "bfloat")):
            raise ValueError(f"space ConvNet takes images of a float dtype, the task gives {dtype}")
        if len(signature.output.shape) != 1:
            raise ValueError(f"space ConvNet gives (classes,) logits; the task's output is {signature.output.shape}")

    def build(self, architecture: Architecture, signature: Signature) -> "Module":
        """Build the network: [batch, channels, height, width] to [batch, classes]."""
        from search_spaces.convnet_modules import ConvNetModule

        self.check_signature(signature)
        return ConvNetModule(architecture, signature, self.norm)

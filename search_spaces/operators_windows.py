"""Windows that slide over an image, in any number of dimensions, and pooling in them. MODELS.md 1.

A window that reaches beyond the image counts in full: the padding is part of the image, as in torch's FLOPs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from search_spaces.operators import WorkDepth, elementwise, lg, scatter


@dataclass(frozen=True, slots=True)
class Windows:
    """How many windows there are on one map, and how they overlap. Over dimensions each of these multiplies."""

    outputs: int
    """Windows, H' W'."""
    taps: int
    """Places in windows, counted in each of them."""
    widest: int
    """Places of the largest window, Ky Kx."""
    touched: int
    """Places in one window or more, padding included."""
    overlap: int
    """Windows that share one place, at most."""

    def __mul__(self, other: "Windows") -> "Windows":
        """Windows in the dimensions of both."""
        return Windows(
            self.outputs * other.outputs,
            self.taps * other.taps,
            self.widest * other.widest,
            self.touched * other.touched,
            self.overlap * other.overlap,
        )


def output_size(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    """Windows along one dimension: ``floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1``."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def sliding(
    outputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
) -> Windows:
    """Windows of a convolution or a pooling, from the sizes of its output, a number a dimension in each argument."""
    ones = (1,) * len(kernel)
    return _product(_sliding, outputs, kernel, stride or ones, dilation or ones)


def adaptive(sizes: Sequence[int], outputs: Sequence[int]) -> Windows:
    """Windows of adaptive pooling: the o-th goes from ``floor(o H / H')`` up to ``ceil((o + 1) H / H')``."""
    return _product(_adaptive, sizes, outputs)


def max_pool(maps: int, windows: Windows) -> WorkDepth:
    """Maximum of each window of ``maps`` = N C maps: W = N C H'W' (Ky Kx - 1), D = lg(Ky Kx)."""
    return WorkDepth(maps * (windows.taps - windows.outputs), lg(windows.widest))


def max_pool_gradient(maps: int, windows: Windows) -> WorkDepth:
    """Each window's gradient is added where its maximum was.

    W = N C H'W', D = lg(1 + overlap), reached where all windows over a place have their maximum there.
    """
    return maps * scatter(windows.outputs, windows.overlap)


def average_pool(maps: int, windows: Windows) -> WorkDepth:
    """Mean of each window: W = N C H'W' Ky Kx, D = lg(Ky Kx) + 1."""
    return WorkDepth(maps * windows.taps, lg(windows.widest) + 1)


def average_pool_gradient(maps: int, windows: Windows) -> WorkDepth:
    """Each window's gradient over Ky Kx, summed at each place over its windows.

    W = N C (H'W' + H'W' Ky Kx - T) with T places touched, D = 1 + lg(overlap).
    """
    sums = WorkDepth(windows.taps - windows.touched, lg(windows.overlap))
    return maps * (elementwise(windows.outputs) + sums)


def _product(one: Callable[..., Windows], *dimensions: Sequence[int]) -> Windows:
    product = Windows(1, 1, 1, 1, 1)
    for arguments in zip(*dimensions, strict=True):
        product = product * one(*arguments)
    return product


def _sliding(outputs: int, kernel: int, stride: int, dilation: int) -> Windows:
    """Tap k of window o is at ``o stride + k dilation``.

    Taps of different windows meet where o differs by multiples of ``dilation / g`` and k by as many of ``stride / g``,
    with g the greatest common divisor: each meeting but the last of a place has a next one.
    """
    divisor = gcd(stride, dilation)
    window_step, tap_step = dilation // divisor, stride // divisor
    taps = outputs * kernel
    repeated = max(0, outputs - window_step) * max(0, kernel - tap_step)
    overlap = min(-(-outputs // window_step), -(-kernel // tap_step))
    return Windows(outputs, taps, kernel, taps - repeated, overlap)


def _adaptive(size: int, outputs: int) -> Windows:
    starts = [output * size // outputs for output in range(outputs)]
    ends = [-(-(output + 1) * size // outputs) for output in range(outputs)]
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    overlap = max(sum(starts[o] < end for o in range(first, outputs)) for first, end in enumerate(ends))
    return Windows(outputs, sum(lengths), max(lengths), size, overlap)

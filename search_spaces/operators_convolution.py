"""Convolution, direct (MODELS.md 1; Ben-Nun and Hoefler 2019, section 4.3), and by other methods (its table 6).

``windows`` are those of `search_spaces.operators_windows`: any number of dimensions, strides, dilations. With groups,
each output channel reads ``inputs / groups`` channels; a depthwise convolution has as many groups as inputs.
"""

from math import ceil, prod

from search_spaces.operators import WorkDepth, dot, elementwise, lg, reduction
from search_spaces.operators_products import matmul
from search_spaces.operators_windows import Windows


def convolution(
    batch: int, inputs: int, outputs: int, windows: Windows, groups: int = 1, bias: bool = False
) -> WorkDepth:
    """W = N Co H'W' (2 Ci Ky Kx - 1), D = 1 + lg(Ci Ky Kx), Ci those of a group; with bias + N Co H'W', + 1."""
    numbers = batch * outputs * windows.outputs
    product = numbers * dot(inputs // groups * windows.widest)
    return product + elementwise(numbers) if bias else product


def convolution_weight_gradient(batch: int, inputs: int, outputs: int, windows: Windows, groups: int = 1) -> WorkDepth:
    """W = Co Ci Ky Kx (2 N H'W' - 1), Ci those of a group, D = 1 + lg(N H'W')."""
    return outputs * (inputs // groups) * windows.widest * dot(batch * windows.outputs)


def convolution_input_gradient(batch: int, inputs: int, outputs: int, windows: Windows, groups: int = 1) -> WorkDepth:
    """W = 2 M - N Ci T, D = 1 + lg(overlap Co / groups): the gradient of the padded image, T of its places touched.

    M = N Ci (Co / groups) H'W' Ky Kx products are summed at N Ci T places; ``overlap`` windows over a place at most,
    along one dimension of dilation 1 ``min(ceil(K / stride), H')``. A transposed convolution computes this.
    """
    channels = outputs // groups
    products = batch * inputs * channels * windows.taps
    return WorkDepth(2 * products - batch * inputs * windows.touched, 1 + lg(channels * windows.overlap))


def convolution_bias_gradient(batch: int, outputs: int, windows: Windows) -> WorkDepth:
    """W = Co (N H'W' - 1), D = lg(N H'W')."""
    return outputs * reduction(batch * windows.outputs)


def im2col_elements(batch: int, inputs: int, windows: Windows) -> int:
    """Numbers of the matrix whose columns are the windows, N Ci Ky Kx H'W'; its product costs as `convolution`."""
    return batch * inputs * windows.taps


def fft_convolution(batch: int, inputs: int, outputs: int, sizes: tuple[int, ...]) -> WorkDepth:
    """Convolution as products of spectra, for padded images of n places, each side rounded up to a power of two.

    Of Co Ci filters and N Ci images a transform, n N Co sums of Ci complex products, N Co inverse transforms (Mathieu
    et al. 2014, section 2). In real operations, a complex product being 6 (2 deep) and a sum 2, a transform n/2 lg n
    butterflies of 10 (3 deep; Cooley and Tukey 1965), its scale in the filters: W = 5 n lg n (Co Ci + N Ci + N Co) +
    n N Co (8 Ci - 2), D = 6 lg n + 2 + lg Ci.
    """
    places = prod(1 << lg(size) for size in sizes)
    transform = WorkDepth(5 * places * lg(places), 3 * lg(places))
    spectra = places * batch * outputs * WorkDepth(6 * inputs + 2 * (inputs - 1), 2 + lg(inputs))
    return (outputs * inputs + batch * inputs) * transform + spectra + (batch * outputs) * transform


def winograd_convolution(
    batch: int, inputs: int, outputs: int, output_sizes: tuple[int, int], tile: int, kernel: int
) -> WorkDepth:
    """F(m x m, r x r), ``A^T ((G g G^T) * (B^T d B)) A`` (Lavin and Gray 2016, eq. 12), at stride 1.

    m = ``tile``, r = ``kernel``, a = m + r - 1, P = N ceil(H'/m) ceil(W'/m) tiles. In multiply-accumulates: filters
    Co Ci (a r^2 + a^2 r), tiles Ci P 2 a^3, products a^2 Co Ci P, inverse Co P (a^2 m + a m^2); here in operations,
    the constant matrices taken as dense. D = 4 (1 + lg a) + 1 + lg Ci, filters and tiles being transformed side by
    side.
    """
    side = tile + kernel - 1
    tiles = batch * prod(ceil(size / tile) for size in output_sizes)
    filters = outputs * inputs * (matmul(side, kernel, kernel) + matmul(side, kernel, side))
    patches = inputs * tiles * (matmul(side, side, side) + matmul(side, side, side))
    products = side**2 * outputs * tiles * dot(inputs)
    inverse = outputs * tiles * (matmul(tile, side, side) + matmul(tile, side, tile))
    return (filters | patches) + products + inverse

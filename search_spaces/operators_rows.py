"""Operators that need a whole row of numbers for each of them: normalisation, softmax, cross entropy. MODELS.md 1.

Rows are counted side by side. A row is a channel over the batch and all places (batch norm), a sample's features
(layer norm), a sample's channels of one group (group norm), or the scores of all classes (softmax).
"""

from search_spaces.operators import COPY, WorkDepth, dot, elementwise, mean, reduction

_ROOT = elementwise(1, 2)
"""``sqrt(variance + epsilon)`` of a row."""


def normalization(rows: int, length: int, affine: bool = True) -> WorkDepth:
    """``gain (x - mean) / sqrt(variance + epsilon) + shift``, statistics of each row of ``length`` numbers.

    Batch norm in training, layer norm, group norm: W = R (7 M + 2), D = 2 lg M + 9; without gain and shift
    W = R (5 M + 2), D = 2 lg M + 7. Running statistics are not counted.
    """
    statistics = mean(length) + elementwise(length, 2) + mean(length) + _ROOT
    return rows * (statistics + elementwise(length, 3 if affine else 1))


def batch_norm_inference(n: int) -> WorkDepth:
    """Of n numbers, with fixed statistics folded into one gain and one shift a channel: W = 2 n, D = 2."""
    return elementwise(n, 2)


def batch_norm_gradients(channels: int, length: int, affine: bool = True) -> WorkDepth:
    """``dx``, ``dgain`` and ``dshift`` of channels of ``length`` numbers (Ioffe and Szegedy 2015, section 3).

    With the statistics kept and z = (x - mean) / root computed again:
    ``dx = gain / root (dy - sum(dy) / M - z sum(dy z) / M)``; W = C (9 M + 1), without gain 9 C M; D = lg M + 7.
    """
    sums = reduction(length) | dot(length)
    scalars = WorkDepth(3 if affine else 2, 1)
    return channels * (elementwise(length, 2) + sums + scalars + _from_sums(length))


def layer_norm_gradients(rows: int, length: int, gains: int) -> WorkDepth:
    """``dx``, ``dgain`` and ``dshift`` of layer norm or group norm (Ba et al. 2016, section 3).

    ``gains`` is the number of gains: ``length`` in layer norm, the channels in group norm, 0 where there are none.
    As `batch_norm_gradients`, a row, with g = gain dy for dy: W = 10 R M, without gains 9 R M, D = lg M + 7; and for
    gain and shift 3 R M - 2 gains, D = 3 + lg(R M / gains).
    """
    scaled = elementwise(length, 2) | (elementwise(length) if gains else COPY)
    inputs = rows * (scaled + (reduction(length) | dot(length)) + WorkDepth(2, 1) + _from_sums(length))
    if not gains:
        return inputs
    each = rows * length // gains
    sums = gains * (dot(each) | reduction(each))
    return WorkDepth(inputs.work + sums.work, max(inputs.depth, 2 + sums.depth))


def softmax(rows: int, classes: int) -> WorkDepth:
    """``exp(x - max) / sum``: W = N (5 K - 2), D = 2 lg K + 3."""
    return rows * (reduction(classes) + elementwise(classes, 2) + reduction(classes) + elementwise(classes))


def softmax_gradient(rows: int, classes: int) -> WorkDepth:
    """``dx = y (dy - sum(dy y))``: W = N (4 K - 1), D = lg K + 3."""
    return rows * (dot(classes) + elementwise(classes, 2))


def log_softmax(rows: int, classes: int) -> WorkDepth:
    """``(x - max) - log(sum(exp(x - max)))``: W = N (5 K - 1), D = 2 lg K + 4."""
    total = reduction(classes) + elementwise(classes, 2) + reduction(classes)
    return rows * (total + elementwise(1) + elementwise(classes))


def log_softmax_gradient(rows: int, classes: int) -> WorkDepth:
    """``dx = dy - exp(y) sum(dy)``: W = N (4 K - 1), D = max(1, lg K) + 2."""
    return rows * ((reduction(classes) | elementwise(classes)) + elementwise(classes, 2))


def nll_loss(rows: int) -> WorkDepth:
    """The mean over rows of one number of each, negated by its divisor: W = N, D = lg N + 1."""
    return mean(rows)


def nll_loss_gradient() -> WorkDepth:
    """The loss's gradient over -N, put at one place of each row: W = 1, D = 1."""
    return elementwise(1)


def cross_entropy(rows: int, classes: int) -> WorkDepth:
    """`log_softmax`, whole, then `nll_loss`: W = 5 N K, D = 2 lg K + lg N + 5."""
    return log_softmax(rows, classes) + nll_loss(rows)


def cross_entropy_gradient(rows: int, classes: int) -> WorkDepth:
    """`nll_loss_gradient`, then `log_softmax_gradient`: W = N (4 K - 1) + 1, D = lg K + 3."""
    sums = nll_loss_gradient() + rows * reduction(classes)
    return (sums | elementwise(rows * classes)) + elementwise(rows * classes, 2)


def _from_sums(length: int) -> WorkDepth:
    """``scale ((dy - a) - z b)``, the first two side by side."""
    return (elementwise(length) | elementwise(length)) + elementwise(length, 2)

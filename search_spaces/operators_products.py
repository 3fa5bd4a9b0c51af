"""Matrix products: fully connected layers and attention. MODELS.md 1, from Ben-Nun and Hoefler 2019, section 4."""

from search_spaces.operators import WorkDepth, dot, elementwise, reduction
from search_spaces.operators_rows import softmax, softmax_gradient


def matmul(rows: int, inner: int, columns: int, batch: int = 1) -> WorkDepth:
    """[batch, rows, inner] times [batch, inner, columns]: W = B R C (2 I - 1), D = 1 + lg I."""
    return batch * rows * columns * dot(inner)


def fully_connected(batch: int, inputs: int, outputs: int, bias: bool = False) -> WorkDepth:
    """``y = x W``, and ``+ b``: W = N Co (2 Ci - 1), D = 1 + lg Ci; with bias + N Co, + 1."""
    product = matmul(batch, inputs, outputs)
    return product + elementwise(batch * outputs) if bias else product


def fully_connected_weight_gradient(batch: int, inputs: int, outputs: int) -> WorkDepth:
    """``dW = x^T dy``: W = Ci Co (2 N - 1), D = 1 + lg N."""
    return matmul(inputs, batch, outputs)


def fully_connected_input_gradient(batch: int, inputs: int, outputs: int) -> WorkDepth:
    """``dx = dy W^T``: W = N Ci (2 Co - 1), D = 1 + lg Co."""
    return matmul(batch, outputs, inputs)


def bias_gradient(batch: int, outputs: int) -> WorkDepth:
    """``db``, the sum of dy over the batch, in a convolution also over places: W = Co (N - 1), D = lg N."""
    return outputs * reduction(batch)


def attention(heads: int, queries: int, keys: int, width: int, value_width: int) -> WorkDepth:
    """``softmax(Q K^T / sqrt(width)) V`` (Vaswani et al. 2017, eq. 1) for ``heads`` of all samples.

    A causal mask saves nothing: all scores count, as in torch's FLOPs. What a mask adds comes before the softmax, so
    ``elementwise(scores)`` is to be added.
    """
    scores = heads * queries * keys
    weights = matmul(queries, width, keys, heads) + elementwise(scores) + softmax(heads * queries, keys)
    return weights + matmul(queries, keys, value_width, heads)


def attention_gradients(heads: int, queries: int, keys: int, width: int, value_width: int) -> WorkDepth:
    """``dQ``, ``dK`` and ``dV``.

    The weights P are computed again from Q, K and the logarithm of each row's sum: a product and 3 operations a score
    (Dao et al. 2022, algorithm 4). Then ``dV = P^T dO``, ``dP = dO V^T``, ``dS`` by the gradient of the softmax and
    the scale, ``dQ = dS K``, ``dK = dS^T Q``.
    """
    scores = heads * queries * keys
    weights = matmul(queries, width, keys, heads) + elementwise(scores, 3)
    weights_gradient = matmul(queries, value_width, keys, heads)
    scores_gradient = softmax_gradient(heads * queries, keys) + elementwise(scores)
    values_gradient = matmul(keys, queries, value_width, heads)
    last = values_gradient | matmul(queries, keys, width, heads) | matmul(keys, queries, width, heads)
    return (weights | weights_gradient) + scores_gradient + last

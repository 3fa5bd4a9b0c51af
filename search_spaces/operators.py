"""Work and depth of operators (Ben-Nun and Hoefler 2019, section 2.5), and those of the simplest operators.

A computation is a graph of operations: its work is their number, its depth the longest chain of them. One operation is
an addition, multiplication, division or maximum of two numbers, or a function of one (exponential, logarithm, root,
tanh, sigmoid). Sums and maxima are balanced trees. Moving numbers costs no operation. Counts are exact, and all sizes
are at least 1. The operators of each family are in the modules ``operators_*``; nothing here knows of torch.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkDepth:
    """``work`` operations, of which ``depth`` follow one another at most."""

    work: int
    depth: int

    def __add__(self, after: "WorkDepth") -> "WorkDepth":
        """One after the other: work and depth add."""
        return WorkDepth(self.work + after.work, self.depth + after.depth)

    def __or__(self, beside: "WorkDepth") -> "WorkDepth":
        """Side by side: work adds, the deeper one counts."""
        return WorkDepth(self.work + beside.work, max(self.depth, beside.depth))

    def __rmul__(self, copies: int) -> "WorkDepth":
        """``copies`` of it, side by side."""
        return WorkDepth(copies * self.work, self.depth)


COPY = WorkDepth(0, 0)
"""Concatenation, slicing, transposition, lookup in a table, and the gradients of the first three."""


def lg(n: int) -> int:
    """``ceil(log2 n)``: the depth of a balanced tree of n leaves."""
    return (n - 1).bit_length()


def elementwise(n: int, operations: int = 1) -> WorkDepth:
    """``operations`` on each of n numbers, one after the other: W = a n, D = a; their gradients alike.

    A residual addition is one.
    """
    return WorkDepth(operations * n, operations)


def reduction(n: int) -> WorkDepth:
    """Sum or maximum of n numbers: W = n - 1, D = lg n."""
    return WorkDepth(n - 1, lg(n))


def mean(n: int) -> WorkDepth:
    """A sum, and the division by n: W = n, D = lg n + 1."""
    return WorkDepth(n, lg(n) + 1)


def dot(n: int) -> WorkDepth:
    """Products of n pairs of numbers, and their sum: W = 2 n - 1, D = 1 + lg n."""
    return WorkDepth(2 * n - 1, 1 + lg(n))


def scatter(n: int, most: int) -> WorkDepth:
    """Each of n numbers is added at a place that holds zero at first; at no place more than ``most`` meet.

    W = n wherever they go; D = lg(1 + most), reached where so many do meet.
    """
    return WorkDepth(n, lg(1 + most))


def embedding_gradient(tokens: int, width: int) -> WorkDepth:
    """Gradient of a table whose rows were looked up (a copy) for ``tokens``: each token's is added to its row.

    W = tokens width, D = lg(1 + tokens): all of them may be the same word.
    """
    return width * scatter(tokens, tokens)

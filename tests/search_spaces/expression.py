"""Expressions as graphs of single operations that know their number: what an operator computes, and at what cost.

Arrays of terms are numpy arrays of objects, so formulas are written as numpy writes them; numpy asks each object for
its ``exp``, ``sqrt`` and so on. Nothing here knows the formulas under test.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from search_spaces.operators import WorkDepth


class Term:
    """A number given, or the result of one operation on others."""

    __slots__ = ("depth", "number", "operands")

    def __init__(self, number, *operands):
        self.number, self.operands = float(number), operands
        self.depth = 1 + max(operand.depth for operand in operands) if operands else 0

    def __add__(self, other):
        return Term(self.number + other.number, self, other)

    def __sub__(self, other):
        return Term(self.number - other.number, self, other)

    def __mul__(self, other):
        return Term(self.number * other.number, self, other)

    def __truediv__(self, other):
        return Term(self.number / other.number, self, other)

    def exp(self):
        return Term(math.exp(self.number), self)

    def log(self):
        return Term(math.log(self.number), self)

    def sqrt(self):
        return Term(math.sqrt(self.number), self)

    def tanh(self):
        return Term(math.tanh(self.number), self)

    def sigmoid(self):
        return Term(1 / (1 + math.exp(-self.number)), self)


given = np.frompyfunc(Term, 1, 1)
"""An array of numbers as terms without operands."""

maximum = np.frompyfunc(lambda a, b: Term(max(a.number, b.number), a, b), 2, 1)
sigmoid = np.frompyfunc(Term.sigmoid, 1, 1)


def numbers(terms):
    return np.asarray(np.frompyfunc(lambda term: term.number, 1, 1)(terms), dtype=float)


def tensor(terms):
    return torch.tensor(numbers(terms), requires_grad=True)


def agree(terms, expected):
    """The terms are the numbers that torch computes."""
    np.testing.assert_allclose(numbers(terms), expected.detach().numpy(), rtol=1e-9, atol=1e-12)


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def tree(terms, axis=-1, operation=np.add):
    """Reduce along an axis, pairs of neighbours first, then pairs of pairs."""
    terms = np.moveaxis(terms, axis, 0)
    while len(terms) > 1:
        pairs = operation(terms[0:-1:2], terms[1::2])
        terms = np.concatenate([pairs, terms[len(terms) // 2 * 2 :]])
    return terms[0]


def product(left, right):
    """[..., rows, inner] times [..., inner, columns]."""
    return tree(left[..., :, :, None] * right[..., None, :, :], axis=-2)


def counted(*results) -> WorkDepth:
    """Operations that the results need, each once, and the longest chain of them."""
    waiting = [term for result in results for term in np.asarray(result, dtype=object).flat]
    depth = max(term.depth for term in waiting)
    seen: set[int] = set()
    work = 0
    while waiting:
        term = waiting.pop()
        if term.operands and id(term) not in seen:
            seen.add(id(term))
            work += 1
            waiting.extend(term.operands)
    return WorkDepth(work, depth)


def padded(image: np.ndarray, padding: Sequence[int], value: float = 0.0) -> np.ndarray:
    """Terms around the last dimensions of terms."""
    border = [(0, 0)] * (image.ndim - len(padding)) + [(size, size) for size in padding]
    numbers_of_border = np.pad(numbers(image), border, constant_values=value)
    terms = given(numbers_of_border)
    terms[tuple(slice(low, -high or None) for low, high in border)] = image
    return terms


def windows_of(image: np.ndarray, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """[..., *sizes] to [..., *outputs, *kernel], views of the same elements."""
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    axes = tuple(range(-len(kernel), 0))
    views = sliding_window_view(image, reach, axis=axes)
    return views[(..., *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]

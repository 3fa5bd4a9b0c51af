"""A Gaussian process over candidates of any space.

k(x, y) = s^2 exp(-sum_d w_d delta_d(x, y)) with a weight for each decision (automatic relevance determination). For
options without order delta is 1 where they differ, which makes it the weighted Hamming kernel of Hutter et al. 2011
(SMAC, eq. 8); for ordered ones it is twice the distance of their places, an Ornstein-Uhlenbeck process along them; for
a continuum (2 difference)^2. Where only one of two candidates has a decision, 1 is added. All these are squared
distances between lifted rows, so the kernel is a Gaussian on these.

Weights, amplitude and noise maximise the marginal likelihood (Rasmussen and Williams 2006, eq. 5.9) under priors that
hold them near "every decision matters alike" while there is little data.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from search_spaces.encoding import Column

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
_Kind: TypeAlias = Callable[[Array, Array], Array]

_JITTER = 1e-6
_ITERATIONS = 25
_WEIGHT_SPREAD = 1.0
_AMPLITUDE = (log(0.7), 1.0)
_NOISE = (log(0.02), 1.5)
"""Priors are normal in the logarithm: the spread of a weight, mean and spread of the two variances."""


class Surrogate:
    """The process over rows of an `Encoding`, [n, columns], behind which columns of features may stand.

    ``features`` are the sizes of groups of these. Targets should be about standard normal. `fit` chooses the
    hyperparameters, `condition` says what is known, as `predict` and `believe` need it.
    """

    def __init__(self, columns: Sequence[Column], features: Sequence[int] = ()) -> None:
        self._lift = Lift(columns, features)
        groups = self._lift.groups
        self._weight_mean = -0.5 * log(groups)
        self._start = np.array([*[self._weight_mean] * groups, _AMPLITUDE[0], log(0.05)])
        self._hyper: Array = self._start

    def fit(self, rows: Array, targets: Array) -> None:
        """Choose the hyperparameters: a function of the arguments alone, not of an earlier fit."""
        distances = self._lift.distances(self._lift(rows))
        groups = self._lift.groups
        result = minimize(
            self._loss,
            self._start,
            args=(distances, targets),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-6.0, 4.0)] * groups + [(-5.0, 3.0), (-9.0, 1.0)],
            options={"maxiter": _ITERATIONS},
        )
        self._hyper = result.x if np.isfinite(result.fun) else self._start

    def condition(self, rows: Array, targets: Array) -> None:
        """Know that ``rows`` have the results ``targets``."""
        self._rows, self._targets = rows, targets
        self._scales = np.sqrt(np.exp(self._hyper[:-2]))[self._lift.group_of]
        self._known = self._lift(rows) * self._scales
        covariance = self._kernel(self._known)
        covariance[np.diag_indices(len(rows))] += np.exp(self._hyper[-1]) + _JITTER
        self._factor = np.linalg.cholesky(covariance)
        self._coefficients = cho_solve((self._factor, True), targets, check_finite=False)

    def believe(self, rows: Array) -> None:
        """Take ``rows``, whose results are still to come, for what is predicted (Ginsbourger et al. 2010)."""
        if len(rows):
            mean, _ = self.predict(rows)
            self.condition(np.concatenate([self._rows, rows]), np.concatenate([self._targets, mean]))

    def predict(self, rows: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at ``rows``, each [n]."""
        cross = self._kernel(self._lift(rows) * self._scales)
        explained = solve_triangular(self._factor, cross.T, lower=True, check_finite=False)
        variance = np.exp(self._hyper[-2]) - np.einsum("ij,ij->j", explained, explained)
        return cross @ self._coefficients, np.sqrt(np.maximum(variance, 1e-9))

    def _kernel(self, lifted: Array) -> Array:
        """Covariance of scaled lifted rows with the known ones."""
        return np.asarray(np.exp(self._hyper[-2] - _squared_distances(lifted, self._known)))

    def _loss(self, hyper: Array, distances: Array, targets: Array) -> tuple[float, Array]:
        """Negative logarithm of the posterior of the hyperparameters, and its gradient."""
        groups = self._lift.groups
        weights, amplitude, noise = np.exp(hyper[:groups]), np.exp(hyper[-2]), np.exp(hyper[-1])
        signal = amplitude * np.exp(-np.tensordot(weights, distances, 1))
        covariance = signal + (noise + _JITTER) * np.eye(len(targets))
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(hyper)
        inverse = cho_solve((factor, True), np.eye(len(targets)), check_finite=False)
        solved = inverse @ targets
        value = 0.5 * targets @ solved + np.log(np.diag(factor)).sum()
        outer = 0.5 * (inverse - np.outer(solved, solved))
        pull = outer * signal
        gradient = np.empty_like(hyper)
        gradient[:groups] = -weights * np.tensordot(distances, pull, 2)
        gradient[-2] = pull.sum()
        gradient[-1] = noise * np.trace(outer)
        means = np.array([*[self._weight_mean] * groups, _AMPLITUDE[0], _NOISE[0]])
        spreads = np.array([*[_WEIGHT_SPREAD] * groups, _AMPLITUDE[1], _NOISE[1]])
        off = (hyper - means) / spreads
        return float(value + 0.5 * off @ off), gradient + off / spreads


class Lift:
    """Rows as vectors whose squared distances, summed over the dimensions of a decision, are its delta.

    ``groups`` counts decisions and groups of features; ``group_of`` [dimensions] says whose a dimension is.
    """

    def __init__(self, columns: Sequence[Column], features: Sequence[int] = ()) -> None:
        dimensions = [dimension for at, column in enumerate(columns) for dimension in _dimensions(at, column)]
        self._parts: list[tuple[_Kind, Indices, Indices, Array, Array]] = []
        for kind in (_is_option, _is_above, _number, _is_absent):
            at = [place for place, dimension in enumerate(dimensions) if dimension.kind is kind]
            if at:
                ours = [dimensions[place] for place in at]
                column = np.array([dimension.column for dimension in ours])
                marks = np.array([dimension.mark for dimension in ours])
                self._parts.append((kind, np.array(at), column, marks, np.array([one.scale for one in ours])))
        self._width = len(dimensions)
        self._columns = len(columns)
        self._sizes = np.repeat(np.array(features, dtype=int), features)
        self.groups = len(columns) + len(features)
        of_features = np.repeat(np.arange(len(columns), self.groups), features)
        self.group_of = np.array([*(dimension.column for dimension in dimensions), *of_features], dtype=np.intp)

    def __call__(self, rows: Array) -> Array:
        """Lift [n, columns + features] to [n, dimensions]."""
        lifted = np.empty((len(rows), self._width + len(self._sizes)))
        for kind, at, column, marks, scales in self._parts:
            lifted[:, at] = kind(rows[:, column], marks) * scales
        lifted[:, self._width :] = rows[:, self._columns :] / np.sqrt(self._sizes)
        return lifted

    def distances(self, lifted: Array) -> Array:
        """Delta of each group between all pairs, [groups, n, n]."""
        parts = [lifted[:, self.group_of == group] for group in range(self.groups)]
        return np.array([_squared_distances(part, part) for part in parts])


def _is_option(values: Array, marks: Array) -> Array:
    return np.asarray(values == marks)


def _is_above(values: Array, marks: Array) -> Array:
    return np.asarray(_number(values, marks) > marks)


def _number(values: Array, marks: Array) -> Array:
    return np.where(np.isnan(values), 0.5, values)


def _is_absent(values: Array, marks: Array) -> Array:
    return np.asarray(np.isnan(values))


@dataclass(frozen=True, slots=True)
class _Dimension:
    """Is ``scale`` times what ``kind`` makes of the values of ``column`` and of ``mark``."""

    column: int
    kind: _Kind
    mark: float
    scale: float


def _dimensions(at: int, column: Column) -> Iterator[_Dimension]:
    if column.options:
        for option in range(column.options):
            yield _Dimension(at, _is_option, option, sqrt(0.5))
    elif column.levels:
        for low, high in pairwise(column.levels):
            yield _Dimension(at, _is_above, (high + low) / 2, sqrt(2 * (high - low)))
    else:
        yield _Dimension(at, _number, 0.0, 2.0)
    if column.conditional:
        yield _Dimension(at, _is_absent, 0.0, sqrt(0.5) if column.options else 1.0)


def _squared_distances(a: Array, b: Array) -> Array:
    squares = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b) - 2 * (a @ b.T)
    return np.asarray(np.maximum(squares, 0.0))

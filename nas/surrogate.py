"""A Gaussian process over candidates of any space.

k(x, y) = s^2 exp(-sum_d w_d delta_d(x, y)) with a weight for each decision (automatic relevance determination). For
options without order delta is 1 where they differ, which makes it the weighted Hamming kernel of Hutter et al. 2011
(SMAC, eq. 8); for ordered ones it is twice the distance of their places, an Ornstein-Uhlenbeck process along them; for
a continuum (2 difference)^2. Where only one of two candidates has a decision, 1 is added. All these are squared
distances between lifted rows, so the kernel is a Gaussian on these.

Weights, amplitude and noise maximise the marginal likelihood (Rasmussen and Williams 2006, eq. 5.9) under priors that
hold them near "every decision matters alike" while there is little data.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from search_spaces.encoding import Column

Array: TypeAlias = NDArray[np.float64]

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
        self._columns = columns
        self._ends = np.cumsum([len(columns), *features]).tolist()
        self.groups = len(columns) + len(features)
        empty = np.zeros((1, self._ends[-1]))
        sizes = [part.shape[1] for part in self._parts(empty)]
        self.group_of = np.repeat(np.arange(self.groups), sizes)

    def __call__(self, rows: Array) -> Array:
        """Lift [n, columns + features] to [n, dimensions]."""
        return np.concatenate(self._parts(rows), axis=1)

    def distances(self, lifted: Array) -> Array:
        """Delta of each group between all pairs, [groups, n, n]."""
        parts = [lifted[:, self.group_of == group] for group in range(self.groups)]
        return np.array([_squared_distances(part, part) for part in parts])

    def _parts(self, rows: Array) -> list[Array]:
        parts = [_lifted(column, rows[:, at]) for at, column in enumerate(self._columns)]
        features = [rows[:, start:end] for start, end in pairwise(self._ends)]
        return parts + [part / np.sqrt(part.shape[1]) for part in features]


def _lifted(column: Column, values: Array) -> Array:
    absent = np.isnan(values)
    if column.options:
        options = values[:, None] == np.arange(column.options)
        parts = [options * np.sqrt(0.5)]
    elif column.levels:
        levels = np.array(column.levels)
        middles = (levels[1:] + levels[:-1]) / 2
        parts = [(np.where(absent, 0.5, values)[:, None] > middles) * np.sqrt(2 * np.diff(levels))]
    else:
        parts = [2 * np.where(absent, 0.5, values)[:, None]]
    if column.conditional:
        parts.append(absent[:, None] * (np.sqrt(0.5) if column.options else 1.0))
    return np.concatenate(parts, axis=1)


def _squared_distances(a: Array, b: Array) -> Array:
    squares = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b) - 2 * (a @ b.T)
    return np.asarray(np.maximum(squares, 0.0))

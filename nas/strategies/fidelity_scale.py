"""Results at several fidelities on the scale of the highest one.

From rung to rung, results are regressed on those of the same trials at the rung below, an autoregressive chain as in
Kennedy and O'Hagan 2000 (eq. 2) with a linear step. A trial that went no further counts as what it is expected to
reach, with the variance of what is not known; that only the better ones were promoted does not bias a regression on the
value by which they were chosen. Values are normal scores of their ranks within a rung, so that no scale or outlier
matters.
"""

from bisect import bisect
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array: TypeAlias = NDArray[np.float64]

_PSEUDO_PAIRS = 4.0
_SLOPE, _RESIDUAL = 0.7, 0.5
"""What is taken for granted, as if seen in so many pairs, of the step between two rungs."""


def expected_scores(costs: Array) -> tuple[Array, Array]:
    """Scores at the highest rung and their variances, each [trials], from ``costs`` [trials, rungs].

    NaN stands where a trial was not measured; rungs without any result are allowed. Trials without any result get NaN.
    """
    scores = np.full(len(costs), np.nan)
    variances = np.zeros(len(costs))
    below: Array | None = None
    for column in costs.T:
        here = np.flatnonzero(~np.isnan(column))
        if not len(here):
            continue
        fresh = normal_scores(column[here])
        if below is not None:
            measured = np.full(len(costs), np.nan)
            measured[here] = fresh
            slope, offset, residual = _step(below, measured)
            scores, variances = offset + slope * scores, slope * slope * variances + residual
        scores[here], variances[here] = fresh, 0.0
        below = np.full(len(costs), np.nan)
        below[here] = fresh
    return scores, variances


def normal_scores(values: Array) -> Array:
    """Standard normal quantiles of the ranks, equal ones at their mean rank, [n]."""
    ordered = np.sort(values)
    ranks = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    return np.asarray(ndtri(ranks / len(values)))


def _step(below: Array, above: Array) -> tuple[float, float, float]:
    """Slope, offset and variance of the regression of ``above`` on ``below`` over the trials that have both."""
    both = ~np.isnan(below) & ~np.isnan(above)
    low, high, weight = below[both], above[both], _PSEUDO_PAIRS
    if not len(low):
        return _SLOPE, 0.0, _RESIDUAL
    low_mean, high_mean = low.mean(), high.mean()
    across = (low - low_mean) @ (high - high_mean)
    slope = (across + weight * _SLOPE) / ((low - low_mean) @ (low - low_mean) + weight)
    offset = high_mean - slope * low_mean
    rest = high - offset - slope * low
    return float(slope), float(offset), float((rest @ rest + weight * _RESIDUAL) / (len(low) + weight))


class RungCosts:
    """The costs of each trial at each fidelity; ``values`` is [trials, rungs, objectives], NaN where not measured."""

    def __init__(self, objectives: int) -> None:
        self._rungs: list[float] = []
        self._held = np.full((16, 0, objectives), np.nan)
        self._count = 0

    def open(self) -> int:
        """Begin a row; its place."""
        if self._count == len(self._held):
            self._held = np.concatenate([self._held, np.full_like(self._held, np.nan)])
        self._count += 1
        return self._count - 1

    def put(self, place: int, fidelity: float, costs: Sequence[float]) -> None:
        """Enter the costs of a row at a fidelity; those that are not finite count as not measured."""
        if fidelity not in self._rungs:
            at = bisect(self._rungs, fidelity)
            self._rungs.insert(at, fidelity)
            self._held = np.insert(self._held, at, np.nan, axis=1)
        self._held[place, self._rungs.index(fidelity)] = costs if np.isfinite(costs).all() else np.nan

    @property
    def values(self) -> Array:
        """All rows."""
        return self._held[: self._count]

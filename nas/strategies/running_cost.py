"""What training a candidate takes, learnt from what earlier ones took.

The logarithm of device-seconds per unit of fidelity is taken as linear in the lifted row of a candidate
(`nas.surrogate.Lift`), as it is where decisions multiply the cost: widths, batch sizes, kernels. A ridge holds it near
"all take alike" while there is little data; it is solved in its dual form, so that decisions may have many options.
"""

from collections import deque
from collections.abc import Sequence
from math import log

import numpy as np
from scipy.linalg import solve

from nas.surrogate import Array, Lift
from search_spaces.encoding import Column

_MOST = 250
_RIDGE = 0.1


class RunningCost:
    """Knows the newest 250 observations."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._lift = Lift(columns)
        self._rows: deque[Array] = deque(maxlen=_MOST)
        self._logarithms: deque[float] = deque(maxlen=_MOST)
        self._fitted: tuple[Array, Array, float] | None = None

    def observe(self, row: Array, rate: float) -> None:
        """Learn that the candidate of ``row`` [columns] took ``rate`` device-seconds per unit of fidelity, above 0."""
        self._rows.append(row)
        self._logarithms.append(log(rate))
        self._fitted = None

    def logarithm(self, rows: Array) -> Array:
        """Predicted logarithms of the rates of ``rows`` [n, columns], [n]; zeros before the first observation."""
        if not self._rows:
            return np.zeros(len(rows))
        if self._fitted is None:
            self._fitted = self._fit()
        centre, weights, mean = self._fitted
        return np.asarray((self._lift(rows) - centre) @ weights + mean)

    def _fit(self) -> tuple[Array, Array, float]:
        lifted, targets = self._lift(np.array(self._rows)), np.array(self._logarithms)
        centre, mean = lifted.mean(0), float(targets.mean())
        lifted = lifted - centre
        products = lifted @ lifted.T + _RIDGE * np.eye(len(lifted))
        return centre, np.asarray(lifted.T @ solve(products, targets - mean, assume_a="pos")), mean

"""What training a candidate costs, learnt from what earlier ones took.

The logarithm of device-seconds per unit of fidelity is linear in the lifted row of a candidate (`nas.surrogate.Lift`):
exact where each decision multiplies the cost, as a width or a batch size does. A ridge holds it near "all cost alike"
while there is little data.
"""

from collections.abc import Sequence
from math import log

import numpy as np

from nas.surrogate import Array, Lift
from search_spaces.encoding import Column

_RIDGE = 0.1


class RunningCost:
    """A fold over observations, in memory that does not grow with them."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._lift = Lift(columns)
        size = len(self._lift.group_of) + 1
        self._products = np.zeros((size, size))
        self._moments = np.zeros(size)
        self.count = 0

    def observe(self, row: Array, rate: float) -> None:
        """Learn that the candidate of ``row`` [columns] took ``rate`` device-seconds per unit of fidelity (> 0)."""
        lifted = self._lifted(row[None])[0]
        self._products += np.outer(lifted, lifted)
        self._moments += lifted * log(rate)
        self.count += 1

    def logarithm(self, rows: Array) -> Array:
        """Predicted logarithms of the rates of ``rows`` [n, columns], [n]; zeros before the first observation."""
        if not self.count:
            return np.zeros(len(rows))
        ridge = np.full(len(self._moments), _RIDGE)
        ridge[-1] = 1e-9  # the mean is free
        weights = np.linalg.solve(self._products + np.diag(ridge), self._moments)
        return np.asarray(self._lifted(rows) @ weights)

    def _lifted(self, rows: Array) -> Array:
        return np.column_stack([self._lift(rows), np.ones(len(rows))])

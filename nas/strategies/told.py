"""What a strategy was told of each trial, in columns that grow."""

from math import inf

import numpy as np

from nas.surrogate import Array
from nas.trial import Trial

_FIRST = 64


class Told:
    """Trials with their rows [n, columns], costs [n, objectives], and standings [n, 2], which compare before costs.

    A standing is the violation of the constraints, infinite where a trial failed, and minus the fidelity.
    """

    def __init__(self, columns: int, objectives: int) -> None:
        self.trials: list[Trial] = []
        self._places: dict[int, int] = {}
        self._rows = np.empty((_FIRST, columns))
        self._standings = np.empty((_FIRST, 2))
        self._costs = np.empty((_FIRST, objectives))

    def __len__(self) -> int:
        return len(self.trials)

    def __contains__(self, trial: Trial) -> bool:
        return trial.number in self._places

    @property
    def rows(self) -> Array:
        """A view, as the other two."""
        return self._rows[: len(self)]

    @property
    def standings(self) -> Array:
        """Violation and minus the fidelity."""
        return self._standings[: len(self)]

    @property
    def costs(self) -> Array:
        """To be minimised."""
        return self._costs[: len(self)]

    def add(self, trial: Trial, row: Array) -> None:
        """A trial of which nothing is known yet counts as failed."""
        at = len(self.trials)
        if at == len(self._rows):
            self._rows, self._standings, self._costs = map(_doubled, (self._rows, self._standings, self._costs))
        self.trials.append(trial)
        self._places[trial.number] = at
        self._rows[at], self._standings[at], self._costs[at] = row, (inf, 0.0), inf

    def put(self, trial: Trial, standing: tuple[float, float], costs: tuple[float, ...] | float) -> None:
        """Take the place of what was known of ``trial``."""
        at = self._places[trial.number]
        self._standings[at], self._costs[at] = standing, costs


def _doubled(array: Array) -> Array:
    return np.concatenate([array, np.empty_like(array)])

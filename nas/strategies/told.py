"""What a strategy was told of each trial, in columns that grow."""

from math import inf

import numpy as np

from nas.surrogate import Array
from nas.trial import Trial
from trainers import Fidelity

_FIRST = 64


class Told:
    """Trials with their rows [n, columns], violations of the constraints [n], infinite where a trial failed, and costs.

    ``rungs`` are the costs [n, objectives] at each fidelity, the lowest first, infinite where not measured.
    """

    def __init__(self, columns: int, objectives: int) -> None:
        self.trials: list[Trial] = []
        self._places: dict[int, int] = {}
        self._rows = np.empty((_FIRST, columns))
        self._violations = np.empty(_FIRST)
        self._nothing = np.full((_FIRST, objectives), inf)
        self._costs: dict[Fidelity, Array] = {}

    def __len__(self) -> int:
        return len(self.trials)

    def __contains__(self, trial: Trial) -> bool:
        return trial.number in self._places

    @property
    def rows(self) -> Array:
        """A view, as all others."""
        return self._rows[: len(self)]

    @property
    def violations(self) -> Array:
        """Of all constraints together."""
        return self._violations[: len(self)]

    @property
    def rungs(self) -> list[Array]:
        """Costs to be minimised; one rung of nothing before the first measurement."""
        rungs = [self._costs[fidelity] for fidelity in sorted(self._costs)] or [self._nothing]
        return [costs[: len(self)] for costs in rungs]

    def add(self, trial: Trial, row: Array) -> None:
        """A trial of which nothing is known yet counts as failed."""
        at = len(self.trials)
        if at == len(self._rows):
            self._rows, self._violations = _longer(self._rows), _longer(self._violations)
            self._nothing = _longer(self._nothing)
            self._costs = {fidelity: _longer(costs) for fidelity, costs in self._costs.items()}
        self.trials.append(trial)
        self._places[trial.number] = at
        self._rows[at], self._violations[at] = row, inf

    def judge(self, trial: Trial, violation: float) -> None:
        """Say how far ``trial`` violates the constraints."""
        self._violations[self._places[trial.number]] = violation

    def measure(self, trial: Trial, fidelity: Fidelity, costs: tuple[float, ...]) -> None:
        """Enter what ``trial`` costs at ``fidelity``."""
        if fidelity not in self._costs:
            self._costs[fidelity] = self._nothing.copy()
        self._costs[fidelity][self._places[trial.number]] = costs


def _longer(array: Array) -> Array:
    """Twice as long, infinite there."""
    return np.concatenate([array, np.full_like(array, inf)])

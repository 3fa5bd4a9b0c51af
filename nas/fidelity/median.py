"""The median stopping rule (Golovin et al. 2017, section 3.2.2).

A trial stops at a rung where its best objective so far is strictly worse than the median, over the other trials that
reached this rung, of the mean of their objectives up to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sortedcontainers import SortedList

from nas.fidelity.contract import Continue, Decision, Verdict
from nas.fidelity.levels import rungs
from nas.objective import Objectives
from nas.pareto import Costs, non_dominated_ranks
from nas.proposal import Proposal
from nas.rung import standing
from nas.trial import State, Trial
from trainers import Fidelity, Measurement

_FEWEST = 5
"""Other trials that a median takes at least; before, every trial goes on."""

_Place: TypeAlias = tuple[int, float]


class MedianStopping:
    """No trial is stopped below ``minimum``, the first rung, nor while fewer than 5 others have reached its rung.

    Constraints come first: the fewer broken, the better. In place of an objective's value several objectives have the
    non-dominated rank, among the others' mean vectors, of the trial's best value of each.
    """

    def __init__(self, objectives: Objectives, minimum: Fidelity, maximum: Fidelity, eta: float) -> None:
        self.rungs = rungs(minimum, maximum, eta)
        self._objectives = objectives
        several = len(objectives.objectives) > 1
        self._others = {level: _SeveralObjectives() if several else _OneObjective() for level in self.rungs}
        self._tracks: dict[int, _Track] = {}
        self._held: dict[int, Trial] = {}

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """The lowest rung, in the only bracket."""
        return 0, self.rungs[0]

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Go on at once, or stop."""
        if self._is_worse(trial.number, measurement.fidelity):
            return Verdict.STOP
        return Continue(self._above(measurement.fidelity))

    def promote(self, final: bool = False) -> tuple[int, Fidelity] | None:
        """A trial that would have gone on, had not a budget ended; there is none before a resume with a larger one."""
        for number, trial in self._held.items():
            if trial.state is State.PAUSED and not self._is_worse(number, trial.fidelity):
                return number, self._above(trial.fidelity)
        return None

    def proposed(self, trial: Trial) -> None:
        """Nothing to learn before it is measured."""

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """Take a measurement into the trial's mean and best; one without all objectives counts for nothing."""
        metrics = measurement.metrics
        if self._objectives.missing(metrics):
            return
        costs = self._objectives.costs(metrics)
        before = self._tracks.get(trial.number)
        track = before.then(costs) if before else _Track(1, costs, costs)
        self._tracks[trial.number] = track
        self._held[trial.number] = trial
        self._others[measurement.fidelity].add(trial.number, standing(self._objectives, metrics), track)

    def promoted(self, trial: Trial) -> None:
        """The trial is not held any more."""
        self._held.pop(trial.number, None)

    def ended(self, trial: Trial) -> None:
        """The trial is not held any more; what it measured still counts."""
        self._held.pop(trial.number, None)
        self._tracks.pop(trial.number, None)

    def _is_worse(self, number: int, level: Fidelity) -> bool:
        others = self._others[level]
        if len(others) - 1 < _FEWEST:
            return False
        own, median = others.compare(number, self._tracks[number])
        return own > median

    def _above(self, fidelity: Fidelity) -> Fidelity:
        return next(rung for rung in self.rungs if rung > fidelity)


@dataclass(frozen=True, slots=True)
class _Track:
    """Measurements of a trial so far: how many, the sum of each cost, the least of each."""

    count: int
    total: Costs
    best: Costs

    def then(self, costs: Costs) -> "_Track":
        total = tuple(a + b for a, b in zip(self.total, costs, strict=True))
        return _Track(self.count + 1, total, tuple(map(min, self.best, costs)))

    @property
    def mean(self) -> Costs:
        return tuple(cost / self.count for cost in self.total)


class _OneObjective:
    """Means of the trials at a rung, sorted: O(log n) a trial."""

    def __init__(self) -> None:
        self._standing: dict[int, int] = {}
        self._means = SortedList()

    def __len__(self) -> int:
        return len(self._means)

    def add(self, number: int, standing: int, track: _Track) -> None:
        self._standing[number] = standing
        self._means.add((standing, track.mean[0]))

    def compare(self, number: int, track: _Track) -> tuple[_Place, _Place]:
        """Place of the trial's best, and the median place of the others' means."""
        standing = self._standing[number]
        own = self._means.index((standing, track.mean[0]))
        count = len(self._means) - 1
        low, high = (self._means[at if at < own else at + 1] for at in ((count - 1) // 2, count // 2))
        return (standing, track.best[0]), _middle(low, high)


class _SeveralObjectives:
    """Mean vectors of the trials at a rung, ranked at each question."""

    def __init__(self) -> None:
        self._means: dict[int, tuple[int, Costs]] = {}

    def __len__(self) -> int:
        return len(self._means)

    def add(self, number: int, standing: int, track: _Track) -> None:
        self._means[number] = standing, track.mean

    def compare(self, number: int, track: _Track) -> tuple[_Place, _Place]:
        """Place of the trial's best, and the median place of the others' means."""
        entries = [(self._means[number][0], track.best)]
        entries += [entry for other, entry in self._means.items() if other != number]
        own, *others = _places(entries)
        others.sort()
        return own, _middle(others[(len(others) - 1) // 2], others[len(others) // 2])


def _places(entries: Sequence[tuple[int, Costs]]) -> list[_Place]:
    """Constraints broken and non-dominated rank; among those that break constraints only their number counts."""
    ranks = iter(non_dominated_ranks([costs for standing, costs in entries if not standing]))
    return [(standing, 0 if standing else next(ranks)) for standing, _ in entries]


def _middle(low: _Place, high: _Place) -> _Place:
    """The median of an even number: half way, or where constraints tell the two apart, the worse one."""
    return (low[0], (low[1] + high[1]) / 2) if low[0] == high[0] else high

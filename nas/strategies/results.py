"""What a model is fitted to: the results of a search in bounded memory, the best and the newest of them.

A candidate counts once, by its measurement at the highest fidelity. One that ended without any objectives (infeasible,
diverged, failed after all its retries) stays as a result without costs: it is known to be no good.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from nas.objective import Objectives
from nas.pareto import preference_order
from nas.trial import Outcome, Trial
from search_spaces import Bound, Candidate
from trainers import Fidelity, Measurement

_MOST = 500
_SPARE = 100
_BEST_SHARE = 4


@dataclass(frozen=True, slots=True)
class Result:
    """``costs`` to minimise, None where there are none; ``excess`` over each constraint's limit, None where unknown.

    ``trial`` is the first that tried the candidate.
    """

    trial: int
    candidate: Candidate
    costs: tuple[float, ...] | None
    excess: tuple[float | None, ...]
    fidelity: Fidelity

    @property
    def tells(self) -> bool:
        """Whether a model can learn from it where nothing else is known."""
        return self.costs is not None or any(excess is not None for excess in self.excess)


class Results:
    """A fold over what a strategy is told, at constant cost for each trial.

    ``telling`` is the number of candidates of which something is measured, ``last`` the trial told last.
    """

    def __init__(self, objectives: Objectives) -> None:
        self._objectives = objectives
        self._kept: dict[Candidate, Result] = {}
        self._told: dict[Candidate, bool] = {}
        self._own: dict[Candidate, int] = {}
        self._fresh = -1
        self._repeats: list[int] = []
        self.telling = 0
        self.last: int | None = None

    @property
    def count(self) -> int:
        """Candidates told of."""
        return len(self._told)

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Enter the trial's result, or replace it by one of a higher fidelity or by its failure."""
        self._note_repeat(trial)
        result = self._result(trial, measurement, ended)
        if result is None:
            return
        before = self._kept.pop(trial.proposal.candidate, None)
        if before is not None and result.costs is not None and before.fidelity > result.fidelity:
            result = before
        self._enter(trial, result)
        if len(self._kept) > _MOST + _SPARE:
            self._kept = {result.candidate: result for result in self.window(_MOST)}

    def window(self, most: int) -> list[Result]:
        """At most ``most`` (500) results in the order of telling: the best quarter of them, and the newest."""
        kept = [*self._kept.values()]
        if len(kept) <= most:
            return kept
        best = {id(result) for result in self._best_first(kept)[: most // _BEST_SHARE]}
        others = [result for result in kept if id(result) not in best]
        newest = {id(result) for result in others[len(best) - most :]}
        return [result for result in kept if id(result) in best or id(result) in newest]

    def has(self, candidate: Candidate) -> bool:
        """Whether a trial of this study, not of an older one, has tried ``candidate``."""
        return candidate in self._own

    def number(self, candidate: Candidate) -> int | None:
        """The first trial of this study that tried ``candidate``; None where none did."""
        return self._own.get(candidate)

    def repeats(self, pending: Iterable[Trial]) -> int:
        """How many of the last proposals in a row were duplicates, those under way included."""
        waiting = [*pending]
        fresh = max((trial.number for trial in waiting if trial.duplicate_of is None), default=-1)
        duplicates = [*self._repeats, *(trial.number for trial in waiting if trial.duplicate_of is not None)]
        return sum(number > max(fresh, self._fresh) for number in duplicates)

    def _note_repeat(self, trial: Trial) -> None:
        if trial.duplicate_of is None:
            self._fresh = max(self._fresh, trial.number)
            self._repeats = [number for number in self._repeats if number > self._fresh]
        elif trial.number > self._fresh and trial.number not in self._repeats:
            self._repeats.append(trial.number)

    def _result(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> Result | None:
        useless = ended is not None and ended.useless
        metrics = trial.metrics if measurement is None else measurement.metrics
        costs = None
        if not useless:
            if measurement is None or self._objectives.missing(metrics):
                return None
            costs = self._objectives.costs(metrics)
            if not all(map(isfinite, costs)):
                costs = None
        excess = tuple(_excess(bound, metrics.get(bound.name)) for bound in self._objectives.constraints)
        fidelity = 0 if measurement is None else measurement.fidelity
        number = self._own.get(trial.proposal.candidate, trial.number)
        return Result(number, trial.proposal.candidate, costs, excess, fidelity)

    def _enter(self, trial: Trial, result: Result) -> None:
        self._kept[result.candidate] = result
        self.telling += result.tells - self._told.get(result.candidate, False)
        self._told[result.candidate] = result.tells
        if trial.number >= 0:
            self._own.setdefault(result.candidate, trial.number)
        self.last = trial.number

    def _best_first(self, results: Sequence[Result]) -> list[Result]:
        """By broken constraints, then the highest fidelity, then the objectives."""
        standings: dict[tuple[int, float], list[Result]] = {}
        for result in results:
            if result.costs is not None:
                broken = sum(excess is None or excess > 0 for excess in result.excess)
                standings.setdefault((broken, -result.fidelity), []).append(result)
        ordered: list[Result] = []
        for standing in sorted(standings):
            equals = standings[standing]
            ordered += [equals[at] for at in preference_order([result.costs or () for result in equals])]
        return ordered


def comparable_costs(results: Sequence[Result], objectives: int) -> NDArray[np.float64]:
    """Costs of all results on one scale [results, objectives], for a model that knows no fidelities.

    A higher rung outranks a lower one: the costs of a rung are shifted by a constant, so far that its best is no better
    than the worst of the rungs above. What has no costs gets the worst of all, or zeros where nothing has any.
    """
    costs = np.zeros((len(results), objectives))
    rungs: dict[Fidelity, list[int]] = {}
    for at, result in enumerate(results):
        if result.costs is not None:
            costs[at] = result.costs
            rungs.setdefault(result.fidelity, []).append(at)
    worst = None
    for fidelity in sorted(rungs, reverse=True):
        of_rung = rungs[fidelity]
        if worst is not None:
            costs[of_rung] += np.maximum(0.0, worst - costs[of_rung].min(axis=0))
        worst = costs[of_rung].max(axis=0) if worst is None else np.maximum(worst, costs[of_rung].max(axis=0))
    if worst is not None:
        costs[[result.costs is None for result in results]] = worst
    return costs


def constraint_excess(results: Sequence[Result], constraints: int) -> NDArray[np.float64]:
    """How far each result is above each limit [results, constraints]; the largest known (at least 1) where unknown."""
    known = [[np.nan if one is None else one for one in result.excess] for result in results]
    excess = np.array(known).reshape(len(results), constraints)
    return np.where(np.isnan(excess), np.fmax.reduce(excess, axis=0, initial=1.0), excess)


def _excess(bound: Bound, value: float | None) -> float | None:
    if value is None or not isfinite(value):
        return None
    return value - bound.limit if bound.relation == "<=" else bound.limit - value

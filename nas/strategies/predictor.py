"""Guided Bayesian optimisation over any space: a Gaussian process ranks what lies near the best, and some of the rest.

After a first random sample, each proposal maximises the expected improvement (Jones et al. 1998, eq. 15; its logarithm
as in Ament et al. 2023) of a process on the candidates' decisions (`nas.surrogate`) over the neighbours of the best
candidates, mutants of them and strangers, and climbs on from the best of these; acquisition among mutations of the best
is that of White et al. 2021 ("BANANAS").

Results are learnt as normal scores of their ranks, so that no scale, outlier or infeasible candidate distorts the
model; rungs of fidelity are joined in one order (`nas.strategies.across_rungs`). In a continuum ranks tear apart what
hardly differs near an optimum: there, with one fidelity, the better half keeps its values ("half-rank warping" of Song
et al. 2024, "The Vizier Gaussian process bandit algorithm").

Where time is limited, what is maximised is the improvement per device-second of training ("expected improvement per
second" of Snoek et al. 2012, section 3.2), as far as trials so far tell what a candidate takes.

Several objectives are joined anew for each proposal by the augmented Chebyshev norm with random weights (Knowles 2006,
"ParEGO", eq. 2), here of their ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.random import Generator
from scipy.special import erfcx, ndtr, ndtri
from threadpoolctl import ThreadpoolController

from nas.objective import Objectives
from nas.proposal import EXHAUSTED, NoProposal, Proposal
from nas.strategies.across_rungs import across_rungs
from nas.strategies.neighbourhood import Neighbourhood, Pool
from nas.strategies.running_cost import RunningCost
from nas.strategies.told import Told
from nas.surrogate import Array, Surrogate
from nas.trial import Outcome, Trial
from search_spaces import Candidate, CandidateSpace
from trainers import Measurement

_MOST_KNOWN = 400
_MOST_FITTED = 250
_REFIT_SHARE = 30
_LEADERS = 8
_MUTANTS_EACH = 15
_STRANGERS = 120
_CLIMBS = 8
_ALL_LOOKED_AT = 20
"""Up to so many decisions all these candidates are looked at, of more so many fewer that an answer takes as long."""
_AUGMENTATION = 0.05
_FEWEST_VALUES = 4


class Predictor:
    """Proposes ``initial`` random candidates first.

    Who keeps all constraints ranks before who does not, of whom those are better that violate less. Trials under way
    count as measured at what is predicted. The process knows at most 400 trials, the better half of them the best of
    all; its hyperparameters are fitted to 250, to several objectives weighing alike, each time the results have grown
    by a thirtieth. ``fitted_on`` is the last trial known at that fit; ``notes`` say how many of how many results the
    process knows, where it leaves some out.
    """

    def __init__(self, space: CandidateSpace, objectives: Objectives, initial: int = 4) -> None:
        if isinstance(initial, bool) or not isinstance(initial, int) or initial < 2:
            raise ValueError(f"strategy.initial = {initial!r}: draw at least 2 candidates at random first")
        self._space = space
        self._objectives = objectives
        self._initial = initial
        self._near = Neighbourhood(space)
        self._surrogate = Surrogate(self._near.columns, self._near.features)
        self._cost = RunningCost(self._near.columns)
        self._per_second = False
        self._told = Told(len(self._near.columns) + sum(self._near.features), len(objectives.objectives))
        self._seen: dict[bytes, None] = {}
        self._measured: set[int] = set()
        self._next_fit = initial
        self._to_fit: tuple[int, Array, Array] | None = None
        self._fitted_on: int | None = None
        self._threads = ThreadpoolController()

    def heed_time(self) -> None:
        """Seek improvement per device-second of training."""
        self._per_second = True

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Keep the newest measurement; a candidate that fails or is infeasible ranks behind all others."""
        if trial not in self._told:
            row = self._near.row(trial.proposal.candidate)
            self._told.add(trial, row)
            if trial.number >= 0:  # what an older study has tried may be tried again
                self._seen[row.tobytes()] = None
        if ended is not None and ended.useless:
            self._told.judge(trial, self._objectives.violation(trial.static) or inf)
        elif measurement is not None and not self._objectives.missing(measurement.metrics):
            self._told.judge(trial, self._objectives.total_violation(measurement.metrics))
            self._told.measure(trial, measurement.fidelity, self._objectives.costs(measurement.metrics))
            self._measured.add(trial.number)
            if self._per_second and ended is None:
                self._observe_cost(trial, measurement)
        if len(self._told) >= self._next_fit:
            self._next_fit = len(self._told) + max(1, len(self._told) // _REFIT_SHARE)
            known = self._known(None, _MOST_FITTED)
            self._to_fit = (trial.number, known.rows, known.scores)

    def _observe_cost(self, trial: Trial, measurement: Measurement) -> None:
        """Learn from a first leg that ran whole: all candidates begin with one, and later ones are of the better."""
        own = trial.number >= 0 and trial.duplicate_of is None  # of an older study, other devices took that time
        rate = measurement.seconds * max(1, trial.devices) / measurement.fidelity
        if own and len(trial.rungs) == 1 and not trial.failures and 0 < rate < inf:
            row = self._near.row(trial.proposal.candidate)
            self._cost.observe(row[: len(self._near.columns)], rate)

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """The candidate of the largest expected improvement."""
        with self._threads.limit(limits=1, user_api="blas"):  # its matrices are small, and trials need the cores
            return self._ask(pending, rng)

    def _ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        waiting = [self._near.row(trial.proposal.candidate) for trial in pending]
        taken = self._seen | dict.fromkeys(row.tobytes() for row in waiting)
        if len(taken) >= self._space.size():
            return EXHAUSTED
        if len(self._measured) < 2 or len(self._measured) + len(waiting) < self._initial:
            return Proposal(self._near.stranger(taken, rng))
        self._fit()
        count = len(self._objectives.objectives)
        known = self._known(rng.dirichlet(np.ones(count)) if count > 1 else None, _MOST_KNOWN)
        self._surrogate.condition(known.rows, known.scores)
        if waiting:
            self._surrogate.believe(np.array(waiting[-_MOST_KNOWN:]))
        chosen = self._climb(known, taken, rng)
        if chosen is None:
            return Proposal(self._near.stranger(taken, rng))
        candidate, parent = chosen
        return Proposal(
            candidate,
            parents=() if parent is None else (parent,),
            operator="improve-per-second" if self._per_second else "improve",
            notes={"known": len(known.rows), "of": len(self._told)} if known.cut else None,
            fitted_on=self._fitted_on,
        )

    # What is known --------------------------------------------------------------------------------------------------

    def _known(self, weights: Array | None, most: int) -> "_Known":
        """The trials that the process shall know, best first; ``weights`` of several objectives, None: equal ones."""
        told, violations = self._told, self._told.violations
        rungs = [_joined(costs, weights) for costs in told.rungs]
        costs = rungs[0] if len(rungs) == 1 else across_rungs(rungs)
        keys = np.column_stack([violations, np.where(violations == inf, 0.0, costs)])
        order = np.lexsort(keys.T[::-1])
        cut = len(order) > most
        if cut:
            half = most // 2
            order = np.concatenate([order[:half], order[np.linspace(half, len(order) - 1, most - half).astype(int)]])
        return _Known(
            rows=told.rows[order],
            scores=(_half_ranks if self._near.continuous and len(rungs) == 1 else _normal_scores)(keys[order]),
            leaders=[told.trials[at] for at in order[:_LEADERS] if violations[at] < inf],
            cut=cut,
        )

    def _fit(self) -> None:
        if self._to_fit is not None:
            self._fitted_on, rows, scores = self._to_fit
            self._surrogate.fit(rows, scores)
            self._to_fit = None

    # What is proposed -----------------------------------------------------------------------------------------------

    def _some(self, count: int, *, cut: bool = False) -> int:
        share = min(1.0, _ALL_LOOKED_AT / len(self._near.columns)) / (2 if cut else 1)
        return max(2, ceil(count * share))

    def _pool(self, known: "_Known", rng: Generator) -> Pool:
        pools = [self._near.strangers(self._some(_STRANGERS, cut=known.cut), rng)]
        for leader in known.leaders[: self._some(_LEADERS, cut=known.cut)]:
            pools.append(self._near.neighbours(leader.proposal.candidate, rng).of(leader.number))
            mutants = self._near.mutants(leader.proposal.candidate, self._some(_MUTANTS_EACH), rng)
            pools.append(mutants.of(leader.number))
        return Pool.joined(pools)

    def _climb(
        self, known: "_Known", taken: dict[bytes, None], rng: Generator
    ) -> "tuple[Candidate, int | None] | None":
        """The best of the pool, then the best of its neighbours while that improves."""
        pool, best = self._pool(known, rng), float(known.scores.min())
        chosen: tuple[Candidate, int | None] | None = None
        value = -np.inf
        for _ in range(self._some(_CLIMBS, cut=known.cut)):
            fresh = [at for at, row in enumerate(pool.rows) if row.tobytes() not in taken]
            if not fresh:
                break
            rows = pool.rows[fresh]
            values = log_expected_improvement(*self._surrogate.predict(rows), best)
            if self._per_second:
                values -= self._cost.logarithm(rows[:, : len(self._near.columns)])
            at = int(np.argmax(values))
            if chosen is not None and values[at] <= value + 1e-9:
                break
            value, place = float(values[at]), fresh[at]
            chosen = (pool.candidates[place], pool.parents[place])
            pool = self._near.neighbours(chosen[0], rng).of(chosen[1])
        return chosen


@dataclass(frozen=True, slots=True)
class _Known:
    """``cut`` says that others are left out: then half as many candidates are looked at, to answer as soon."""

    rows: Array
    scores: Array
    leaders: list[Trial]
    cut: bool


def _joined(costs: Array, weights: Array | None) -> Array:
    """One cost for each row of [n, objectives], infinite for those without; equal weights where none are given."""
    if costs.shape[1] == 1:
        return costs[:, 0]
    known = np.isfinite(costs).all(1)
    ranks = [np.searchsorted(np.sort(column[known]), column) for column in costs.T]
    weights = np.full(costs.shape[1], 1 / costs.shape[1]) if weights is None else weights
    weighted = np.stack(ranks, axis=1) / max(1, known.sum()) * weights
    return np.where(known, weighted.max(1) + _AUGMENTATION * weighted.sum(1), inf)


def log_expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Logarithm of E max(best - f, 0) for f normal, [n]; stable far above ``best``."""
    z = (best - mean) / deviation
    near = np.maximum(z, -1.0)
    above = np.log(np.exp(-0.5 * near * near) / np.sqrt(2 * np.pi) + near * ndtr(near))
    far = np.maximum(-z, 1.0)
    ratio = np.maximum(1 - far * np.sqrt(np.pi / 2) * erfcx(far / np.sqrt(2)), 1e-300)
    below = -0.5 * z * z - 0.5 * np.log(2 * np.pi) + np.log(ratio)
    return np.asarray(np.log(deviation) + np.where(z > -1, above, below))


def _normal_scores(keys: Array) -> Array:
    """Normal scores of the ranks of sorted rows, [n]."""
    return np.asarray(ndtri((_dense_ranks(keys) + 0.5) / len(keys)))


def _half_ranks(keys: Array) -> Array:
    """The same, but of the better half those of the best one's standing are spread by their cost, the last column.

    They keep the score of their worst and the deviation of their scores.
    """
    scores = _normal_scores(keys)
    alike = (keys[:, :-1] == keys[0, :-1]).all(1)
    better = scores[: min(int(alike.sum()), (len(keys) + 1) // 2)]
    costs = keys[: len(better), -1]
    if len(better) >= _FEWEST_VALUES and costs[0] < costs[-1] < inf:
        halves = costs / 2  # whose differences are finite
        places = (halves - halves[-1]) / (halves[-1] - halves[0])  # from -1 to 0, so that there is a deviation
        better[:] = better[-1] + places * (better.std() / places.std())
    return scores


def _dense_ranks(keys: Array) -> Array:
    """Ranks of sorted rows from 0; equal rows share the mean of theirs."""
    new = np.concatenate([[True], (keys[1:] != keys[:-1]).any(1)])
    group = np.cumsum(new) - 1
    places = np.arange(len(keys), dtype=float)
    return np.asarray((np.bincount(group, places) / np.bincount(group))[group])

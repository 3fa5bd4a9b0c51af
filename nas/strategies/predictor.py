"""Guided Bayesian optimisation over any space: a Gaussian process ranks what lies near the best, and some of the rest.

After a first random sample, each proposal maximises the expected improvement (Jones et al. 1998, eq. 15; its logarithm
as in Ament et al. 2023) of a process on the candidates' decisions (`nas.surrogate`) over the neighbours of the best
candidates, mutants of them and strangers, and climbs on from the best of these; acquisition among mutations of the best
is that of White et al. 2021 ("BANANAS"). Results are learnt by their ranks, as normal scores, so that no scale, outlier
or infeasible candidate distorts the model; those at lower fidelities count as what is expected at the highest one, with
the variance of that (`nas.strategies.fidelity_scale`). Several objectives are joined anew for each proposal by the
augmented Chebyshev norm with random weights (Knowles 2006, "ParEGO", eq. 2), here of their ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr, ndtri
from threadpoolctl import ThreadpoolController

from nas.objective import Objectives
from nas.proposal import EXHAUSTED, NoProposal, Proposal
from nas.strategies.fidelity_scale import RungCosts, expected_scores, normal_scores
from nas.strategies.neighbourhood import Neighbourhood, Pool
from nas.surrogate import Array, Surrogate
from nas.trial import Outcome, Trial
from search_spaces import Candidate, CandidateSpace
from trainers import Measurement

_MOST_KNOWN = 500
_MOST_FITTED = 250
_REFIT_SHARE = 30
_LEADERS = 8
_MUTANTS = 120
_STRANGERS = 120
_CLIMBS = 8
_AUGMENTATION = 0.05
_FEASIBLE, _VIOLATES, _BAD = range(3)


class Predictor:
    """Proposes ``initial`` random candidates first.

    Who keeps all constraints ranks before who does not, of whom those are better that violate less. Trials under way
    count as measured at what is predicted. The process knows at most 500 trials, the better half of them the best of
    all; its hyperparameters are fitted to 250, each time the results have grown by a thirtieth. ``fitted_on`` is the
    last trial known at that fit; ``notes`` say how many of how many results the process knows, where it leaves some
    out.
    """

    def __init__(self, space: CandidateSpace, objectives: Objectives, initial: int = 10) -> None:
        if isinstance(initial, bool) or not isinstance(initial, int) or initial < 2:
            raise ValueError(f"strategy.initial = {initial!r}: draw at least 2 candidates at random first")
        self._space = space
        self._objectives = objectives
        self._initial = initial
        self._near = Neighbourhood(space)
        self._surrogate = Surrogate(self._near.columns, self._near.features)
        self._told: dict[int, _Told] = {}
        self._costs = RungCosts(len(objectives.objectives))
        self._seen: dict[bytes, None] = {}
        self._measured: set[int] = set()
        self._next_fit = initial
        self._to_fit: tuple[int, _Known] | None = None
        self._fitted_on: int | None = None
        self._threads = ThreadpoolController()

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Keep the newest measurement; a candidate that fails or is infeasible ranks behind all others."""
        told = self._told.get(trial.number)
        if told is None:
            row = self._near.row(trial.proposal.candidate)
            told = self._told[trial.number] = _Told(trial, row, self._costs.open(), _BAD)
            if trial.number >= 0:  # what an older study has tried may be tried again
                self._seen[row.tobytes()] = None
        if ended is not None and (ended.failed or ended.infeasible):
            told.violation = self._objectives.violation(trial.static)
            told.standing = _VIOLATES if told.violation > 0 else _BAD
        elif measurement is not None and not self._objectives.missing(measurement.metrics):
            costs = self._objectives.costs(measurement.metrics)
            self._costs.put(told.place, measurement.fidelity, costs)
            told.violation = self._objectives.violation(measurement.metrics)
            told.standing = _VIOLATES if told.violation > 0 else _FEASIBLE
            if not all(map(isfinite, costs)):
                told.standing = _BAD
            self._measured.add(trial.number)
        if len(self._told) >= self._next_fit:
            self._next_fit = len(self._told) + max(1, len(self._told) // _REFIT_SHARE)
            self._to_fit = (trial.number, self._known(None, _MOST_FITTED))

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
        self._surrogate.condition(known.rows, known.scores, known.variances)
        if waiting:
            self._surrogate.believe(np.array(waiting[-_MOST_KNOWN:]))
        chosen = self._climb(self._pool(known.leaders, rng), float(known.scores.min()), taken, rng)
        if chosen is None:
            return Proposal(self._near.stranger(taken, rng))
        candidate, parent = chosen
        all_known = len(known.rows) == len(self._told)
        return Proposal(
            candidate,
            parents=() if parent is None else (parent,),
            operator="improve",
            notes=None if all_known else {"known": len(known.rows), "of": len(self._told)},
            fitted_on=self._fitted_on,
        )

    # What is known --------------------------------------------------------------------------------------------------

    def _known(self, weights: Array | None, most: int) -> "_Known":
        """What the process shall know of at most so many trials, best first."""
        told = list(self._told.values())
        standing = np.array([entry.standing for entry in told])
        violation = np.array([entry.violation for entry in told])
        chosen = np.arange(len(told))
        scores, variances = self._scores(chosen, standing, violation, weights)
        order = np.argsort(scores, kind="stable")
        if len(order) > most:
            half = most // 2
            chosen = order[np.r_[:half, np.linspace(half, len(order) - 1, most - half).astype(int)]]
            scores, variances = self._scores(chosen, standing[chosen], violation[chosen], weights)
            order = np.argsort(scores, kind="stable")
        best = [told[at] for at in chosen[order]]
        return _Known(
            rows=np.array([entry.row for entry in best]),
            scores=scores[order],
            variances=variances[order],
            leaders=[entry.trial for entry in best[:_LEADERS] if entry.standing < _BAD],
        )

    def _scores(
        self, chosen: NDArray[np.intp], standing: NDArray[np.intp], violation: Array, weights: Array | None
    ) -> tuple[Array, Array]:
        """Normal scores of trials and their variances, each [chosen]."""
        shares, variances = np.full(len(chosen), 0.5), np.zeros(len(chosen))
        below = 0.0
        for level in np.unique(standing):
            of_it = np.flatnonzero(standing == level)
            if level == _FEASIBLE:
                shares[of_it], variances[of_it] = _joined(self._costs.values[chosen[of_it]], weights)
            elif level == _VIOLATES:
                shares[of_it] = ndtr(normal_scores(violation[of_it]))
            part = len(of_it) / len(chosen)
            shares[of_it] = below + part * shares[of_it]
            below += part
        return ndtri(shares), variances

    def _fit(self) -> None:
        if self._to_fit is not None:
            self._fitted_on, known = self._to_fit
            self._surrogate.fit(known.rows, known.scores, known.variances)
            self._to_fit = None

    # What is proposed -----------------------------------------------------------------------------------------------

    def _pool(self, leaders: Sequence[Trial], rng: Generator) -> Pool:
        pools = [self._near.strangers(_STRANGERS, rng)]
        for leader in leaders:
            pools.append(self._near.neighbours(leader.proposal.candidate, rng).of(leader.number))
            mutants = self._near.mutants(leader.proposal.candidate, _MUTANTS // len(leaders), rng)
            pools.append(mutants.of(leader.number))
        return Pool.joined(pools)

    def _climb(
        self, pool: Pool, best: float, taken: dict[bytes, None], rng: Generator
    ) -> "tuple[Candidate, int | None] | None":
        """The best of ``pool``, then the best of its neighbours while that improves."""
        chosen: tuple[Candidate, int | None] | None = None
        value = -np.inf
        for _ in range(_CLIMBS):
            fresh = [at for at, row in enumerate(pool.rows) if row.tobytes() not in taken]
            if not fresh:
                break
            values = log_expected_improvement(*self._surrogate.predict(pool.rows[fresh]), best)
            at = int(np.argmax(values))
            if chosen is not None and values[at] <= value + 1e-9:
                break
            value, place = float(values[at]), fresh[at]
            chosen = (pool.candidates[place], pool.parents[place])
            pool = self._near.neighbours(chosen[0], rng).of(chosen[1])
        return chosen


@dataclass(slots=True, eq=False)
class _Told:
    """``place``: its row of costs; ``standing``: _BAD where nothing can be said of it but that it failed."""

    trial: Trial
    row: Array
    place: int
    standing: int
    violation: float = 0.0


@dataclass(frozen=True, slots=True)
class _Known:
    rows: Array
    scores: Array
    variances: Array
    leaders: list[Trial]


def _joined(costs: Array, weights: Array | None) -> tuple[Array, Array]:
    """Places between 0, the best, and 1, with the variances of their scores, from costs [trials, rungs, objectives].

    Several objectives are joined by ``weights``, equal ones where none are given.
    """
    expected = [expected_scores(column) for column in np.moveaxis(costs, 2, 0)]
    variances = np.mean([variance for _, variance in expected], axis=0)
    shares = ndtr(np.array([scores for scores, _ in expected]))
    if len(shares) == 1:
        return shares[0], variances
    weighted = shares.T * (np.full(len(shares), 1 / len(shares)) if weights is None else weights)
    return ndtr(normal_scores(weighted.max(1) + _AUGMENTATION * weighted.sum(1))), variances


def log_expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Logarithm of E max(best - f, 0) for f normal, [n]; stable far above ``best``."""
    z = (best - mean) / deviation
    near = np.maximum(z, -1.0)
    above = np.log(np.exp(-0.5 * near * near) / np.sqrt(2 * np.pi) + near * ndtr(near))
    far = np.maximum(-z, 1.0)
    ratio = np.maximum(1 - far * np.sqrt(np.pi / 2) * erfcx(far / np.sqrt(2)), 1e-300)
    below = -0.5 * z * z - 0.5 * np.log(2 * np.pi) + np.log(ratio)
    return np.asarray(np.log(deviation) + np.where(z > -1, above, below))

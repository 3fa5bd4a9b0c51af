"""A strategy out of one of Optuna's samplers (Akiba et al. 2019); the study it sees is made anew for each proposal.

The sampler is seeded by the proposal's generator and keeps nothing, so that a resumed search proposes what the unbroken
one would have.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import optuna
from numpy.random import Generator
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from nas.objective import Objectives
from nas.proposal import AFTER_REPEATS, Proposal
from nas.strategies.optuna_parameters import Parameters, Point
from nas.strategies.results import Result, Results, comparable_costs, constraint_excess
from nas.trial import Outcome, Trial
from search_spaces import Candidate, CandidateSpace
from trainers import Measurement

_REPEATS = 3
_SUGGESTIONS = 2
_DRAWS = 100
_MOST_NOTED = 500
"""Proposals whose ``again`` is kept: more than any model counts."""
_FIRST = 1_000
"""Numbers of the trials that a sampler sees begin here; below are those that ask for a candidate."""


@dataclass(frozen=True, slots=True)
class Model:
    """A sampler by its name, made from a seed, and how many results and pending trials it is shown at most.

    ``point`` makes parameters of a candidate: those of its active decisions, or all for a sampler that models no others
    than those which every trial has. ``again`` is the share of what it is shown that may be results which it suggested
    again: each counts once more for that.
    """

    name: str
    make: Callable[[int], BaseSampler]
    point: Callable[[Candidate], Point]
    results: int
    pending: int
    again: float = 0.0


class OptunaStrategy:
    """Random candidates until ``startup`` are measured, then those of `model`.

    A sampler may suggest what was tried or is under way: then the suggestion is mutated until it was not. Where the
    `Model` says so, a result that was suggested again counts once more from now on, much as in Optuna, where trying it
    again would bring it anew, and the sampler is asked a second time first; ``notes`` say whose results they are
    (``again``). After three proposals in a row that others answered (isomorphic ones) a random candidate is taken that
    was not tried yet.
    """

    def __init__(self, space: CandidateSpace, objectives: Objectives, startup: int = 10) -> None:
        if startup < 1:
            raise ValueError(f"strategy.startup = {startup}: at least 1 candidate comes before a model can be fitted")
        self._space = space
        self._objectives = objectives
        self._startup = startup
        self._results = Results(objectives)
        self._again: dict[int, list[int]] = {}
        self.parameters = Parameters(space)

    def model(self, results: int) -> Model:
        """The model that proposes once there are so many results."""
        raise NotImplementedError

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal:
        """Fit the sampler to the results, with the pending trials as running ones, and take what it suggests."""
        results = self._results
        if results.telling < self._startup or not self.parameters.count:
            return self._random(pending, rng, "sample")
        if results.repeats(pending) >= _REPEATS:
            return self._random(pending, rng, AFTER_REPEATS)
        model = self.model(results.count)
        suggested, shown, again = self._suggested(model, pending, rng)
        fresh = self._mutated(suggested, pending, rng)
        if fresh is None:
            return self._random(pending, rng, AFTER_REPEATS)
        notes: dict[str, Any] = {"results": shown, "of": results.count} if shown < results.count else {}
        if again:
            notes["again"] = again
        return Proposal(fresh, operator=model.name, notes=notes or None, fitted_on=results.last)

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Remember the result; what ended without objectives counts as the worst, whatever the reason."""
        self._results.tell(trial, measurement, ended)
        self._again |= _again((trial,))
        if len(self._again) > 2 * _MOST_NOTED:
            self._again = dict(sorted(self._again.items())[-_MOST_NOTED:])

    def _suggested(self, model: Model, pending: Sequence[Trial], rng: Generator) -> tuple[Candidate, int, list[int]]:
        """What the sampler suggests, of how many results, and whose count once more since it suggested them again."""
        noted = sorted((self._again | _again(pending)).items())
        before = [number for _, numbers in noted for number in numbers]
        again: list[int] = []
        for _ in range(_SUGGESTIONS):
            shown = self._shown(model, [*before, *again])
            study = self._study(model, shown, pending, int(rng.integers(2**32)))
            with _quiet():
                suggested = self.parameters.suggest(study.ask(), rng)
            number = self._results.number(suggested)
            if number is None or not model.again:
                break
            again.append(number)
        return suggested, len(shown), again

    def _shown(self, model: Model, again: list[int]) -> list[tuple[Result, int]]:
        """The results that ``model`` is shown, and how often: once more for each time among the newest of ``again``."""
        most = int(model.results * model.again)
        newest = again[-most:] if most else []
        times = Counter(newest)
        return [(result, 1 + times[result.trial]) for result in self._results.window(model.results - len(newest))]

    def _random(self, pending: Sequence[Trial], rng: Generator, operator: str) -> Proposal:
        under_way = {trial.proposal.candidate for trial in pending}
        for _ in range(_DRAWS):
            candidate = self._space.sample(rng)
            if not self._results.has(candidate) and candidate not in under_way:
                break
        return Proposal(candidate, operator=operator)

    def _mutated(self, candidate: Candidate, pending: Sequence[Trial], rng: Generator) -> Candidate | None:
        """``candidate``, mutated until it is new; None if 100 mutations do not make it so."""
        under_way = {trial.proposal.candidate for trial in pending}
        for _ in range(_DRAWS):
            if not self._results.has(candidate) and candidate not in under_way:
                return candidate
            candidate = self._space.mutate(candidate, rng)
        return None

    def _study(
        self, model: Model, counted: list[tuple[Result, int]], pending: Sequence[Trial], seed: int
    ) -> optuna.Study:
        completed = [*self._completed(model, counted)]
        storage = _Shown([*completed, *self._running(model, pending, len(completed))])
        directions = [StudyDirection.MINIMIZE] * len(self._objectives.objectives)
        with _quiet():
            return optuna.create_study(storage=storage, sampler=model.make(seed), directions=directions)

    def _completed(self, model: Model, counted: list[tuple[Result, int]]) -> Iterator[FrozenTrial]:
        window = [result for result, _ in counted]
        names = [bound.name for bound in self._objectives.constraints]
        costs = comparable_costs(window, len(self._objectives.objectives)).tolist()
        excesses = constraint_excess(window, len(names)).tolist()
        at = 0
        for (result, times), cost, excess in zip(counted, costs, excesses, strict=True):
            constraints = dict(zip(names, excess, strict=True))
            for _ in range(times):
                yield _trial(at, model.point(result.candidate), TrialState.COMPLETE, cost, constraints)
                at += 1

    def _running(self, model: Model, pending: Sequence[Trial], before: int) -> Iterator[FrozenTrial]:
        candidates = dict.fromkeys(trial.proposal.candidate for trial in pending)
        for at, candidate in enumerate([*candidates][-model.pending :], before):
            yield _trial(at, model.point(candidate), TrialState.RUNNING)


def _again(trials: Iterable[Trial]) -> dict[int, list[int]]:
    """By the number of a proposal the trials whose results count once more since then; other notes name none."""
    found = {}
    for trial in trials:
        notes = trial.proposal.notes
        numbers = notes.get("again") if isinstance(notes, dict) else None
        if isinstance(numbers, list):
            found[trial.number] = [number for number in numbers if isinstance(number, int)]
    return found


def _trial(
    at: int,
    point: Point,
    state: TrialState,
    values: list[float] | None = None,
    constraints: dict[str, float] | None = None,
) -> FrozenTrial:
    params, distributions = point
    trial = FrozenTrial(
        number=_FIRST + at,
        trial_id=_FIRST + at,
        state=state,
        value=None,
        values=values,
        params=params,
        distributions=distributions,
        datetime_start=None,
        datetime_complete=None,
        user_attrs={},
        system_attrs={},
        intermediate_values={},
    )
    for name, excess in (constraints or {}).items():
        trial.set_constraint(name, excess)
    return trial


class _Shown(InMemoryStorage):
    """Shows a sampler the given trials, in place of the empty ones that ask for a candidate."""

    def __init__(self, trials: list[FrozenTrial]) -> None:
        super().__init__()
        self._trials = trials

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Those in ``states``; never copied, for samplers only read them."""
        return [trial for trial in self._trials if states is None or trial.state in states]


@contextmanager
def _quiet() -> Iterator[None]:
    """No log lines and no notes on experimental features, of which Optuna tells each time."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)

"""Local search, first improvement (White et al. 2021, "Exploring the loss landscape in neural architecture search").

Neighbours of an incumbent that are not known yet are tried in random order, decisions with few options as often as
those with many; the first better one takes its place. Only where all are known does a climb step to one that an earlier
climb has measured: it would join that climb's way, and end on a top that is known already. Where none is better, the
climb has ended and another begins at random (den Ottelander et al. 2021 do so for several objectives).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

from numpy.random import Generator

from nas.objective import Objectives
from nas.pareto import dominates
from nas.proposal import EXHAUSTED, WAIT, NoProposal, Proposal
from nas.trial import Outcome, Trial
from search_spaces import Candidate, CandidateSpace
from search_spaces.conditions import typed_key
from trainers import Measurement

_DRAWS = 50


class LocalSearch:
    """Climbs, each from a random candidate; the first one from the best of those that were known before.

    A climb is served while its incumbent has a neighbour that was neither told of nor is under way, the oldest first;
    where none has one, for want of results or of neighbours, another begins, so that no worker waits. One trial is
    better than another that breaks more constraints, then than one of a lower rung, then than one that it dominates.

    An incumbent with more than ``neighbours`` neighbours, or with a float among its decisions, cannot have all of them
    tried: that many are then drawn by mutation. A proposal notes the number of its climb.
    """

    def __init__(self, space: CandidateSpace, objectives: Objectives, neighbours: int = 100) -> None:
        if neighbours < 1:
            raise ValueError(f"neighbours = {neighbours}: at least 1 neighbour is tried before a climb ends")
        self._space = space
        self._size = space.size()
        self._floats = self._size == inf
        self._objectives = objectives
        self._most = neighbours
        self._standings: dict[Candidate, _Standing | None] = {}  # None: told of, and no measure of it
        self._tried: set[Candidate] = set()  # by this search
        self._climbs: dict[int, _Climb] = {}
        self._numbers = 0

    # Asking -------------------------------------------------------------------------------------------------------

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """A neighbour of an incumbent, else the beginning of another climb."""
        under_way = {trial.proposal.candidate for trial in pending}
        for number, climb in self._climbs.items():
            neighbour = self._open_neighbour(climb, pending, under_way, rng)
            if neighbour is not None:
                return Proposal(neighbour, parents=(climb.trial,), operator="neighbour", notes=number)
        return self._restart(pending, under_way, rng)

    def _open_neighbour(
        self, climb: "_Climb", pending: Sequence[Trial], under_way: set[Candidate], rng: Generator
    ) -> Candidate | None:
        if climb.untold is not None:
            still = [one for one in climb.untold if one not in under_way]
            return _any_change(climb.incumbent, still, rng) if still else None
        if climb.drawn + sum(climb.trial in trial.proposal.parents for trial in pending) >= self._most:
            return None
        drawn = (self._space.mutate(climb.incumbent, rng) for _ in range(_DRAWS))
        return next((one for one in drawn if one not in self._standings and one not in under_way), None)

    def _restart(self, pending: Sequence[Trial], under_way: set[Candidate], rng: Generator) -> Proposal | NoProposal:
        if len(self._tried) >= self._size:
            return EXHAUSTED
        for _ in range(_DRAWS):
            start = self._space.sample(rng)
            if start not in self._tried and start not in under_way:
                break
        else:
            if pending:
                return WAIT
        return Proposal(start, notes=max([self._numbers, *(_number(trial) + 1 for trial in pending)]))

    # Being told ---------------------------------------------------------------------------------------------------

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Move the trial's climb where the trial is better than its incumbent; a climb ends where its incumbent fails.

        One that has ended so begins again at the next of its trials that is measured, as some may be under way. Trials
        that it has not proposed belong to the first climb.
        """
        candidate, number = trial.proposal.candidate, _number(trial)
        self._numbers = max(self._numbers, number + 1)
        if trial.number >= 0:
            self._tried.add(candidate)
        climb = self._climbs.get(number)
        if climb is not None and candidate not in self._standings and climb.trial in trial.proposal.parents:
            climb.drawn += 1
        self._know(trial, measurement, ended)
        self._strike(candidate)

    def _know(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        candidate = trial.proposal.candidate
        if ended is not None and ended.useless:
            self._standings[candidate] = None
            self._climbs = {at: climb for at, climb in self._climbs.items() if climb.incumbent != candidate}
        elif measurement is None or self._objectives.missing(measurement.metrics):
            self._standings.setdefault(candidate, None)
        else:
            self._measured(candidate, self._standing(trial.number, measurement), _number(trial))

    def _measured(self, candidate: Candidate, standing: "_Standing", number: int) -> None:
        self._standings[candidate] = standing
        climb = self._climbs.get(number)
        incumbent = self._standings[climb.incumbent] if climb is not None else None
        if climb is None or climb.incumbent != candidate and _better(standing, incumbent):
            self._climbs[number] = self._climb(candidate)

    def _strike(self, candidate: Candidate) -> None:
        """Take what was told of off all lists; a climb moves on where its list ends."""
        for number, climb in self._climbs.items():
            if climb.untold and candidate in climb.untold:
                del climb.untold[candidate]
                if not climb.untold:
                    self._climbs[number] = self._climb(climb.incumbent)

    def _climb(self, candidate: Candidate) -> "_Climb":
        """A climb at ``candidate``, or, while nothing is untold there, at the best known of its better neighbours."""
        while True:
            standing = self._standings[candidate]
            assert standing is not None
            listed = list(islice(self._space.neighbours(candidate), self._most + 1))
            if self._floats or len(listed) > self._most:
                return _Climb(candidate, standing.trial, None)
            untold = dict.fromkeys(one for one in listed if one not in self._standings)
            top = candidate
            for one in [] if untold else listed:
                top = one if _better(self._standings[one], self._standings[top]) else top
            if top is candidate:
                return _Climb(candidate, standing.trial, untold)
            candidate = top

    def _standing(self, trial: int, measurement: Measurement) -> "_Standing":
        level = self._objectives.total_violation(measurement.metrics), -measurement.fidelity
        return _Standing(trial, level, self._objectives.costs(measurement.metrics))


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is known of a candidate: ``level`` is compared before ``costs``, all to be minimised."""

    trial: int
    level: tuple[float, float]
    costs: tuple[float, ...]


@dataclass(slots=True)
class _Climb:
    """An incumbent and its trial; its neighbours not told of yet, in order, or, where it has too many (None), how many
    mutants were told of.
    """

    incumbent: Candidate
    trial: int
    untold: dict[Candidate, None] | None
    drawn: int = 0


def _any_change(incumbent: Candidate, neighbours: Sequence[Candidate], rng: Generator) -> Candidate:
    """A random decision among those that change, then a random one of its neighbours."""
    by_decision: dict[str, list[Candidate]] = {}
    for one in neighbours:
        by_decision.setdefault(_changed(incumbent, one), []).append(one)
    alike = [*by_decision.values()][rng.integers(len(by_decision))]
    return alike[rng.integers(len(alike))]


def _changed(incumbent: Candidate, neighbour: Candidate) -> str:
    """The decision that makes them differ, which comes before those that depend on it."""
    for before, after in (
        (incumbent.architecture, neighbour.architecture),
        (incumbent.hyperparameters, neighbour.hyperparameters),
    ):
        if before is not after:
            now = dict(after.items())
            for name, value in before.items():
                if name not in now or typed_key(now[name]) != typed_key(value):
                    return name
    raise AssertionError("a neighbour differs in one decision")


def _better(one: _Standing | None, other: _Standing | None) -> bool:
    if one is None or other is None:
        return one is not None
    return one.level < other.level or (one.level == other.level and dominates(one.costs, other.costs))


def _number(trial: Trial) -> int:
    return trial.proposal.notes if isinstance(trial.proposal.notes, int) else 0

"""NSGA-II (Deb et al. 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II"), asynchronous."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from numpy.random import Generator

from nas.objective import Objectives
from nas.pareto import crowding_distances, non_dominated_ranks
from nas.proposal import EXHAUSTED, WAIT, NoProposal, Proposal
from nas.trial import Outcome, Trial
from search_spaces import Candidate, CandidateSpace
from trainers import Measurement

_DRAWS = 50


class NSGA2:
    """``population`` parents; as many children, once measured, contend with them for the next generation.

    Parents win binary tournaments by the crowded comparison (section III.B); a child is a uniform crossover of two with
    probability ``crossover``, else one of them, and then one decision of it changes. No worker waits for a generation
    to end: children are made of the parents that there are, late ones contend in the generation that they meet, and a
    proposal notes the generation that it was made for. Each candidate is tried once, so that copies of a good one do
    not fill the population; it enters, or enters again, whenever a rung measures it.
    """

    def __init__(
        self, space: CandidateSpace, objectives: Objectives, population: int = 30, crossover: float = 0.9
    ) -> None:
        if population < 2:
            raise ValueError(f"population = {population}: two parents need a population of at least 2")
        if not 0 <= crossover <= 1:
            raise ValueError(f"crossover = {crossover}: a probability, from 0 to 1")
        self._space = space
        self._size = space.size()
        self._objectives = objectives
        self._population = population
        self._crossover = crossover
        self._generation = 0
        self._parents: dict[Candidate, Member] = {}
        self._children: dict[Candidate, Member] = {}
        self._tried: set[Candidate] = set()  # by this search
        self._ranking: Ranking | None = None

    # Asking -------------------------------------------------------------------------------------------------------

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """Sample until the first population is measured or under way, then mate the winners of two tournaments."""
        if len(self._tried) >= self._size:
            return EXHAUSTED
        under_way = {trial.proposal.candidate for trial in pending}
        breeds = self._parents or (self._children and len(self._children) + len(pending) >= self._population)
        for draw in (*[self._mate] * _DRAWS, *[self._sample] * _DRAWS) if breeds else [self._sample] * _DRAWS:
            proposal = draw(rng)
            if proposal.candidate not in self._tried and proposal.candidate not in under_way:
                return proposal
        return WAIT if pending else proposal

    def _sample(self, rng: Generator) -> Proposal:
        return Proposal(self._space.sample(rng), notes={"generation": self._generation})

    def _mate(self, rng: Generator) -> Proposal:
        first, second = self._tournament(rng), self._tournament(rng)
        if first is second or rng.random() >= self._crossover:
            child, parents, operator = first.candidate, [first], "mutate"
        else:
            child = self._space.crossover(first.candidate, second.candidate, rng)
            parents, operator = [first, second], "crossover"
        numbers = tuple(parent.trial for parent in parents)
        notes = {"generation": self._generation}
        return Proposal(self._space.mutate(child, rng), parents=numbers, operator=operator, notes=notes)

    def _tournament(self, rng: Generator) -> "Member":
        ranking = self._ranking = self._ranking or Ranking([*(self._parents or self._children).values()])
        count = len(ranking.members)
        return ranking.members[min(rng.choice(count, min(2, count), replace=False).tolist(), key=ranking.standing)]

    # Being told ---------------------------------------------------------------------------------------------------

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Let a measured trial contend; one that turns out infeasible or failed leaves."""
        candidate = trial.proposal.candidate
        if trial.number >= 0:
            self._tried.add(candidate)
        if ended is not None and (ended.failed or ended.infeasible):
            if self._parents.pop(candidate, None) or self._children.pop(candidate, None):
                self._ranking = None
        elif trial.duplicate_of is None and ended is None and measurement is not None:
            if not self._objectives.missing(measurement.metrics):
                self._contend(member(candidate, trial.number, measurement, self._objectives))

    def _contend(self, one: "Member") -> None:
        self._ranking = None
        if one.candidate in self._parents:
            self._parents[one.candidate] = one
            return
        self._children[one.candidate] = one
        if len(self._children) == self._population:
            ranking = Ranking([*self._parents.values(), *self._children.values()])
            self._parents = {chosen.candidate: chosen for chosen in ranking.best(self._population)}
            self._children = {}
            self._generation += 1


@dataclass(frozen=True, slots=True)
class Member:
    """A measured candidate; ``level`` is compared before ``costs``, all to be minimised."""

    candidate: Candidate
    trial: int
    level: tuple[float, float]
    costs: tuple[float, ...]


def member(candidate: Candidate, trial: int, measurement: Measurement, objectives: Objectives) -> Member:
    """The level is (violation, -fidelity): feasible before infeasible, then the higher rung.

    The violation (`Objectives.violation`) is infinite where an objective is not finite.
    """
    metrics = measurement.metrics
    costs = objectives.costs(metrics)
    violation = inf if inf in costs else objectives.violation(metrics)
    return Member(candidate, trial, (violation, -measurement.fidelity), costs)


class Ranking:
    """Members in the order of the crowded comparison (definition 1 and section III).

    Where the violation and the rung of two differ they decide, else dominance does; within a front the less crowded
    one leads, then the one that came first.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        self._standings = self._all_standings()

    def standing(self, at: int) -> tuple[int, float, int]:
        """(Front, minus the crowding distance, place) of a member; the least is the best."""
        return self._standings[at]

    def best(self, count: int) -> list[Member]:
        """The best members, in their given order."""
        return [self.members[at] for at in sorted(self._order[:count])]

    @cached_property
    def _order(self) -> list[int]:
        return sorted(range(len(self.members)), key=self.standing)

    def _all_standings(self) -> list[tuple[int, float, int]]:
        standings = [(0, 0.0, at) for at in range(len(self.members))]
        for rank, front in enumerate(self._fronts()):
            crowding = crowding_distances([self.members[at].costs for at in front])
            for at, distance in zip(front, crowding, strict=True):
                standings[at] = (rank, -distance, at)
        return standings

    def _fronts(self) -> list[list[int]]:
        keys: list[tuple[tuple[float, float], int]] = [(one.level, 0) for one in self.members]
        for level in {one.level for one in self.members}:
            alike = [at for at, one in enumerate(self.members) if one.level == level]
            ranks = non_dominated_ranks([self.members[at].costs for at in alike])
            for at, rank in zip(alike, ranks, strict=True):
                keys[at] = (level, rank)
        return [[at for at, own in enumerate(keys) if own == key] for key in sorted(set(keys))]

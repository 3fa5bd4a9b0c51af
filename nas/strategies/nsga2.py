"""NSGA-II (Deb et al. 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II"), asynchronous.

In steady state (Durillo et al. 2009, "On the effect of the steady-state selection scheme in multi-objective genetic
algorithms"), and with mates that are alike (Ishibuchi et al. 2008, "An empirical study on similarity-based mating for
evolutionary multiobjective combinatorial optimization").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from nas.objective import Objectives
from nas.pareto import crowding_distances, non_dominated_ranks
from nas.proposal import EXHAUSTED, WAIT, NoProposal, Proposal
from nas.trial import Outcome, Trial
from search_spaces import Candidate, CandidateSpace
from trainers import Measurement

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DRAWS = 50
_TOURNAMENT = 3
_MATES = 10
"""Winners among which the nearest becomes the mate (beta of Ishibuchi et al.)."""


class NSGA2:
    """A population of the ``population`` best; each trial, once measured, contends with it, and the worst leaves.

    No worker waits for a generation to end, and no measurement for its use. Parents win tournaments of three by the
    crowded comparison (section III.B). With probability ``crossover`` a child is the uniform crossover of one with a
    mate, of ten winners the one with the nearest objectives (each as a share of its range in the population): parents
    far apart on the front rarely have children of use. Otherwise, or where a crossover is known already, one decision
    changes. Each candidate is tried once, so that copies of a good one do not fill the population; it enters, or
    enters again, whenever a rung measures it.
    """

    def __init__(
        self, space: CandidateSpace, objectives: Objectives, population: int = 20, crossover: float = 0.5
    ) -> None:
        if population < 2:
            raise ValueError(f"population = {population}: two parents need a population of at least 2")
        if not 0 <= crossover <= 1:
            raise ValueError(f"crossover = {crossover}: a probability, from 0 to 1")
        self._space = space
        self._size = space.size()
        self._objectives = objectives
        self._most = population
        self._crossover = crossover
        self._population: dict[Candidate, Member] = {}
        self._tried: set[Candidate] = set()  # by this search
        self._ranking: Ranking | None = None

    # Asking -------------------------------------------------------------------------------------------------------

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """Sample until as many as a population are tried or under way, then breed."""
        if len(self._tried) >= self._size:
            return EXHAUSTED
        taken = self._tried.union(trial.proposal.candidate for trial in pending)
        known = max(len(self._tried), len(self._population)) + len(pending)
        if self._population and known >= self._most:
            for _ in range(_DRAWS):
                proposal = self._breed(taken, rng)
                if proposal.candidate not in taken:
                    return proposal
        for _ in range(_DRAWS):
            proposal = Proposal(self._space.sample(rng))
            if proposal.candidate not in taken:
                return proposal
        return WAIT if pending else proposal

    def _breed(self, taken: set[Candidate], rng: Generator) -> Proposal:
        ranking = self._ranking = self._ranking or Ranking([*self._population.values()])
        first, *others = rng.integers(len(ranking.members), size=(1 + _MATES, _TOURNAMENT)).min(axis=1).tolist()
        parents, operator = [ranking.ordered[first]], "mutate"
        child = parents[0].candidate
        mates = [at for at in others if at != first]
        if mates and rng.random() < self._crossover:
            distances = ranking.distances_from(first)
            parents.append(ranking.ordered[min(mates, key=lambda at: (distances[at], at))])
            child, operator = self._space.crossover(child, parents[1].candidate, rng), "crossover"
        if child in taken or operator == "mutate":
            child = self._space.mutate(child, rng)
        return Proposal(child, parents=tuple(parent.trial for parent in parents), operator=operator)

    # Being told ---------------------------------------------------------------------------------------------------

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Let a measured trial contend; one that turns out infeasible or failed leaves."""
        candidate = trial.proposal.candidate
        if trial.number >= 0:
            self._tried.add(candidate)
        if ended is not None and ended.useless:
            if self._population.pop(candidate, None):
                self._ranking = None
        elif trial.duplicate_of is None and ended is None and measurement is not None:
            if not self._objectives.missing(measurement.metrics):
                self._contend(member(candidate, trial.number, measurement, self._objectives))

    def _contend(self, one: "Member") -> None:
        self._population[one.candidate] = one
        self._ranking = None
        if len(self._population) > self._most:
            best = Ranking([*self._population.values()]).best(self._most)
            self._population = {chosen.candidate: chosen for chosen in best}


@dataclass(frozen=True, slots=True)
class Member:
    """A measured candidate; ``level`` is compared before ``costs``, all to be minimised."""

    candidate: Candidate
    trial: int
    level: tuple[float, float]
    costs: tuple[float, ...]


def member(candidate: Candidate, trial: int, measurement: Measurement, objectives: Objectives) -> Member:
    """The level is (`Objectives.total_violation`, -fidelity): feasible before infeasible, then the higher rung."""
    metrics = measurement.metrics
    level = objectives.total_violation(metrics), -measurement.fidelity
    return Member(candidate, trial, level, objectives.costs(metrics))


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
    def ordered(self) -> list[Member]:
        """All, the best first."""
        return [self.members[at] for at in self._order]

    def distances_from(self, place: int) -> list[float]:
        """Squared Euclidean distances from the costs at ``place`` of ``ordered`` to all, each cost as a share of its
        range.

        A cost whose range is zero or infinite does not count.
        """
        shares = self._shares
        distances: list[float] = ((shares - shares[place]) ** 2).sum(axis=1).tolist()
        return distances

    @cached_property
    def _shares(self) -> "NDArray[np.float64]":
        """Costs of ``ordered`` as shares of their ranges, [members, costs that count]."""
        costs = np.array([one.costs for one in self.ordered])
        low, high = costs.min(axis=0), costs.max(axis=0)
        counts = np.isfinite(low) & np.isfinite(high) & (high > low)
        shares: NDArray[np.float64] = (costs[:, counts] - low[counts]) / (high - low)[counts]
        return shares

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

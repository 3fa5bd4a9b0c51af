"""Regularised evolution (Real et al. 2019, algorithm 1), asynchronous, for one or several objectives."""

from collections import deque
from collections.abc import Sequence

from numpy.random import Generator

from nas.objective import Objectives
from nas.pareto import non_dominated_ranks
from nas.proposal import Proposal
from nas.trial import Outcome, Trial
from search_spaces import CandidateSpace
from trainers import Measurement


class RegularizedEvolution:
    """The ``population`` youngest measured trials; a child is a mutation of the best of ``sample`` of them.

    The oldest dies, not the worst. A trial enters when it is first measured and keeps its age when a higher rung
    measures it again; candidates that are infeasible or fail do not enter. With several objectives the parent is any
    of the sample's Pareto front: the least crowded of so few is always an end, and those between had no children.
    """

    def __init__(self, space: CandidateSpace, objectives: Objectives, population: int = 30, sample: int = 10) -> None:
        if not 1 <= sample <= population:
            raise ValueError(
                f"strategy.sample = {sample}: a sample is drawn from the population, 1 to {population} (population)"
            )
        self._space = space
        self._objectives = objectives
        self._population_size = population
        self._sample_size = sample
        self._population: deque[int] = deque()
        self._trials: dict[int, tuple[Trial, Measurement]] = {}
        self._entered: set[int] = set()

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal:
        """Sample until the first population is measured or under way, then mutate a tournament's winner."""
        if not self._population or len(self._entered) + len(pending) < self._population_size:
            return Proposal(self._space.sample(rng))
        size = min(self._sample_size, len(self._population))
        drawn = rng.choice(len(self._population), size, replace=False)
        best = self._best([self._trials[self._population[at]] for at in sorted(drawn.tolist())])
        parent = best[0] if len(best) == 1 else best[rng.integers(len(best))]
        child = self._space.mutate(parent.proposal.candidate, rng)
        return Proposal(child, parents=(parent.number,), operator="mutate")

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Enter or update the trial; one that turns out infeasible or failed leaves."""
        if ended is not None and ended.useless:
            if self._trials.pop(trial.number, None) is not None:
                self._population.remove(trial.number)
            return
        if measurement is None or self._objectives.missing(measurement.metrics):
            return
        if trial.number in self._trials:
            self._trials[trial.number] = (trial, measurement)
        elif trial.number not in self._entered and (ended is None or trial.duplicate_of is not None):
            self._enter(trial, measurement)  # one that died of age does not come back at a higher rung

    def _enter(self, trial: Trial, measurement: Measurement) -> None:
        self._entered.add(trial.number)
        self._population.append(trial.number)
        self._trials[trial.number] = (trial, measurement)
        if len(self._population) > self._population_size:
            del self._trials[self._population.popleft()]

    def _best(self, sample: list[tuple[Trial, Measurement]]) -> list[Trial]:
        """By violation, then the rung, then the objectives: the front of several, the oldest of equals."""

        def standing(member: tuple[Trial, Measurement]) -> tuple[float, float]:
            _, measurement = member
            return self._objectives.total_violation(measurement.metrics), -measurement.fidelity

        best = min(map(standing, sample))
        leading = [member for member in sample if standing(member) == best]
        costs = [self._objectives.costs(measurement.metrics) for _, measurement in leading]
        if len(self._objectives.objectives) == 1:
            return [leading[costs.index(min(costs))][0]]
        ranks = non_dominated_ranks(costs)
        return [trial for (trial, _), rank in zip(leading, ranks, strict=True) if rank == 0]

"""The default strategy: mixes two others by how many results there are, and needs no tuning.

The Gaussian process of `predictor` proposes while it can know most results; past 1,000 results, when it must leave most
of them out, every other proposal comes from regularised evolution, which forgets nothing that still matters and costs
nothing.
"""

from collections.abc import Sequence

from numpy.random import Generator

from nas.objective import Objectives
from nas.proposal import NoProposal, Proposal
from nas.strategies.evolution import RegularizedEvolution
from nas.strategies.predictor import Predictor
from nas.strategies.strategy import Strategy
from nas.trial import Outcome, Trial
from search_spaces import CandidateSpace
from trainers import Measurement

_MANY = 1_000


class Auto:
    """Takes no arguments."""

    def __init__(self, space: CandidateSpace, objectives: Objectives) -> None:
        self._measured: set[int] = set()
        self._members: list[Strategy] = [Predictor(space, objectives), RegularizedEvolution(space, objectives)]

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """Ask the member whose turn it is."""
        turn = len(self._measured) + len(pending)
        return self._members[turn % 2 if turn > _MANY else 0].ask(pending, rng)

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Tell every member."""
        if measurement is not None and trial.duplicate_of is None:
            self._measured.add(trial.number)
        for member in self._members:
            member.tell(trial, measurement, ended)

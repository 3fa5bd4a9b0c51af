"""The default strategy: mixes two others by the space and the number of results, and needs no tuning.

The Gaussian process of `predictor` proposes while it can know a good part of the results: it learns how noisy they are
and how much each decision matters, joins several objectives, takes trials under way for what it predicts of them, and
weighs the time that a candidate takes where the budget limits time. Past 1,000 results, when it leaves out more than
half, every other proposal comes from regularised evolution, which forgets nothing that still matters and costs nothing.
Where a decision is a float, every fourth one does from the 30th trial on: a process may refine numbers beside the
wrong option without end, since something is always left to gain there.
"""

from collections.abc import Sequence
from math import inf

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
_BEGUN = 30


class Auto:
    """Takes no arguments."""

    def __init__(self, space: CandidateSpace, objectives: Objectives) -> None:
        self._floats = space.size() == inf
        self._tried: set[int] = set()
        self._measured: set[int] = set()
        self._predictor = Predictor(space, objectives)
        self._members: list[Strategy] = [self._predictor, RegularizedEvolution(space, objectives)]

    def heed_time(self) -> None:
        """The predictor seeks improvement per second."""
        self._predictor.heed_time()

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """Ask the member whose turn it is."""
        turn = len(self._tried) + len(pending)
        share = 2 if len(self._measured) > _MANY else 4 if self._floats and turn >= _BEGUN else 0
        return self._members[1 if share and turn % share == 0 else 0].ask(pending, rng)

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Tell every member."""
        if trial.number >= 0:
            self._tried.add(trial.number)
        if measurement is not None and trial.duplicate_of is None:
            self._measured.add(trial.number)
        for member in self._members:
            member.tell(trial, measurement, ended)

"""Random search (Bergstra and Bengio 2012): every proposal is drawn anew from the space."""

from collections.abc import Sequence

from numpy.random import Generator

from nas.objective import Objectives
from nas.proposal import Proposal
from nas.trial import Outcome, Trial
from search_spaces import CandidateSpace
from trainers import Measurement


class RandomSearch:
    """Samples the space; learns nothing."""

    def __init__(self, space: CandidateSpace, objectives: Objectives) -> None:
        self._space = space

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal:
        """Draw a candidate."""
        return Proposal(self._space.sample(rng))

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Nothing to learn."""

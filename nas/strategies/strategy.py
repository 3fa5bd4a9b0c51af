"""The contract of a strategy."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from numpy.random import Generator

from nas.proposal import NoProposal, Proposal
from nas.trial import Outcome, Trial
from trainers import Measurement


class Strategy(Protocol):
    """Made of ``(space: CandidateSpace, objectives: Objectives, **arguments)``.

    Its state is a fold over what it was told, in log order, so that a resumed search rebuilds it by telling again;
    nothing is pickled. Whatever an ask must remember travels in ``Proposal.notes``.

    It is also told of trials that it has not proposed, which have no notes: known candidates (operator ``start``), and
    before its first ask those of an older study, which have numbers below 0 (operator ``inherited``). They may be
    parents.
    """

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """Propose a candidate, drawing from ``rng`` alone. ``pending`` are trials not told of yet."""
        ...

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Learn the measurement of a rung (``ended`` is None), or that a trial ended.

        Duplicates are told with the measurement of the trial that answers for them. ``measurement`` is None where the
        trial ended without any. What a rung says beside another is the strategy's to judge.
        """
        ...


@runtime_checkable
class HeedsTime(Protocol):
    """What a strategy has beside its contract that weighs what its candidates take where time is limited."""

    def heed_time(self) -> None:
        """Told once, before all else, where the budget is hours or device-hours and not a number of trials.

        A resumed search may have another budget: what is told before then is the same with and without.
        """
        ...

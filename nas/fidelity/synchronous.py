"""What the synchronous rules share: brackets that fill one after another, each deciding for itself."""

from math import ceil, log

from nas.fidelity.bracket import Bracket
from nas.fidelity.contract import Decision, Verdict
from nas.fidelity.levels import rungs
from nas.objective import Objectives
from nas.proposal import Proposal
from nas.trial import Trial
from trainers import Fidelity, Measurement

MOST_PLACES = 10**9
"""More than any study has trials."""


class SynchronousHalving:
    """New trials enter the newest bracket, while there is room; then another bracket begins, so that no device waits.

    A trial pauses at each rung. Older brackets go on first. A rule says by `shape` what its brackets are.
    """

    def __init__(self, objectives: Objectives, minimum: Fidelity, maximum: Fidelity, eta: float) -> None:
        self.rungs = rungs(minimum, maximum, eta)
        self.eta = eta
        self._objectives = objectives
        self._brackets: dict[int, Bracket] = {}
        self._newest = -1

    def shape(self, bracket: int) -> tuple[int, int]:
        """Of the bracket of this number, from 0: places, and the index of its first rung."""
        raise NotImplementedError

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """The newest bracket, or the next one where that has no room, and its first rung."""
        newest = self._brackets.get(self._newest)
        if newest is not None and newest.has_room:
            return self._newest, newest.levels[0]
        _, first = self.shape(self._newest + 1)
        return self._newest + 1, self.rungs[first]

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Hold the trial until its rung is full."""
        return Verdict.PAUSE

    def promote(self, final: bool = False) -> tuple[int, Fidelity] | None:
        """The next trial to go on in the oldest bracket that has one."""
        return next(filter(None, (bracket.promotion(final) for bracket in self._brackets.values())), None)

    def proposed(self, trial: Trial) -> None:
        """Enter the trial into its bracket."""
        if trial.bracket not in self._brackets:
            places, first = self.shape(trial.bracket)
            self._brackets[trial.bracket] = Bracket(self._objectives, self.rungs[first:], places, self.eta)
            self._newest = trial.bracket
        self._brackets[trial.bracket].enter(trial)

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """Enter the trial on its rung."""
        self._brackets[trial.bracket].observe(trial, measurement)

    def promoted(self, trial: Trial) -> None:
        """Take the trial from one rung to the next."""
        self._brackets[trial.bracket].promoted(trial)

    def ended(self, trial: Trial) -> None:
        """Take the trial off its rung, and a bracket that is over out of mind."""
        bracket = self._brackets[trial.bracket]
        bracket.ended(trial)
        if bracket.over:
            del self._brackets[trial.bracket]


def places_for(rung: int, eta: float) -> int:
    """Trials at the first of ``rung + 1`` rungs so that, 1/eta going on from each, one reaches the last."""
    places = 1
    for _ in range(rung):
        places = ceil(min(places * eta, MOST_PLACES))
    return places


def power(eta: float, exponent: int) -> float:
    """``eta ** exponent``, `MOST_PLACES` at most."""
    return eta**exponent if exponent * log(eta) < log(MOST_PLACES) else MOST_PLACES

"""What both forms of asynchronous successive halving share: the rungs and who stands on them."""

from collections.abc import Callable

from nas.fidelity.levels import rungs
from nas.objective import Objectives
from nas.proposal import Proposal
from nas.rung import Rung
from nas.trial import Trial
from trainers import Fidelity, Measurement


class AsynchronousRungs:
    """A ranking per rung, in one bracket; a rule adds when a trial goes on."""

    def __init__(self, objectives: Objectives, minimum: Fidelity, maximum: Fidelity, eta: float) -> None:
        self.rungs = rungs(minimum, maximum, eta)
        self.eta = eta
        self._rungs = {fidelity: Rung(objectives) for fidelity in self.rungs}

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """The lowest rung, in the only bracket."""
        return 0, self.rungs[0]

    def proposed(self, trial: Trial) -> None:
        """Nothing to learn before it is measured."""

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """Enter the trial on its rung."""
        if measurement.fidelity in self._rungs:
            self._rungs[measurement.fidelity].add(trial, measurement)

    def promoted(self, trial: Trial) -> None:
        """Take the trial off the rung below ``trial.until``."""
        self._rungs[self._below(trial.until)].let_go(trial.number)

    def ended(self, trial: Trial) -> None:
        """Take the trial off its rung; its measurement still counts."""
        if trial.fidelity in self._rungs:
            self._rungs[trial.fidelity].let_go(trial.number)

    def _best_held(self, top: Callable[[int], int]) -> tuple[int, Fidelity] | None:
        """The best trial held among the ``top(size)`` best of a rung, from the highest rung down."""
        for fidelity, above in zip(self.rungs[-2::-1], self.rungs[:0:-1], strict=True):
            rung = self._rungs[fidelity]
            number = rung.best_held(top(len(rung)))
            if number is not None:
                return number, above
        return None

    def _below(self, fidelity: Fidelity) -> Fidelity:
        return self.rungs[self.rungs.index(fidelity) - 1]

    def _above(self, fidelity: Fidelity) -> Fidelity:
        return next(rung for rung in self.rungs if rung > fidelity)

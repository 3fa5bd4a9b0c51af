"""ASHA, the stopping form: a trial goes on at once while it is in the top 1/eta of those that reached its rung."""

from math import ceil

from nas.fidelity.asynchronous import AsynchronousRungs
from nas.fidelity.contract import Continue, Decision, Verdict
from nas.trial import Trial
from trainers import Fidelity, Measurement


class StoppingHalving(AsynchronousRungs):
    """Decides at each report, so that no trial waits for others."""

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Go on when in the top 1/eta so far (the first to come always is), else stop."""
        rung = self._rungs.get(measurement.fidelity)
        if rung is None or rung.rank(trial.number) * self.eta < len(rung):
            return Continue(self._above(measurement.fidelity))
        return Verdict.STOP

    def promote(self, final: bool = False) -> tuple[int, Fidelity] | None:
        """A trial that would have gone on, had not a budget ended; there is none before a resume with a larger one."""
        return self._best_held(lambda size: ceil(size / self.eta))

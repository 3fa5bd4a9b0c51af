"""ASHA, the promotion form (Li et al. 2020, algorithm 2): the top 1/eta of a rung go on, highest rung first."""

from nas.fidelity.asynchronous import AsynchronousRungs
from nas.fidelity.contract import Decision, Verdict
from nas.trial import Trial
from trainers import Fidelity, Measurement


class AsynchronousHalving(AsynchronousRungs):
    """A trial pauses at each rung. Several objectives are ranked by dominance (MO-ASHA, Schmucker et al. 2021)."""

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Hold the trial."""
        return Verdict.PAUSE

    def promote(self, final: bool = False) -> tuple[int, Fidelity] | None:
        """The best held trial of the highest rung whose top 1/eta holds one."""
        return self._best_held(lambda size: int(size / self.eta))

"""No early stopping: every trial is trained to the maximum (rule ``none``)."""

from nas.fidelity.contract import Continue, Decision
from nas.objective import Objectives
from nas.proposal import Proposal
from nas.trial import Trial
from trainers import Fidelity, Measurement


class FullFidelity:
    """One rung, the maximum."""

    def __init__(self, objectives: Objectives, minimum: Fidelity, maximum: Fidelity, eta: float) -> None:
        self.rungs = (maximum,)

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """The maximum."""
        return 0, self.rungs[-1]

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Go on to the maximum (a study resumed under this rule may hold trials below it)."""
        return Continue(self.rungs[-1])

    def promote(self, final: bool = False) -> tuple[int, Fidelity] | None:
        """No trial is ever held."""
        return None

    def proposed(self, trial: Trial) -> None:
        """Nothing to learn."""

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """Nothing to learn."""

    def promoted(self, trial: Trial) -> None:
        """Nothing to learn."""

    def ended(self, trial: Trial) -> None:
        """Nothing to learn."""

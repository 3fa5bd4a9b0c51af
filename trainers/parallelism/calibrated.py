"""The cost model as it is used: a machine's rates, and what measured steps taught beyond them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainers.parallelism.correction import Correction, correct, features
from trainers.parallelism.cost import OPTIMIZER_BYTES, StepCost, price
from trainers.parallelism.fitting import Measured, fit
from trainers.parallelism.memory import ADAM_BYTES
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.workload import Workload


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Prices of steps on a ``machine``, corrected by steps that were measured there."""

    machine: Machine
    correction: Correction | None = None
    optimizer_bytes: float = OPTIMIZER_BYTES
    state_bytes: float = ADAM_BYTES

    def price(self, work: Workload, plan: Plan, starts: tuple[int, ...] | None = None) -> StepCost:
        """Cost of a step, see ``cost.price``."""
        cost = price(work, plan, self.machine, starts, self.optimizer_bytes, self.state_bytes)
        if self.correction is None:
            return cost
        return cost.corrected(*self.correction.at(features(work, plan)))

    def learn(self, measured: Sequence[Measured], online: bool = False) -> "Calibrated":
        """Correct by steps that were ``measured``, and by no others; ``online`` ones are in the order of time."""
        bare = replace(self, correction=None)
        predicted = [bare.price(step.work, step.plan, step.starts).seconds for step in measured]
        ratios = np.log(np.array([step.seconds for step in measured]) / np.array(predicted))
        points = np.array([features(step.work, step.plan) for step in measured])
        return replace(self, correction=correct(points, ratios, online=online))


def calibrate(prior: Machine, measured: Sequence[Measured]) -> Calibrated:
    """Fit a machine's rates to steps that were measured, then learn what the fit leaves unexplained."""
    return Calibrated(fit(prior, measured)).learn(measured)

"""The cost model as it is used: a machine's rates, and what measured steps taught beyond them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from trainers.optimizer_states import OptimizerBytes
from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.correction import SURPRISE, Correction, correct, drift, features
from trainers.parallelism.cost import StepCost, price
from trainers.parallelism.fitting import Measured, fit
from trainers.parallelism.plan import AXES, Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.workload import Workload

REMEMBERED = 32
"""Observations of a family that are kept, the latest: what came before has lost its weight."""


class Family(NamedTuple):
    """Steps that share their error on a device: candidates of one space, under plans of the same axes."""

    space: str
    axes: tuple[str, ...]

    @classmethod
    def of(cls, space: str, plan: Plan) -> "Family":
        """The family of a space's candidates under a plan."""
        return cls(space, tuple(axis for axis in AXES if getattr(plan, axis) > 1))


class Observed(NamedTuple):
    """Where a step of a trial lies among others (``correction.features``), and log(measured / the physics).

    ``number`` counts the observations of all families.
    """

    point: FloatArray
    log_ratio: float
    number: int


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Prices of steps on a ``machine``, corrected by steps that were measured there.

    ``space`` names that of the candidates which are priced. ``correction`` is what a calibration left unexplained,
    ``observed`` the steps of trials by their family, in the order of time.
    """

    machine: Machine
    optimizer: OptimizerBytes
    correction: Correction | None = None
    space: str = ""
    observed: Mapping[Family, tuple[Observed, ...]] = field(default_factory=dict)

    def price(self, work: Workload, plan: Plan, starts: tuple[int, ...] | None = None) -> StepCost:
        """Cost of a step, see ``cost.price``."""
        cost = price(work, plan, self.machine, self.optimizer, starts)
        if self.correction is None and not self.observed:
            return cost
        return cost.corrected(*self._expected(features(work, plan), Family.of(self.space, plan)))

    def learn(self, measured: Sequence[Measured]) -> "Calibrated":
        """Correct by steps that were ``measured``, beside all that were before."""
        points = np.array([features(step.work, step.plan) for step in measured])
        ratios = np.array([self._log_ratio(step) for step in measured])
        known = self.correction
        return replace(self, correction=known.and_also(points, ratios) if known else correct(points, ratios))

    def observe(self, step: Measured) -> "Calibrated":
        """Correct the family of a trial's step that was measured just now.

        Families of its space that have not been measured stray half as far: what they have in common with the measured
        ones is taken to vary as much as what they do not.
        Where it is beyond three standard deviations of what was expected, the family's earlier steps are forgotten:
        it is calibrated anew, from this step.
        """
        family = Family.of(self.space, step.plan)
        seen = Observed(features(step.work, step.plan), self._log_ratio(step), self._seen)
        mean, deviation = self._expected(seen.point, family)
        before = self.observed.get(family, ()) if abs(seen.log_ratio - mean) <= SURPRISE * deviation else ()
        return replace(self, observed={**self.observed, family: (*before, seen)[-REMEMBERED:]})

    def _log_ratio(self, step: Measured) -> float:
        cost = price(step.work, step.plan, self.machine, self.optimizer, step.starts)
        return float(np.log(step.seconds / cost.seconds))

    def _expected(self, point: FloatArray, family: Family) -> tuple[float, float]:
        """Mean and standard deviation of log(measured / the physics)."""
        mean, deviation = self._learnt(point)
        if family in self.observed:
            further, deviation = self._drift(family, deviation)
            return mean + further, deviation
        others = [self._drift(other, deviation)[0] for other in self.observed if other.space == family.space]
        return mean + sum(others) / (len(others) + 1), deviation

    def _drift(self, family: Family, deviation: float) -> tuple[float, float]:
        """Mean and standard deviation of what the family's steps strayed beyond what a calibration learnt."""
        observed = self.observed[family]
        left = [one.log_ratio - self._learnt(one.point)[0] for one in observed]
        return drift(np.array(left), np.array([self._seen - 1.0 - one.number for one in observed]), deviation)

    @property
    def _seen(self) -> int:
        """Observations so far, of all families."""
        return 1 + max((observed[-1].number for observed in self.observed.values()), default=-1)

    def _learnt(self, point: FloatArray) -> tuple[float, float]:
        return (0.0, self.machine.log_error) if self.correction is None else self.correction.at(point)


def calibrate(prior: Machine, measured: Sequence[Measured], optimizer: OptimizerBytes) -> Calibrated:
    """Fit a machine's rates to steps that were measured, then learn what the fit leaves unexplained."""
    return Calibrated(fit(prior, measured, optimizer), optimizer).learn(measured)

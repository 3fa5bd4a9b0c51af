"""What measured steps say about the predictions of steps like them (MODELS.md 4.7).

A Gaussian process on log(measured / predicted), with the exponential kernel (Rasmussen and Williams 2006, 4.2.1): steps
of the same features share their error, and each ``LENGTH`` of distance takes a factor e of what they have in common.
"""

from dataclasses import dataclass

import numpy as np

from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.plan import Plan
from trainers.parallelism.workload import Workload

SPREAD = 0.15
"""Standard deviation of log(measured / predicted) of the physics alone."""
LENGTH = 4.0
"""In doublings of a feature."""
NOISE = 0.02
"""Standard deviation of log(measured / predicted) between repeats of one step."""
FORGETTING = 0.9
"""What an observation's weight is multiplied with for every later one: so a family that is not measured any more, say
since its plans seem slow, comes back to what is thought of it beforehand."""
DOUBT = 2.0
"""Observations that what is thought beforehand of a family's spread counts as."""
MOST = 256
"""Observations that a correction keeps, the latest: conditioning on n of them takes n ** 3."""
SURPRISE = 3.0
"""Standard deviations beyond which an observation says that its family is not as it was."""


def features(work: Workload, plan: Plan) -> FloatArray:
    """What a step's error depends on [3]: log2 of the micro-batch, of the width of its products, and of their division.

    The width is the root of a median product's FLOPs for one sample. How many layers, micro-batches, replicas and
    stages there are is left to the physics.
    """
    products = work.flops[work.flops > 0]
    size = float(np.median(products)) / work.samples if len(products) else 1.0
    return np.log2([work.samples, size**0.5, plan.tensor])


@dataclass(frozen=True, eq=False)
class Correction:
    """Posterior of log(measured / predicted) given observations at ``points`` [observations, features]."""

    points: FloatArray
    log_ratios: FloatArray
    precision: FloatArray
    spread: float

    def at(self, point: FloatArray) -> tuple[float, float]:
        """Mean and standard deviation at a ``point`` [features]; 0 and the spread far from all observations."""
        common = _kernel(self.points, point[None], self.spread)[:, 0]
        known = common @ self.precision
        deviation = np.sqrt(max(self.spread**2 - float(known @ common), 0.0) + NOISE**2)
        return float(known @ self.log_ratios), float(deviation)

    def and_also(self, points: FloatArray, log_ratios: FloatArray) -> "Correction":
        """Given further observations too: the latest ``MOST``."""
        every = np.concatenate([self.points, points]), np.concatenate([self.log_ratios, log_ratios])
        return correct(*every, self.spread)


def correct(points: FloatArray, log_ratios: FloatArray, spread: float = SPREAD) -> Correction:
    """Condition on the latest ``MOST`` of ``log_ratios`` [observations] at ``points`` [observations, features]."""
    points, log_ratios = points[-MOST:], log_ratios[-MOST:]
    precision = np.linalg.inv(covariance(points, spread)).astype(np.float64)
    return Correction(points, log_ratios, precision, spread)


def covariance(points: FloatArray, spread: float) -> FloatArray:
    """[observations, observations] of log(measured / predicted), noise included."""
    return _kernel(points, points, spread) + NOISE**2 * np.eye(len(points))


def drift(log_ratios: FloatArray, ages: FloatArray, deviation: float) -> tuple[float, float]:
    """Mean and standard deviation of the next log(measured / predicted) of a family.

    ``ages`` [observations] count those that came after each of its ``log_ratios`` [observations], of others too:
    the older the less they are trusted. Beforehand both the family and each candidate of it stray by ``deviation``; how
    much the candidates do is learnt with their mean. Of a family that surprises nothing was known.
    """
    if not len(log_ratios):
        return 0.0, deviation
    trust = FORGETTING**ages
    seen, before = float(trust.sum()), max(deviation, NOISE) ** 2
    mean = float(trust @ log_ratios) / seen
    within = (DOUBT * before + float(trust @ (log_ratios - mean) ** 2)) / (DOUBT + seen)
    known = before if abs(mean) <= SURPRISE * np.sqrt(before) else mean**2
    unknown = 1 / (1 / known + seen / within)
    return mean * unknown * seen / within, float(np.sqrt(unknown + within))


def _kernel(first: FloatArray, second: FloatArray, spread: float) -> FloatArray:
    distance = np.sqrt(((first[:, None] - second[None]) ** 2).sum(-1))
    return np.asarray(spread**2 * np.exp(-distance / LENGTH), np.float64)

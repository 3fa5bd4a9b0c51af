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
"""What an observation's weight is multiplied with for every later one."""


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
    weights: FloatArray
    precision: FloatArray
    spread: float

    def at(self, point: FloatArray) -> tuple[float, float]:
        """Mean and standard deviation at a ``point`` [features]; 0 and the spread far from all observations."""
        common = _kernel(self.points, point[None], self.spread)[:, 0]
        explained = float(common @ self.precision @ common)
        return float(common @ self.weights), float(np.sqrt(max(self.spread**2 - explained, 0.0) + NOISE**2))


def correct(points: FloatArray, log_ratios: FloatArray, spread: float = SPREAD, online: bool = False) -> Correction:
    """Condition on ``log_ratios`` [observations] at ``points`` [observations, features].

    ``online`` observations are in the order of time, and older ones are trusted less.
    """
    ages = np.arange(len(log_ratios), dtype=np.float64)[::-1] * online
    precision = np.linalg.inv(covariance(points, spread, ages)).astype(np.float64)
    return Correction(points, precision @ log_ratios, precision, spread)


def covariance(points: FloatArray, spread: float, ages: FloatArray) -> FloatArray:
    """[observations, observations] of log(measured / predicted), noise included; it grows with ``ages``."""
    noise: FloatArray = np.diag(NOISE**2 / FORGETTING**ages)
    return _kernel(points, points, spread) + noise


def _kernel(first: FloatArray, second: FloatArray, spread: float) -> FloatArray:
    distance = np.sqrt(((first[:, None] - second[None]) ** 2).sum(-1))
    return np.asarray(spread**2 * np.exp(-distance / LENGTH), np.float64)

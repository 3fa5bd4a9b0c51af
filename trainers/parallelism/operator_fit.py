"""The rate of one kind of operator from measured kernels, by least squares on the logarithms of their seconds."""

import numpy as np

from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.operator_costs import saturating_seconds
from trainers.parallelism.rates import OperatorRate

SPREAD = 2.0
"""Of the logarithms of rates around what the extremes of the measurements say: weak, for what no kernel tells."""
KERNEL_ERROR = 0.1
"""Standard deviation of log(measured / predicted) of a kernel."""


def fit_rate(flops: FloatArray, size: FloatArray, seconds: FloatArray) -> OperatorRate:
    """Rate of kernels of ``flops``, ``size`` bytes and measured ``seconds`` [kernels] each.

    The search starts from the highest rates seen, and the shortest time as launch. Raises ValueError where nothing
    was measured or a time is not above 0.
    """
    from scipy.optimize import least_squares

    if not len(seconds) or seconds.min() <= 0:
        raise ValueError(f"fit of a rate: {len(seconds)} kernels; at least one is needed, each of more than 0 seconds")
    peak = max(float((flops / seconds).max()), 1.0)
    first = np.log([peak, peak * seconds.min(), max(float((size / seconds).max()), 1.0), seconds.min()])
    truth = np.log(seconds)

    def residuals(logs: FloatArray) -> FloatArray:
        errors = np.log(saturating_seconds(np.exp(logs)[:, None], flops, size)) - truth
        return np.concatenate([errors / KERNEL_ERROR, (logs - first) / SPREAD])

    found = least_squares(residuals, first, loss="soft_l1", max_nfev=200)
    rate, half_flops, bandwidth, launch = (float(value) for value in np.exp(found.x))
    return OperatorRate(rate, half_flops, bandwidth, launch)

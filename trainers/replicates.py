"""Replicates: one candidate trained several times under different seeds, and measured as one.

The metrics of a leg are means over its replicates; the standard error of metric ``NAME`` is another metric,
``NAME_standard_error``.
"""

from collections.abc import Sequence
from math import sqrt

from trainers.measurement import Measurement
from trainers.seeds import derived


def replicate_seed(seed: int, replicate: int) -> int:
    """Seed of a replicate (31 bits); that of the first is the trial's own."""
    return derived(seed, "replicate", replicate) >> 32 if replicate else seed


def standard_error_name(metric: str) -> str:
    """The metric that holds the standard error of ``metric``."""
    return f"{metric}_standard_error"


def mean_of(measurements: Sequence[Measurement]) -> Measurement:
    """Mean and standard error of each metric that all replicates have, and the seconds of all of them.

    The standard error is s / sqrt(n), with s^2 = sum (x - mean)^2 / (n - 1); not finite where a value is not. A whole
    number that is equal in all is a count, such as ``parameters``, and has none. What a step took is the first's.
    """
    first, *others = measurements
    metrics: dict[str, float] = {}
    for name in first.metrics:
        if all(name in other.metrics for other in others):
            metrics |= _mean_and_error(name, [measurement.metrics[name] for measurement in measurements])
    seconds = sum(measurement.seconds for measurement in measurements)
    return Measurement(first.fidelity, metrics, seconds, first.step)


def _mean_and_error(name: str, values: Sequence[float]) -> dict[str, float]:
    count = len(values)
    if isinstance(values[0], int) and all(value == values[0] for value in values):
        return {name: values[0]}
    mean = values[0] + sum(value - values[0] for value in values) / count
    squares = sum((value - mean) * (value - mean) for value in values)
    return {name: mean, standard_error_name(name): sqrt(squares / (count - 1) / count)}

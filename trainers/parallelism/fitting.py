"""Rates of a machine from measured steps: few factors on what is known of it, by least squares on logs.

And the rate of one kind of operator from measured kernels, in the same way.

Each factor multiplies some rates of a prior machine, whose data sheet may say little more than its peak rates. Its
logarithm has a normal prior around 0, so what the steps do not tell stays as it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from trainers.optimizer_states import OptimizerBytes
from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.correction import SPREAD, covariance, features
from trainers.parallelism.cost import divide, step_seconds
from trainers.parallelism.operator_costs import saturating_seconds
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import DeviceRates, Machine, OperatorRate
from trainers.parallelism.share import Share
from trainers.parallelism.workload import Workload

Change: TypeAlias = Callable[[Machine, float], Machine]
RATE_SPREAD = 2.0
"""Of the logarithms of rates around what the extremes of the measurements say: weak, for what no kernel tells."""
KERNEL_ERROR = 0.1
"""Standard deviation of log(measured / predicted) of a kernel."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A step that was measured: its micro-batch, its plan, where its stages start if that was not free."""

    work: Workload
    plan: Plan
    seconds: float
    starts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Factor:
    """A positive number that multiplies rates; ``spread`` is its logarithm's standard deviation before the fit."""

    name: str
    spread: float
    change: Change


def factors(machine: Machine) -> tuple[Factor, ...]:
    """What is fitted: rates of all kinds together, each kind's own speed, what the host needs, the optimiser."""
    shared = [
        Factor(name, spread, partial(_scale_operators, (), (name,)))
        for name, spread in (
            ("flops_per_second", 1.0),
            ("half_flops", 1.0),
            ("bytes_per_second", 0.7),
            ("launch_seconds", 1.0),
        )
    ]
    device = [
        Factor(name, spread, partial(_scale_device, name))
        for name, spread in (
            ("host_seconds", 1.0),
            ("exchange_host_seconds", 1.0),
            ("optimizer_bytes_per_second", 0.7),
        )
    ]
    own = [
        Factor(kind, 0.3, partial(_scale_operators, (kind,), ("flops_per_second", "bytes_per_second")))
        for kind in sorted(machine.device.operators)
        if kind != "other"
    ]
    return (*shared, *device, *own)


def fit(prior: Machine, rows: Sequence[Measured], optimizer: OptimizerBytes) -> Machine:
    """The machine most probable after ``rows``, where steps alike share their errors (generalised least squares).

    Its ``log_error`` is what remains unexplained, at least the ``correction``'s spread. Raises ValueError where no row
    is given or one took no time.
    """
    from scipy.optimize import least_squares

    if not rows or min(row.seconds for row in rows) <= 0:
        raise ValueError(f"fit: {len(rows)} measured steps; at least one is needed, each of more than 0 seconds")
    known = factors(prior)
    spreads = np.array([factor.spread for factor in known])
    shares = [divide(row.work, row.plan, prior, row.starts) for row in rows]
    truth = np.log([row.seconds for row in rows])
    points = np.array([features(row.work, row.plan) for row in rows])
    whitening = np.linalg.inv(np.linalg.cholesky(covariance(points, SPREAD)))

    def errors(logs: FloatArray) -> FloatArray:
        machine = changed(prior, known, logs)
        return log_seconds(machine, rows, shares, optimizer) - truth

    def residuals(logs: FloatArray) -> FloatArray:
        return np.concatenate([whitening @ errors(logs), logs / spreads])

    found = least_squares(residuals, np.zeros(len(known)), x_scale=spreads, diff_step=1e-3, max_nfev=30)
    left = float(np.sqrt(np.mean(errors(found.x) ** 2)))
    return replace(changed(prior, known, found.x), log_error=max(left, SPREAD))


def changed(machine: Machine, known: Sequence[Factor], logs: FloatArray) -> Machine:
    """The machine whose rates are multiplied by ``exp(logs)`` [factors]."""
    for factor, log in zip(known, logs, strict=True):
        machine = factor.change(machine, float(np.exp(log)))
    return machine


def log_seconds(
    machine: Machine, rows: Sequence[Measured], shares: Sequence[Share], optimizer: OptimizerBytes
) -> FloatArray:
    """Logarithms of predicted seconds [rows]."""
    predicted = [
        step_seconds(share, row.plan, machine, optimizer).total for row, share in zip(rows, shares, strict=True)
    ]
    return np.asarray(np.log(predicted), np.float64)


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
        return np.concatenate([errors / KERNEL_ERROR, (logs - first) / RATE_SPREAD])

    found = least_squares(residuals, first, loss="soft_l1", max_nfev=200)
    rate, half_flops, bandwidth, launch = (float(value) for value in np.exp(found.x))
    return OperatorRate(rate, half_flops, bandwidth, launch)


def _scale_operators(kinds: Sequence[str], names: Sequence[str], machine: Machine, by: float) -> Machine:
    rates = {
        kind: replace(rate, **{name: getattr(rate, name) * by for name in names})
        if not kinds or kind in kinds
        else rate
        for kind, rate in machine.device.operators.items()
    }
    return replace(machine, device=replace(machine.device, operators=rates))


def _scale_device(name: str, machine: Machine, by: float) -> Machine:
    device: DeviceRates = replace(machine.device, **{name: getattr(machine.device, name) * by})
    return replace(machine, device=device)

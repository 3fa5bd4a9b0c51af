"""Prediction of training iterations from a few measured ones, and the plans chosen by it (data of vTrain)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks.planner import Measure, Row
from benchmarks.vtrain import Iteration, data_sheet, iterations, links
from trainers.optimizer_states import OptimizerBytes
from trainers.parallelism.arrays import BoolArray, FloatArray
from trainers.parallelism.calibrated import calibrate
from trainers.parallelism.fitting import Measured
from trainers.parallelism.rates import Link

ADAM = OptimizerBytes.of("adam", 0.9)
LEAST_PLANS = 3
"""Plans of a group whose choice is judged."""


@dataclass(frozen=True, eq=False)
class Predicted:
    """One seed: which rows were calibrated with, and what was then predicted for all [rows]."""

    seed: int
    calibrated: BoolArray
    seconds: FloatArray
    log_error: FloatArray


def measure(folder: Path, seeds: Iterable[int], calibrate_with: int) -> tuple[list[Measure], list[Row]]:
    """Measures over ``seeds``, and a row for each seed and iteration."""
    measured = iterations(folder)
    known = links(folder / "trace" / "a100")
    runs = [predict(measured, known, seed, calibrate_with) for seed in seeds]
    return judge(measured, runs), [row for run in runs for row in _rows(measured, run)]


def predict(measured: Sequence[Iteration], known: Sequence[Link], seed: int, calibrate_with: int) -> Predicted:
    """Draw the calibration rows, learn from them alone, predict every row without its label."""
    drawn = np.random.default_rng(seed).choice(len(measured), calibrate_with, replace=False)
    labelled = [measured[place].step for place in drawn]
    kinds = sorted({kind for step in labelled for kind in step.work.kinds})
    model = calibrate(data_sheet(kinds, known), labelled, ADAM)
    costs = [model.price(step.work, step.plan, step.starts) for step in (_unlabelled(one) for one in measured)]
    inside = np.isin(np.arange(len(measured)), drawn)
    return Predicted(
        seed, inside, np.array([cost.seconds for cost in costs]), np.array([cost.log_error for cost in costs])
    )


def _unlabelled(iteration: Iteration) -> Measured:
    step = iteration.step
    return Measured(step.work, step.plan, float("nan"), step.starts)


def judge(measured: Sequence[Iteration], runs: Sequence[Predicted]) -> list[Measure]:
    """Errors of rows that were not calibrated with, and regret of choosing by prediction in every group."""
    truth = np.array([iteration.seconds for iteration in measured])
    errors = np.array([np.mean(_errors(truth, run)[~run.calibrated]) for run in runs])
    ranks = np.array([spearmanr(run.seconds[~run.calibrated], truth[~run.calibrated])[0] for run in runs])
    covered = [_covered(truth, run) for run in runs]
    groups = grouped(measured)
    regrets = np.array([regret(truth, run.seconds, groups) for run in runs])
    unseen = np.array([regret(truth, run.seconds, _without(groups, run.calibrated)).mean() for run in runs])
    means, tails = regrets.mean(1), np.percentile(regrets, 95, axis=1)
    best = (regrets == 0).mean(1)
    return [
        Measure("mean absolute error, median seed", float(np.median(errors)), ("<=", 0.080), 0.0837),
        Measure("mean absolute error, worst seed", float(errors.max())),
        Measure("Spearman, median seed", float(np.median(ranks)), (">=", 0.985), 0.99),
        Measure("Spearman, worst seed", float(ranks.min())),
        Measure("truth within two standard deviations", float(np.mean(covered))),
        Measure("groups", float(len(groups))),
        Measure("plan regret, mean, median seed", float(np.median(means)), ("<=", 0.04), 0.052),
        Measure("plan regret, mean, worst seed", float(means.max())),
        Measure("plan regret, p95, median seed", float(np.median(tails)), ("<=", 0.15), 0.19),
        Measure("plan regret, p95, worst seed", float(tails.max())),
        Measure("best plan found, median seed", float(np.median(best)), (">=", 0.60), 0.52),
        Measure("best plan found, worst seed", float(best.min())),
        Measure("plan regret among rows not calibrated with, median seed", float(np.median(unseen))),
    ]


def grouped(measured: Sequence[Iteration]) -> list[list[int]]:
    """Places of the plans of each group with at least ``LEAST_PLANS``."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, iteration in enumerate(measured):
        groups.setdefault(iteration.group, []).append(place)
    return [group for group in groups.values() if len(group) >= LEAST_PLANS]


def regret(truth: FloatArray, predicted: FloatArray, groups: Sequence[Sequence[int]]) -> FloatArray:
    """[groups] what the plan predicted to be fastest takes longer than the fastest, as a share."""
    chosen = [truth[group[int(np.argmin(predicted[group]))]] / truth[group].min() - 1 for group in map(list, groups)]
    return np.array(chosen)


def _without(groups: Sequence[Sequence[int]], calibrated: BoolArray) -> list[list[int]]:
    left = [[place for place in group if not calibrated[place]] for group in groups]
    return [group for group in left if len(group) >= LEAST_PLANS]


def _errors(truth: FloatArray, run: Predicted) -> FloatArray:
    return np.abs(run.seconds / truth - 1)


def _covered(truth: FloatArray, run: Predicted) -> float:
    deviations = np.abs(np.log(truth / run.seconds)) / run.log_error
    return float(np.mean(deviations[~run.calibrated] <= 2))


def _rows(measured: Sequence[Iteration], run: Predicted) -> list[Row]:
    return [
        {
            "seed": run.seed,
            "row": place,
            "group": list(iteration.group),
            "plan": str(iteration.plan),
            "calibrated": bool(run.calibrated[place]),
            "predicted_seconds": float(run.seconds[place]),
            "log_error": float(run.log_error[place]),
            "measured_seconds": iteration.seconds,
        }
        for place, iteration in enumerate(measured)
    ]

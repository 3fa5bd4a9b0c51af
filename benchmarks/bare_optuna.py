"""Optuna's samplers alone on a table of recorded results, asked and told without anything of ours.

Ordered decisions are integers, others categories. A code that was asked before is free and told again; after four times
the budget of proposals the sampler is stopped. A code without a row fails.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import Trial, TrialState

from benchmarks.tables import Table
from search_spaces import Architecture, Infeasible

SAMPLERS: Mapping[str, Callable[..., BaseSampler]] = {
    "optuna-random": RandomSampler,
    "optuna-tpe": TPESampler,
    "optuna-gp": GPSampler,
    "optuna-nsga2": NSGAIISampler,
}

_MOST_PROPOSALS = 4


def queries(table: Table, sampler: str, seed: int, budget: int) -> list[dict[str, float] | None]:
    """Metrics of each distinct code in the order of asking; None for one without a row."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(
            directions=[objective.direction.value for objective in table.objectives.objectives],
            sampler=SAMPLERS[sampler](seed=seed),
        )
        known: dict[tuple[Any, ...], dict[str, float] | None] = {}
        asked = 0
        alone = len(table.objectives.objectives) == 1
        while len(known) < budget and asked < _MOST_PROPOSALS * budget:
            trial = study.ask()
            asked += 1
            architecture = _suggested(table, trial)
            code = tuple(architecture.values())
            if code not in known:
                known[code] = _measured(table, architecture)
            metrics = known[code]
            if metrics is None:
                study.tell(trial, state=TrialState.FAIL)
                continue
            study.tell(trial, [metrics[objective.name] for objective in table.objectives.objectives])
            if alone and metrics[table.objective] == table.optimum:
                break
    return list(known.values())


def _suggested(table: Table, trial: Trial) -> Architecture:
    values = {}
    for decision in table.task.spec["decisions"]:
        name, options = decision["name"], decision["options"]
        places = range(len(options))
        ordered = decision.get("ordered", False)
        place = trial.suggest_int(name, 0, places[-1]) if ordered else trial.suggest_categorical(name, places)
        values[name] = options[place]
    return Architecture(values)


def _measured(table: Table, architecture: Architecture) -> dict[str, float] | None:
    try:
        metrics = table.task.measure(architecture, table.task.fidelities[-1])
    except Infeasible:
        return None
    costs = table.objectives.costs(metrics)
    return metrics if all(abs(cost) < float("inf") for cost in costs) else None

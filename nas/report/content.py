"""What the page's script draws, as plain values: plots and the table of trials."""

from collections import Counter
from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

from nas.objective import Direction
from nas.report.history import Point
from nas.study import Study
from nas.trial import Trial

MOST_ROWS = 5_000
MOST_POINTS = 5_000

Plain = dict[str, Any]


def content(study: Study, points: Sequence[Point]) -> Plain:
    """Everything that the script needs."""
    front = study.front()
    rows, left_out = _rows(study, front)
    return {
        "objectives": _objectives(study),
        "unit": config(study)["fidelity"]["unit"],
        "rungs": sorted({point.fidelity for point in points}),
        "front": [trial.number for trial in front],
        "trials": rows,
        "left_out": left_out,
        "history": _history(study, points),
        "outcomes": dict(Counter(standing(trial) for trial in study.trials()).most_common()),
    }


def config(study: Study) -> Plain:
    """The configuration of the study's last session."""
    return dict(study.config or study.header["config"])


def standing(trial: Trial) -> str:
    """How a trial ended, or where it stands."""
    if trial.duplicate_of is not None:
        return "duplicate"
    if not trial.launches and trial.outcome is not None:
        return "rejected"
    return (trial.outcome or trial.state).value.replace("_", " ")


def _objectives(study: Study) -> list[Plain]:
    found = []
    for objective in study.objectives.objectives:
        values = [trial.metrics[objective.name] for trial in study.trials() if objective.name in trial.metrics]
        finite = [value for value in values if isfinite(value)]
        spread = bool(finite) and min(finite) > 0 and max(finite) / min(finite) > 30
        maximize = objective.direction is Direction.MAXIMIZE
        found.append({"name": objective.name, "maximize": maximize, "log": spread})
    return found


def _rows(study: Study, front: Sequence[Trial]) -> tuple[list[list[Any]], int]:
    """Rows of the table, the newest and the front where they are too many, and how many were left out."""
    trials = study.trials()
    if len(trials) > MOST_ROWS:
        kept = {trial.number for trial in front[:MOST_ROWS]}
        newest = (trial.number for trial in reversed(trials) if trial.number not in kept)
        kept |= {number for number, _ in zip(newest, range(MOST_ROWS - len(kept)), strict=False)}
        chosen = [trial for trial in trials if trial.number in kept]
    else:
        chosen = trials
    return [_row(study, trial) for trial in chosen], len(trials) - len(chosen)


def _row(study: Study, trial: Trial) -> list[Any]:
    """Number, standing, fidelity, objectives, whether it breaks a constraint, candidate, reason, origin."""
    metrics = trial.metrics
    values = [_finite(metrics.get(objective.name)) for objective in study.objectives.objectives]
    violations = study.objectives.violations(metrics) if trial.rungs else []
    reason = trial.reason or "; ".join(violations)
    if trial.duplicate_of is not None:
        reason = f"the same as trial {trial.duplicate_of}"
    parents = ", ".join(map(str, trial.proposal.parents))
    origin = f"{trial.proposal.operator} of {parents}" if parents else trial.proposal.operator
    return [
        trial.number,
        standing(trial),
        trial.fidelity or None,
        values,
        bool(violations),
        str(trial.proposal.candidate),
        reason,
        origin,
    ]


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _history(study: Study, points: Sequence[Point]) -> Plain:
    """Columns: seconds, device-seconds, trial, fidelity, value, and the best value of all fidelities so far.

    Where they are too many, those that improve stay, and every k-th of the rest.
    """
    lead = study.objectives.objectives[0]
    stride = max(1, len(points) // MOST_POINTS)
    columns: Plain = {name: [] for name in ("at", "device_seconds", "trial", "fidelity", "value", "best")}
    best = inf
    for at, point in enumerate(points):
        metrics = study[point.trial].rungs[point.fidelity].metrics
        if lead.name not in metrics:
            continue
        cost = lead.cost(metrics)
        improves = cost < best and not study.objectives.violations(metrics)
        if improves:
            best = cost
        if improves or at % stride == 0 or at == len(points) - 1:
            value, so_far = _finite(metrics[lead.name]), _finite(lead.value(best))
            row = (round(point.at, 2), round(point.device_seconds, 2), point.trial, point.fidelity, value, so_far)
            for column, entry in zip(columns.values(), row, strict=True):
                column.append(entry)
    return columns

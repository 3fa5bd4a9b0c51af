"""What commands answer, as JSON values of a documented form (docs/json.md), and how such a file is written."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from nas.errors import StorageError
from trainers import numbers_to_json

if TYPE_CHECKING:
    from nas.refusals import Refusal
    from nas.retrain import RetrainResult
    from nas.study import Study
    from nas.trial import Trial
    from nas.unmet import Unmet

FORM = 1
"""Version of the forms: keys may be added to a version, none changes its meaning."""

Answer = dict[str, Any]


def trial_answer(study: "Study", trial: "Trial") -> Answer:
    """A trial as it stands: what it is, how far it came, what it reached."""
    names = [objective.name for objective in study.objectives.objectives]
    metrics = numbers_to_json(trial.metrics)
    return {
        "trial": trial.number,
        "state": trial.state.value,
        "outcome": trial.outcome.value if trial.outcome else None,
        "fidelity": trial.fidelity,
        "objectives": {name: metrics[name] for name in names if name in metrics},
        "metrics": metrics,
        "key": trial.key,
        "architecture": trial.proposal.candidate.architecture.plain(),
        "hyperparameters": trial.proposal.candidate.hyperparameters.plain(),
        "candidate": str(trial.proposal.candidate),
    }


def chosen_answer(study: "Study", trial: "Trial | None") -> Answer | None:
    """The short form of a trial, for best and front."""
    if trial is None:
        return None
    answer = trial_answer(study, trial)
    return {name: answer[name] for name in ("trial", "objectives", "fidelity", "key", "candidate")}


def study_answer(study: "Study") -> Answer:
    """A study in numbers, its best trial and its front: the content of summary.json."""
    from nas.refusals import refusals
    from nas.unmet import unmet

    return {
        "form": FORM,
        "reason": study.closed,
        "exit_code": study.exit_code,
        "seed": study.header["seed"],
        "seconds": round(study.seconds, 3),
        "device_hours": round(study.allocated_seconds() / 3600, 6),
        "busy_share": round(study.busy_seconds / study.device_seconds, 4) if study.device_seconds else None,
        "launched": study.launched,
        "trials": study.counts(),
        "rejected": study.rejected,
        "refused": [refusal_answer(refusal) for refusal in refusals(study)],
        "unmet": [unmet_answer(one) for one in unmet(study)],
        "duplicates": study.duplicates,
        "best": chosen_answer(study, study.best()),
        "front": [chosen_answer(study, trial) for trial in study.front()],
    }


def refusal_answer(refusal: "Refusal") -> Answer:
    """Who refused how many candidates before a device was used."""
    nearest = None if refusal.nearest is None else numbers_to_json({"nearest": refusal.nearest})["nearest"]
    return {"by": refusal.by, "count": refusal.count, "nearest": nearest, "reason": refusal.reason or None}


def unmet_answer(one: "Unmet") -> Answer:
    """A constraint where no measured trial met all: by how many it was met, and the value nearest to its limit."""
    nearest = None if one.nearest is None else numbers_to_json({"nearest": one.nearest})["nearest"]
    return {"by": one.by, "met": one.met, "of": one.of, "nearest": nearest, "trial": one.trial}


def status_answer(study: "Study", owner: Mapping[str, Any] | None) -> Answer:
    """`study_answer`, with who writes the study now, the trials that hold devices, and why others wait for some."""
    from nas.waiting import waiting

    return {
        **study_answer(study),
        "writer": {"host": owner["host"], "pid": owner["pid"]} if owner else None,
        "running": [
            {"trial": trial.number, "until": trial.until, "plan": trial.plan, "devices": trial.devices}
            for trial in study.running()
        ],
        "waiting": [
            {"trial": one.trial, "until": one.until, "why": one.why} for one in waiting(study, owner is not None)
        ],
    }


def retrain_answer(result: "RetrainResult") -> Answer:
    """A retrained trial: test metrics of each seed, their mean and its standard error."""
    return {
        "trial": result.trial,
        "seeds": [numbers_to_json(metrics) for metrics in result.metrics],
        "mean": numbers_to_json(result.mean),
        "standard_error": numbers_to_json(result.standard_error),
        "seconds": round(result.seconds, 3),
        "weights": str(result.folder),
    }


def write_json(path: Path, answer: Any) -> None:
    """Write ``answer`` whole or not at all; raise StorageError where it cannot be written."""
    content = orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_whole(path, content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it; a pipe or a terminal is written as it is."""
    try:
        if path.exists() and not path.is_file():
            with suppress(BrokenPipeError):  # its reader has gone
                path.write_bytes(content)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_bytes(content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: {len(content)} bytes cannot be written ({error.strerror})") from error

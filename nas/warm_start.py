"""Warm start (``search.from``): what an older study measured, told to the strategy before it is first asked."""

from pathlib import Path
from typing import Any

from nas.config import SearchConfig
from nas.errors import ConfigError, StudyError
from nas.event_log import Record
from nas.objective import Objectives
from nas.recorded import check_same_table
from nas.study import Study, load
from nas.trial import Outcome, Trial
from search_spaces import CandidateSpace
from search_spaces.diff import space_changes
from trainers import numbers_to_json


def inherited(config: SearchConfig, space: CandidateSpace) -> Record:
    """The record that hands down the older study that ``config`` names.

    Raises ConfigError where there is none, where it searched another space, or where its measurements are not those of
    this search: of another task, trainer or training length, or without an objective.
    """
    folder = config.search.from_
    assert folder is not None
    try:
        study = load(Path(folder))
    except StudyError as error:
        raise ConfigError(f"search.from = {folder!r}: {error}; name the folder of a study, or leave it out") from error
    _check(study, config, space, f"search.from = {folder!r}: this study")
    return hand_down(study, config.declared_objectives, folder)


def hand_down(study: Study, objectives: Objectives, name: str) -> Record:
    """Trials of ``study`` that were measured in all objectives and constraints, as a record for another one.

    Left out are those that failed or ran out of memory: that may be the fault of the machines they ran on.
    """
    trials = [*study.inherited, *study.trials()]
    return {
        "event": "inherited",
        "from": name,
        "trials": [_plain(trial, objectives) for trial in trials if _measured(trial, objectives)],
    }


def _measured(trial: Trial, objectives: Objectives) -> bool:
    if trial.outcome is not None and (trial.outcome.failed or trial.outcome is Outcome.OUT_OF_MEMORY):
        return False
    return any(not objectives.missing(measurement.metrics) for measurement in trial.rungs.values())


def _plain(trial: Trial, objectives: Objectives) -> dict[str, Any]:
    candidate = trial.proposal.candidate
    return {
        "architecture": candidate.architecture.plain(),
        "hyperparameters": candidate.hyperparameters.plain(),
        "rungs": [
            [measurement.fidelity, numbers_to_json(measurement.metrics), measurement.seconds]
            for measurement in trial.rungs.values()
            if not objectives.missing(measurement.metrics)
        ],
        "outcome": (trial.outcome or Outcome.STOPPED).value,
    }


def _check(study: Study, config: SearchConfig, space: CandidateSpace, subject: str) -> None:
    changes = space_changes(study.header["space"], space.schema())
    if changes:
        raise ConfigError(f"{subject} searched another space: {changes[0]}; name a study of the same space")
    before, now = study.header["config"], config.to_plain()
    for table, key in (("search", "task"), ("search", "trainer"), ("fidelity", "max"), ("fidelity", "unit")):
        if before[table][key] != now[table][key]:
            raise ConfigError(
                f"{subject} has {table}.{key} = {before[table][key]!r}, this search {now[table][key]!r}: its "
                "measurements are no measure here; give its best candidates as [[search.start]] instead"
            )
    if before["task"] != now["task"]:
        raise ConfigError(f"{subject} has other arguments under [task]: {before['task']}, this search {now['task']}")
    check_same_table(config, study, "search.from")
    _check_measured(study, config.declared_objectives, subject)


def _check_measured(study: Study, objectives: Objectives, subject: str) -> None:
    trials = [*study.inherited, *study.trials()]
    if any(_measured(trial, objectives) for trial in trials):
        return
    metrics = {name for trial in trials for measurement in trial.rungs.values() for name in measurement.metrics}
    if not metrics:
        raise ConfigError(f"{subject} has measured no trial yet; let it run first, or leave search.from out")
    lacking = [name for name in objectives.names if name not in metrics] or list(objectives.names)
    raise ConfigError(
        f"{subject} has not measured {', '.join(lacking)}, which this search needs; it has {', '.join(sorted(metrics))}"
    )

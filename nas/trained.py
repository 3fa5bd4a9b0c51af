"""Whether a search trained networks: only then can they be trained anew and exported."""

from collections.abc import Mapping
from typing import Any

from nas.errors import StudyError
from nas.recorded import table_of
from nas.study import Study
from search_spaces import UnknownPluginError
from trainers import TRAINERS, trains

_SUPERVISED = "supervised"


def check_trained(study: Study) -> None:
    """Raise StudyError where the search of ``study`` trained no network."""
    if trained(study):
        return
    config = _config(study)
    table = table_of(config)
    how = (
        f'read recorded results (search.task = "table:{table}")'
        if table
        else f"measured by search.trainer = {config['search']['trainer']!r}, which trains nothing"
    )
    raise StudyError(
        f"{study.folder}: this search {how}, so there is nothing to retrain or to export. See its best candidate by: "
        f"nas best {study.folder}; to train, search with a task that has data and a trainer that trains"
    )


def trained(study: Study) -> bool:
    """Whether ``study`` had data, and a trainer that trains; one that cannot be loaded is taken to."""
    config = _config(study)
    trainer = config["search"]["trainer"]
    if table_of(config):
        return False
    try:
        return trainer == _SUPERVISED or trains(TRAINERS.load(trainer))  # the first loads torch
    except UnknownPluginError:
        return True


def _config(study: Study) -> Mapping[str, Any]:
    config: Mapping[str, Any] = study.config or study.header["config"]
    return config

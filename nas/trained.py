"""Whether a search trained networks: only then can they be trained anew and exported."""

from nas.errors import StudyError
from nas.study import Study

_READ = {
    "trainers.tabular:Tabular": "read recorded results",
    "synthetic": "measured a formula",
    "trainers.synthetic:Synthetic": "measured a formula",
}
"""Trainers of ours that train nothing, and what they do."""


def check_trained(study: Study) -> None:
    """Raise StudyError where the search of ``study`` trained no network."""
    done = untrained(study)
    if done is not None:
        search = (study.config or study.header["config"])["search"]
        raise StudyError(
            f"{study.folder}: this search {done} (search.trainer = {search['trainer']!r}) and trained no network, so "
            f"there is nothing to retrain or to export. See its best candidate by: nas best {study.folder}; to train, "
            "search with a task that has data"
        )


def untrained(study: Study) -> str | None:
    """What the search of ``study`` did in place of training; None where it trained."""
    return _READ.get((study.config or study.header["config"])["search"]["trainer"])

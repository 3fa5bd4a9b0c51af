"""summary.json: a study in numbers, for people and programs that read no event log."""

from pathlib import Path

from nas.answers import study_answer, write_json
from nas.study import Study

FILE = "summary.json"


def write_summary(study: Study) -> Path:
    """Write the summary into the study's folder, whole or not at all."""
    path = study.folder / FILE
    write_json(path, study_answer(study))
    return path

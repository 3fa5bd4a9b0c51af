"""Which trial of a study a command means."""

from nas.errors import StudyError
from nas.study import Study
from nas.trial import Trial


def choose(study: Study, number: int | None = None) -> Trial:
    """Return trial ``number``, or the best one for None; raise StudyError where there is none."""
    if number is not None:
        if not 0 <= number < len(study):
            raise StudyError(f"--trial {number}: {study.folder} has trials 0 to {len(study) - 1}")
        return study[number]
    best = study.best()
    if best is None:
        raise StudyError(
            f"{study.folder}: no trial has met all constraints yet, there is no best one; "
            f"name one by its number, or go on with: nas resume {study.folder}"
        )
    return best

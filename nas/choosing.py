"""Which trial of a study a command means."""

from nas.errors import StudyError
from nas.study import Study
from nas.trial import Trial
from nas.unmet import explained


def choose(study: Study, number: int | None = None) -> Trial:
    """Return trial ``number``, or the best one for None; raise StudyError where there is none."""
    if number is not None:
        if not 0 <= number < len(study):
            there = f"trials 0 to {len(study) - 1}" if len(study) else "no trials"
            raise StudyError(f"trial {number}: {study.folder} has {there}")
        return study[number]
    best = study.best()
    if best is None:
        why = " ".join(explained(study)) or "No trial has been measured whole yet."
        raise StudyError(
            f"{study.folder}: there is no best trial. {why}\n"
            f"Name a trial by its number, or go on with: nas resume {study.folder}"
        )
    return best

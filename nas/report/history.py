"""How a study went: its log replayed, with a point for each measurement."""

from pathlib import Path
from typing import NamedTuple

from nas import event_log
from nas.errors import StudyError
from nas.study import Study
from trainers import Fidelity


class Point(NamedTuple):
    """A measurement of a trial: when (executor seconds), and after how many allocated device-seconds of the study."""

    at: float
    device_seconds: float
    trial: int
    fidelity: Fidelity


def replay(folder: Path) -> tuple[Study, list[Point]]:
    """Return the study in ``folder`` and its measurements in the order in which they came."""
    study, points = Study(folder), []
    for record in event_log.read(folder):
        study.apply(record)
        if record["event"] == "reported":
            spent = study.allocated_seconds()
            points.append(Point(record["at"], spent, record["trial"], record["fidelity"]))
    if not study.header:
        raise StudyError(f"{folder}: the event log has no header; it was ended before it began")
    return study, points

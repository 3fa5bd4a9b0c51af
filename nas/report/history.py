"""How a study went: its log replayed, with a point for each measurement."""

from pathlib import Path
from typing import NamedTuple

from nas.errors import StudyError
from nas.event_log import Record
from nas.study import Study
from nas.study import replay as replay_log
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

    def apply(record: Record) -> None:
        study.apply(record)
        if record["event"] == "reported":
            spent = study.allocated_seconds()
            points.append(Point(record["at"], spent, record["trial"], record["fidelity"]))

    replay_log(folder, apply)
    if not study.header:
        raise StudyError(f"{folder}: the event log has no header; it was ended before it began")
    return study, points

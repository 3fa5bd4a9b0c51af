"""The report of a study: one HTML page that needs no network and no server."""

from pathlib import Path

from nas.answers import write_whole
from nas.report.history import replay
from nas.report.page import page

FILE = "report.html"


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the report of the study in ``folder`` to ``out`` (its own folder by default); return where it is.

    Reads the event log alone: no code of the study, no torch, no ray. Raises StudyError where there is no study,
    StorageError where the page cannot be written.
    """
    path = out or folder / FILE
    study, points = replay(folder)
    write_whole(path, page(study, points).encode())
    return path

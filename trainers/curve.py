"""The learning curve of a trial: a line of JSON for each report, in the trial's folder. Not part of the record.

A leg that was broken off and runs again reports some fidelities twice: the last line of a fidelity counts.
"""

from collections.abc import Iterator
from pathlib import Path

import orjson

from trainers.measurement import Measurement

FILE = "curve.jsonl"


def append(folder: Path, measurement: Measurement) -> None:
    """Add a report; OSError where it cannot be written."""
    with open(folder / FILE, "ab") as file:
        file.write(orjson.dumps(measurement.to_json(), option=orjson.OPT_APPEND_NEWLINE))


def read(folder: Path) -> list[Measurement]:
    """The curve by increasing fidelity; empty where there is none, a torn last line left out."""
    return sorted(
        {point.fidelity: point for point in _points(folder / FILE)}.values(), key=lambda point: point.fidelity
    )


def _points(path: Path) -> Iterator[Measurement]:
    if not path.is_file():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield Measurement.from_json(orjson.loads(line))

"""Keeps the checkpoints of a study below a size: those of trials that ended go first, the front's never."""

import os
from pathlib import Path
from shutil import rmtree

from nas.study import Study
from nas.trial import State, Trial


class Retention:
    """Deletes checkpoints in ``folder`` once they hold more than ``keep_bytes``.

    The oldest ended trials lose theirs first; a trial that may go on, or stands on the Pareto front, keeps its own.
    """

    def __init__(self, folder: Path, keep_bytes: float) -> None:
        self._trials = folder / "trials"
        self._prefix = str(self._trials)
        self._keep_bytes = keep_bytes
        self._bytes: dict[int, int] = {
            int(entry.name): _size(str(entry / "checkpoints"))
            for entry in (self._trials.iterdir() if self._trials.is_dir() else ())
            if entry.name.isdecimal()
        }
        self._total = sum(self._bytes.values())

    def look(self, study: Study, trial: Trial) -> None:
        """Count what ``trial`` holds now, a leg of which has ended, and delete what is too much."""
        size = _size(self._checkpoints(trial.number))
        self._total += size - self._bytes.get(trial.number, 0)
        self._bytes[trial.number] = size
        if self._total > self._keep_bytes:
            self._shrink(study)

    def _shrink(self, study: Study) -> None:
        spared = {trial.number for trial in study.front()}
        ended = [
            number
            for number in self._bytes
            if self._bytes[number] and number not in spared and study[number].state is State.ENDED
        ]
        for number in sorted(ended, key=lambda number: study[number].ended_at or 0.0):
            rmtree(self._checkpoints(number), ignore_errors=True)
            self._total -= self._bytes[number]
            self._bytes[number] = 0
            if self._total <= self._keep_bytes:
                return

    def _checkpoints(self, number: int) -> str:
        return f"{self._prefix}/{number:05d}/checkpoints"


def _size(folder: str) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat().st_size for entry in entries)
    except OSError:  # none, or it is just being changed: the next look counts again
        return 0

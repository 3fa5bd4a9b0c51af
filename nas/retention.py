"""Keeps the checkpoints of a study below a size: those of trials that ended go first, the front's never."""

import os
from math import inf
from pathlib import Path
from shutil import rmtree
from time import monotonic

from nas.study import Study
from nas.trial import State, Trial
from trainers.runner import checkpoint_folder

_SHRINK_TO = 0.9
_LOOK_SECONDS = 0.2


class Retention:
    """Deletes checkpoints in ``folder`` once they hold more than ``keep_bytes``.

    Trials that ended lose theirs first, the oldest before others; then those that are held, the lowest rung first (one
    that goes on after all starts anew). A trial that runs, waits, or stands on the Pareto front keeps its own.
    """

    def __init__(self, folder: Path, keep_bytes: float, replicates: int = 1) -> None:
        self._trials = folder / "trials"
        self._folder = folder
        self._replicates = replicates
        self._keep_bytes = keep_bytes
        self._bytes: dict[int, int] = {
            int(entry.name): self._size(int(entry.name))
            for entry in (self._trials.iterdir() if self._trials.is_dir() else ())
            if entry.name.isdecimal()
        }
        self._total = sum(self._bytes.values())
        self._unseen: set[int] = set()
        self._looked_at = -inf

    def look(self, study: Study, trial: Trial) -> None:
        """Count what ``trial`` holds now, a leg of which has ended, and delete what is too much.

        It looks at most every 0.2 s, then at all trials since.
        """
        self._unseen.add(trial.number)
        now = monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        if self._trials.is_dir():
            self._count()
        self._unseen.clear()
        if self._total > self._keep_bytes:
            self._shrink(study)

    def _count(self) -> None:
        for number in self._unseen:
            size = self._size(number)
            self._total += size - self._bytes.get(number, 0)
            self._bytes[number] = size

    def _shrink(self, study: Study) -> None:
        """Delete to nine tenths, so that it is not done again at once."""
        spared = {trial.number for trial in study.front()}
        removable = [
            study[number]
            for number, size in self._bytes.items()
            if size and number not in spared and study[number].state in (State.ENDED, State.PAUSED)
        ]
        for trial in sorted(removable, key=_worth):
            for path in self._checkpoints(trial.number):
                rmtree(path, ignore_errors=True)
            self._total -= self._bytes[trial.number]
            self._bytes[trial.number] = 0
            if self._total <= _SHRINK_TO * self._keep_bytes:
                return

    def _checkpoints(self, number: int) -> list[Path]:
        return [checkpoint_folder(self._folder, number, replicate) for replicate in range(self._replicates)]

    def _size(self, number: int) -> int:
        return sum(map(_size, self._checkpoints(number)))


def _worth(trial: Trial) -> tuple[bool, float, float]:
    held = trial.state is State.PAUSED
    return held, trial.fidelity if held else 0, trial.ended_at or 0.0


def _size(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat().st_size for entry in entries)
    except OSError:  # none, or it is just being changed: the next look counts again
        return 0

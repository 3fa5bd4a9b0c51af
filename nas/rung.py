"""A rung: the trials measured at one fidelity, ranked."""

from collections import deque
from math import inf
from typing import TypeAlias

from sortedcontainers import SortedList

from nas.objective import Objectives
from nas.pareto import preference_order
from nas.trial import State, Trial
from trainers import Measurement

_Entry: TypeAlias = tuple[int, tuple[float, ...], int]
_RANKED_ANEW_SHARE = 100


class Rung:
    """Constraints first, then the objective; several objectives by non-dominated rank and crowding.

    What is not finite, or lacks an objective, stands behind all else. One objective costs O(log n) an operation.
    Several are ranked anew at every measurement up to 200, then each time the rung has grown by one in a hundred: at
    sizes that depend on nothing else, so that a resumed search ranks as an unbroken one.
    """

    def __init__(self, objectives: Objectives) -> None:
        self._single = len(objectives.objectives) == 1
        self._objectives = objectives
        self._entries: dict[int, _Entry] = {}
        self._held: dict[int, Trial] = {}
        self._sorted = SortedList()
        self._held_sorted = SortedList()
        self._next_size = 1
        self._ranked: list[_Entry] = []
        self._queue: deque[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, trial: Trial, measurement: Measurement) -> None:
        """Enter a trial, as one that may go on."""
        entry = self._entries[trial.number] = (*self._standing(measurement), trial.number)
        self._held[trial.number] = trial
        if self._single:
            self._sorted.add(entry)
            self._held_sorted.add(entry)
        elif len(self._entries) >= self._next_size:
            self._next_size = len(self._entries) + max(1, len(self._entries) // _RANKED_ANEW_SHARE)
            self._ranked, self._queue = list(self._entries.values()), None

    def let_go(self, number: int) -> None:
        """A trial went on or ended: it still counts in the ranking, but is not held any more."""
        if number in self._held:
            del self._held[number]
            if self._single:
                self._held_sorted.remove(self._entries[number])

    def best_held(self, top: int) -> int | None:
        """The best trial still held, if it is among the ``top`` best of all; one whose leg has not ended yet is not."""
        if not self._single:
            return self._best_of_several(top)
        for entry in self._held_sorted:
            if self._sorted.index(entry) >= top:
                return None
            if self._paused(entry[-1]):
                return int(entry[-1])
        return None

    def rank(self, number: int) -> int:
        """Position of a trial among all of the rung, 0 the best."""
        if self._single:
            return int(self._sorted.index(self._entries[number]))
        return self._order(list(self._entries.values())).index(number)

    def _standing(self, measurement: Measurement) -> tuple[int, tuple[float, ...]]:
        metrics = measurement.metrics
        if self._objectives.missing(metrics):
            return len(self._objectives.constraints) + 2, ()
        costs = self._objectives.costs(metrics)
        if inf in costs:
            return len(self._objectives.constraints) + 1, costs
        return len(self._objectives.violations(metrics)), costs

    def _best_of_several(self, top: int) -> int | None:
        if self._queue is None:
            order = self._order(self._ranked)
            self._queue = deque((place, number) for place, number in enumerate(order) if number in self._held)
        while self._queue and self._queue[0][1] not in self._held:
            self._queue.popleft()
        for place, number in self._queue:
            if place >= top:
                return None
            if self._paused(number):
                return number
        return None

    def _paused(self, number: int) -> bool:
        return number in self._held and self._held[number].state is State.PAUSED

    def _order(self, entries: list[_Entry]) -> list[int]:
        good = [entry for entry in entries if entry[0] == 0]
        bad = sorted(entry for entry in entries if entry[0] > 0)
        order = preference_order([entry[1] for entry in good])
        return [good[at][-1] for at in order] + [entry[-1] for entry in bad]

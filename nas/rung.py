"""A rung: the trials measured at one fidelity, ranked."""

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf
from typing import Any, TypeAlias

from sortedcontainers import SortedList

from nas.objective import Objectives
from nas.pareto import preference_order
from nas.trial import State, Trial
from trainers import Measurement

_Entry: TypeAlias = tuple[Any, ...]
_RANKED_ANEW_SHARE = 100


def standing(objectives: Objectives, metrics: Mapping[str, float]) -> int:
    """Constraints broken; one more than all for what is not finite, two more for what lacks an objective."""
    if objectives.missing(metrics):
        return len(objectives.constraints) + 2
    if inf in objectives.costs(metrics):
        return len(objectives.constraints) + 1
    return len(objectives.violations(metrics))


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
        self._heap: list[_Entry] = []
        self._next_size = 1
        self._ranked: list[_Entry] = []
        self._exact: list[int] | None = None
        self._queue: deque[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, trial: Trial, measurement: Measurement) -> None:
        """Enter a trial, as one that may go on."""
        place = standing(self._objectives, measurement.metrics)
        costs = () if self._objectives.missing(measurement.metrics) else self._objectives.costs(measurement.metrics)
        entry: _Entry = (place, *costs, trial.number) if self._single else (place, costs, trial.number)
        self._entries[trial.number] = entry
        self._held[trial.number] = trial
        self._exact = None
        if self._single:
            self._sorted.add(entry)
            heappush(self._heap, entry)
        elif len(self._entries) >= self._next_size:
            self._next_size = len(self._entries) + max(1, len(self._entries) // _RANKED_ANEW_SHARE)
            self._ranked, self._queue = list(self._entries.values()), None

    def let_go(self, number: int) -> None:
        """A trial went on or ended: it still counts in the ranking, but is not held any more."""
        self._held.pop(number, None)

    def best_held(self, top: int) -> int | None:
        """The best trial still held, if it is among the ``top`` best of all; one whose leg has not ended yet is not."""
        if not self._single:
            return self._best_of_several(top)
        heap = self._heap
        while heap and heap[0][-1] not in self._held:
            heappop(heap)
        if not heap or top < 1 or heap[0] > (last := self._sorted[top - 1]):
            return None
        if self._paused(heap[0][-1]):
            return int(heap[0][-1])
        best = min((entry for entry in heap if self._paused(entry[-1])), default=None)
        return int(best[-1]) if best is not None and best <= last else None

    def order(self) -> list[int]:
        """All trials, the best first, ranked by all measurements so far."""
        if self._exact is None:
            sorted_numbers = (int(entry[-1]) for entry in self._sorted)
            self._exact = [*sorted_numbers] if self._single else self._order(list(self._entries.values()))
        return self._exact

    def rank(self, number: int) -> int:
        """Position of a trial among all of the rung, 0 the best."""
        if self._single:
            return int(self._sorted.index(self._entries[number]))
        return self._order(list(self._entries.values())).index(number)

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

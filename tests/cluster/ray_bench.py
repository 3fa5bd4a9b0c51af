"""A hand-driven search: launches legs on an executor and waits for their ends."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import monotonic

from cluster.protocol import Executor, ExecutorEvent, Failed, Finished, Launch, Leg, LegId
from cluster.resources import Allocation
from search_spaces import Architecture, Candidate, Reference, Values
from trainers import Plan, Recipe

DEADLINE_SECONDS = 60.0
ENDS = (Finished, Failed)


def recipe(folder: Path, trainer: str = "tests.cluster.ray_trials:act") -> Recipe:
    """Of a study without a task: the trainers of `ray_trials` need none."""
    return Recipe(Reference("mlp"), Reference("digits"), Reference(trainer), maximum=27, folder=folder)


class Bench:
    """Launches legs, one number a trial, on the first node."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.events: list[ExecutorEvent] = []
        self._trials = count()

    def launch(self, act: str, width: int = 1, limit: float | None = None, trial: int | None = None) -> LegId:
        """Launch a leg of a trainer in `ray_trials`."""
        plan = Plan(data=width)
        candidate = Candidate(Architecture({}), Values({"act": act}))
        id = LegId(next(self._trials) if trial is None else trial, 0, 0)
        allocation = Allocation(((self.executor.cluster.nodes[0].name, width),))
        leg = Leg(id, candidate, 0, 1, seed=0, plan=plan)
        self.executor.execute(Launch(self.executor.now(), (leg,), plan, allocation, limit))
        return id

    def run(self, act: str, width: int = 1, limit: float | None = None) -> Finished | Failed:
        """Launch a leg and wait for its end."""
        id = self.launch(act, width, limit)
        self.until(lambda event: isinstance(event, ENDS) and event.id == id)
        end = self.events[-1]
        assert isinstance(end, ENDS)
        return end

    def until(self, wanted: Callable[[ExecutorEvent], bool]) -> None:
        """Poll until an event is ``wanted``, which is then the last of ``events``."""
        deadline = monotonic() + DEADLINE_SECONDS
        while monotonic() < deadline:
            for event in self.executor.poll(1.0):
                self.events.append(event)
                if wanted(event):
                    return
        raise AssertionError(f"not within {DEADLINE_SECONDS} s; events: {self.events}")

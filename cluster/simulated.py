"""The simulated executor: a virtual clock and a heap of endings.

It runs any trainer that says how many seconds its measurements took, and spends none of them. A leg is computed when it
is launched; its events come when the clock gets there. No death of the driver loses virtual work, so a leg that is
launched again after a resume goes on from its first launch, ``Leg.since``.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from cluster.protocol import ExecutorEvent, Failed, Finished, Halt, Launch, Leg, LegId, Progress, Reported
from cluster.resources import ClusterSpec
from trainers import Failure, FailureKind, Measurement, Recipe
from trainers.runner import Runner


class SimulatedExecutor:
    """``cluster`` is whatever machines are to be simulated."""

    def __init__(self, recipe: Recipe, cluster: ClusterSpec, origin: float = 0.0) -> None:
        self._runner = Runner(recipe)
        self._cluster = cluster
        self._now = origin
        self._heap: list[tuple[float, int, LegId, list[Measurement], Failure | None, float]] = []
        self._launches = 0
        self._over: set[LegId] = set()
        self._halted: list[ExecutorEvent] = []

    @property
    def cluster(self) -> ClusterSpec:
        """The machines simulated."""
        return self._cluster

    def now(self) -> float:
        """Virtual seconds."""
        return self._now

    def execute(self, command: Launch | Halt) -> None:
        """Compute a leg and put its end on the heap, or end one now."""
        if isinstance(command, Launch):
            for leg in command.legs:
                self._launch(leg, command)
        elif any(entry[2] == command.id for entry in self._heap) and command.id not in self._over:
            self._over.add(command.id)
            failure = Failure(FailureKind.CANCELLED, f"halted ({command.how.value})")
            self._halted.append(Failed(self._now, command.id, failure, 0.0))

    def _launch(self, leg: Leg, launch: Launch) -> None:
        measurements: list[Measurement] = []
        failure = self._runner.run(
            leg.candidate,
            trial=leg.id.trial,
            start=leg.start,
            until=leg.until,
            seed=leg.seed,
            plan=launch.plan,
            attempt=leg.id.attempt,
            source=leg.source,
            emit=measurements.append,
            virtual=True,
        )
        seconds = measurements[-1].seconds if measurements else 0.0
        if launch.time_limit is not None and seconds > launch.time_limit:
            seconds = launch.time_limit
            measurements = [measurement for measurement in measurements if measurement.seconds <= seconds]
            failure = Failure(FailureKind.TIMED_OUT, f"the leg takes longer than {seconds:g} s")
        began = launch.at if leg.since is None else leg.since
        self._launches += 1
        heappush(self._heap, (began + seconds, self._launches, leg.id, measurements, failure, seconds))

    def poll(self, timeout: float) -> Sequence[ExecutorEvent]:
        """Move the clock to the next end of a leg and return its events; the timeout is of no use here."""
        if self._halted:
            halted, self._halted = self._halted, []
            return halted
        while self._heap:
            at, _, id, measurements, failure, seconds = heappop(self._heap)
            if id in self._over:
                self._over.remove(id)
                continue
            self._now = max(self._now, at)
            events: list[ExecutorEvent] = [Progress(self._now, id, measurement) for measurement in measurements[:-1]]
            if failure is not None:
                return [*events, Failed(self._now, id, failure, seconds)]
            return [*events, Reported(self._now, id, measurements[-1]), Finished(self._now, id, seconds)]
        return []

    def close(self, seconds: float) -> None:
        """Drop what is left."""
        self._heap.clear()

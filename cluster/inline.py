"""The inline executor: one leg at a time in this process, for debugging and tests."""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from cluster.protocol import ExecutorEvent, Failed, Finished, Halt, Launch, Leg, LegId, Progress, Reported
from cluster.resources import ClusterSpec, Node
from trainers import Failure, FailureKind, Measurement, Recipe
from trainers.runner import Runner

NODE = "inline"


class InlineExecutor:
    """Runs each launched leg to its end within `poll`.

    ``interrupted`` is looked at on each report and ends the leg that runs. A time limit is kept at the next report:
    nothing outside this process could end it sooner.
    """

    def __init__(self, recipe: Recipe, origin: float = 0.0, interrupted: Callable[[], bool] = lambda: False) -> None:
        self._runner = Runner(recipe)
        self._origin = origin - monotonic()
        self._interrupted = interrupted
        self._launched: deque[Launch] = deque()
        self._halted: set[LegId] = set()

    @property
    def cluster(self) -> ClusterSpec:
        """One device: this process."""
        return ClusterSpec((Node(NODE, 1),))

    def now(self) -> float:
        """Seconds since the executor was made, and ``origin``."""
        return self._origin + monotonic()

    def execute(self, command: Launch | Halt) -> None:
        """Take a launch for the next `poll`, or mark a leg as halted."""
        if isinstance(command, Launch):
            self._launched.append(command)
        else:
            self._halted.add(command.id)

    def poll(self, timeout: float) -> Sequence[ExecutorEvent]:
        """Run the next launched leg; the timeout is of no use here."""
        if not self._launched:
            return []
        launch = self._launched.popleft()
        return [event for leg in launch.legs for event in self._run(leg, launch.time_limit)]

    def close(self, seconds: float) -> None:
        """Nothing outlives a `poll`."""

    def _run(self, leg: Leg, time_limit: float | None) -> list[ExecutorEvent]:
        events: list[ExecutorEvent] = []
        began = self.now()

        def emit(measurement: Measurement) -> None:
            kind = Reported if measurement.fidelity == leg.until else Progress
            events.append(kind(self.now(), leg.id, measurement))

        def late() -> bool:
            return time_limit is not None and self.now() - began > time_limit

        def halted() -> bool:
            return leg.id in self._halted or self._interrupted() or late()

        failure = None if not halted() else Failure(FailureKind.CANCELLED, "halted before it began", "start")
        if failure is None:
            failure = self._runner.run(
                leg.candidate,
                trial=leg.id.trial,
                until=leg.until,
                seed=leg.seed,
                plan=leg.plan,
                attempt=leg.id.attempt,
                source=leg.source,
                emit=emit,
                halted=halted,
            )
        if failure is not None and failure.kind is FailureKind.CANCELLED and late():
            failure = Failure(FailureKind.TIMED_OUT, f"the leg ran longer than {time_limit:g} s", "train")
        busy = self.now() - began
        if failure is None:
            return [*events, Finished(self.now(), leg.id, busy)]
        return [*events, Failed(self.now(), leg.id, failure, busy)]

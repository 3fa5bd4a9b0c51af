"""Runs legs on Ray: placement groups, warm worker actors, faults, nodes that come and go.

The driver owns every actor and group, so that all of them end with it; Ray retries nothing, attempts are the
scheduler's. What a gang does is in `cluster.gang`, what a rank does in `cluster.worker`; here they meet Ray.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread, Timer
from time import monotonic
from typing import Any

from cluster.bootstrap import rank_class, start_message
from cluster.collectives import Post
from cluster.gang import Answer
from cluster.gang_pool import GangPool
from cluster.installation import Installation
from cluster.machines import Machine, Machines, NodeView
from cluster.patience import Keep, Patience
from cluster.processes import Processes, Reaper
from cluster.protocol import ExecutorEvent, Halt, Launch, NodeGone
from cluster.resources import Allocation, ClusterSpec, Node
from cluster.session import SessionFolder, check_reachable, few_attempts, kept_signal_handlers, prepare
from cluster.user_code import deposit, located_recipe, modules_of
from trainers import Failure, FailureKind, Recipe

_NODE_SECONDS = 1.0
_SUSPICION_SECONDS = 30.0
"""How long a node that does not answer is taken as gone while Ray still calls it alive."""
_EXIT_DETAIL = re.compile(r"Worker exit detail: (.+?)(?: Some common causes|$)", re.DOTALL)
_TEXT_CHARACTERS = 1_000
_CLOSE_SHARE = 0.7
"""Share of the time to close after which Ray's own orderly end is cut short."""


class RayExecutor:
    """Runs legs as gangs of Ray actors.

    ``address`` "local" starts a Ray of our own on this machine and ends it in `close`; "auto" joins the one that this
    job runs in, and any other address that one. ``max_devices`` limits the devices in use (a local Ray gets as many
    cores). ``device`` is "auto", "cpu" or "cuda". ``log_bytes`` limits the log of a trial's rank.

    Must be made in a thread that outlives it. Raises ValueError where no Ray answers at ``address``, the devices are
    not there, or ``recipe`` cannot travel; InstallationError where our packages are not from one installation.
    """

    def __init__(
        self,
        recipe: Recipe,
        address: str = "local",
        max_devices: int | None = None,
        origin: float = 0.0,
        device: str = "auto",
        patience: Patience = Patience(),  # noqa: B008 - frozen
        keep: Keep = Keep(),  # noqa: B008 - frozen
        log_bytes: int = 10 * 2**20,
    ) -> None:
        self._origin, self._began = origin, monotonic()
        self._patience, self._log_bytes = patience, log_bytes
        self._installation = Installation.here()
        self._machines = Machines(device, max_devices)
        self._inbox: SimpleQueue[Answer | NodeView] = SimpleQueue()
        self._events: list[ExecutorEvent] = []
        self._session = RaySession(address, max_devices)
        try:
            recipe = located_recipe(recipe)
            self._code = deposit(modules_of(recipe), recipe.folder)
            self._recipe = _by_value(recipe)
            self._rank_class = _actor_class()
            self._pool = GangPool(self, patience, keep, self._events.append)
            self._machines.update(_view(), self.now(), time.time())
            self._check_devices(device)
            self._watch = _NodeWatch(self._inbox.put)
        except BaseException:
            self._session.close(5.0)
            raise

    @property
    def cluster(self) -> ClusterSpec:
        """The machines at hand now."""
        return ClusterSpec(self._machines.nodes)

    def now(self) -> float:
        """Seconds since this executor was made, and ``origin``."""
        return self._origin + monotonic() - self._began

    def execute(self, command: Launch | Halt) -> None:
        """Begin a launch or a halt; never blocks."""
        if isinstance(command, Launch):
            self._pool.launch(command, self.now())
        else:
            self._pool.halt(command, self.now())

    def poll(self, timeout: float) -> Sequence[ExecutorEvent]:
        """Wait up to ``timeout`` seconds for events. Raise InstallationError where a worker has other code."""
        until = self.now() + timeout
        while True:
            self._take_all()
            self._pool.tick(self.now())
            now = self.now()
            if self._events or now >= until:
                events = self._events[:]
                self._events.clear()
                return events
            with suppress(Empty):
                self._take(self._inbox.get(timeout=max(0.0, min(until, self._pool.next_tick) - now)))

    def close(self, seconds: float) -> None:
        """End everything that this executor started, within ``seconds``; a second call does nothing."""
        if self._session.open:
            self._watch.stop()
            self._pool.close()
            self._session.close(seconds)

    # For the pool -------------------------------------------------------------------------------------------------

    def nodes(self) -> Sequence[Node]:
        """The nodes that are there now."""
        return self._machines.nodes

    def gang(self, number: int, allocation: Allocation) -> "_ActorRanks":
        """Ask Ray for the actors of a gang."""
        machines = [self._machines.named(name) for name, count in allocation.parts for _ in range(count)]
        starts = [
            start_message(self._installation, self._recipe, self._code, post, self._log_bytes)
            for post in self._posts(machines)
        ]
        deliver = partial(_deliver, self._inbox, number)
        return _ActorRanks(self._rank_class, machines, starts, deliver)

    # Its own ------------------------------------------------------------------------------------------------------

    def _posts(self, machines: Sequence[Machine]) -> list[Post]:
        spans = len({machine.id for machine in machines}) > 1
        return [
            Post(
                rank=rank,
                world_size=len(machines),
                device="cuda:0" if machine.accelerated else "cpu",  # Ray shows a worker its own GPU only
                threads=machine.threads,
                host=machines[0].address if spans else "127.0.0.1",
                own_address=machine.address,
                spans=spans,
                rendezvous_seconds=self._patience.rendezvous,
                collective_seconds=self._patience.collective,
            )
            for rank, machine in enumerate(machines)
        ]

    def _check_devices(self, device: str) -> None:
        if not self._machines.nodes:
            found = ", ".join(f"{entry['NodeManagerHostname']} {entry['Resources']}" for entry in _view().table)
            raise ValueError(f"device = {device!r}: no node of this Ray has such a device; it has: {found}")

    def _take_all(self) -> None:
        with suppress(Empty):
            while True:
                self._take(self._inbox.get_nowait())

    def _take(self, item: Answer | NodeView) -> None:
        if isinstance(item, NodeView):
            self._look(item)
            return
        if item.failure is not None and item.failure.kind in (FailureKind.NODE_LOST, FailureKind.PREEMPTED):
            node = self._pool.node_of(item)
            if node is not None:
                self._machines.suspect(node, self.now() + _SUSPICION_SECONDS)
                self._look(_view())  # nothing more is placed there, and all that it held is told at once
        self._pool.answered(item, self.now())

    def _look(self, view: NodeView) -> None:
        at = self.now()
        for event in self._machines.update(view, at, time.time()):
            self._events.append(event)
            if isinstance(event, NodeGone):
                announced = self._machines.announced(event.node)
                kind = FailureKind.PREEMPTED if announced else FailureKind.NODE_LOST
                self._pool.node_gone(event.node, Failure(kind, f"node {event.node} is gone"), at)


class RaySession:
    """A Ray that was started or joined, or ran in this process already; and how it is left.

    Raises ValueError where it cannot be had; nothing of a half-started Ray stays then.
    """

    def __init__(self, address: str, max_devices: int | None) -> None:
        local = address == "local"
        if "://" in address:
            raise ValueError(f"address = {address!r}: Ray's client cannot place gangs; submit the search as a job")
        prepare(os.environ, local)
        import ray

        if local and ray.is_initialized():
            raise ValueError('address = "local": Ray runs in this process already; use "auto" to search on that one')
        self.open = True
        self._joined = not local and not ray.is_initialized()
        self._folder = SessionFolder() if local else None
        self._reaper = Reaper(self._folder.path) if self._folder else None
        try:
            if self._folder is not None:
                self._init(address, num_cpus=max_devices, include_dashboard=False, _temp_dir=str(self._folder.path))
            elif self._joined:
                check_reachable(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
                with few_attempts(os.environ):
                    self._init(address)
        except BaseException as error:
            self.close(1.0)
            if self._joined and isinstance(error, ConnectionError | RuntimeError):
                raise ValueError(
                    f"address = {address!r}: no Ray answers there ({error}); run inside a Ray job (nas submit), "
                    'or use address = "local"'
                ) from error
            raise

    def _init(self, address: str, **options: Any) -> None:
        import ray

        with kept_signal_handlers():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)

    def close(self, seconds: float) -> None:
        """Leave Ray; end the processes of a Ray that we started and delete its folder."""
        import ray

        self.open = False
        if self._folder is None:
            if self._joined:
                ray.shutdown()
            return
        deadline = monotonic() + seconds
        processes = Processes(self._folder.path)
        processes.alive()  # remembers them, to know them when their parents are gone
        impatient = Timer(seconds * _CLOSE_SHARE, processes.end, (0.0,))
        impatient.daemon = True
        impatient.start()
        with kept_signal_handlers():
            ray.shutdown()
        impatient.cancel()
        processes.end(max(0.0, deadline - monotonic() - (1 - _CLOSE_SHARE)))
        self._folder.remove()
        if self._reaper is not None:
            self._reaper.dismiss()


class _NodeWatch:
    """Looks at Ray's nodes once a second, in a thread, and tells what it sees."""

    def __init__(self, tell: Callable[[NodeView], None]) -> None:
        self._tell, self._ended = tell, Event()
        self._thread = Thread(target=self._run, name="node watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_NODE_SECONDS):
            with suppress(Exception):  # the head may be slow to answer; the next look is soon
                self._tell(_view())

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(timeout=1.0)


class _ActorRanks:
    """The actors of one gang: one alone, or several in one placement group, each on its machine."""

    def __init__(
        self,
        rank_class: Any,
        machines: Sequence[Machine],
        starts: Sequence[Mapping[str, Any]],
        deliver: Callable[[int, str, Any], None],
    ) -> None:
        self._starts, self._deliver = starts, deliver
        self._group = _placement_group(machines) if len(machines) > 1 else None
        self._actors = [
            rank_class.options(
                num_cpus=_bundle(machine).get("CPU", 0),
                num_gpus=_bundle(machine).get("GPU", 0),
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=_placed(machine, self._group, rank),
            ).remote()
            for rank, machine in enumerate(machines)
        ]

    def call(self, rank: int, method: str, *arguments: object) -> None:
        """Call a method on a rank; its answer comes to the executor's inbox."""
        if method == "start":
            arguments = (self._starts[rank],)
        reference = getattr(self._actors[rank], method).remote(*arguments)
        if method != "halt":
            reference.future().add_done_callback(partial(self._deliver, rank, method))

    def kill(self) -> None:
        """End all processes at once."""
        import ray

        for actor in self._actors:
            ray.kill(actor)
        if self._group is not None:
            ray.util.remove_placement_group(self._group)
        self._actors, self._group = [], None


def _actor_class() -> Any:
    """Return the actor class of a rank; calls of its control group run beside the leg."""
    import ray

    made = rank_class(ray.method(concurrency_group="control"))
    return ray.remote(concurrency_groups={"control": 4})(made)


def _bundle(machine: Machine) -> dict[str, float]:
    """What one rank asks of its machine: a core, or a GPU and a core."""
    return {"GPU": 1, "CPU": 1} if machine.accelerated else {"CPU": 1}


def _placement_group(machines: Sequence[Machine]) -> Any:
    import ray

    return ray.util.placement_group(
        [_bundle(machine) for machine in machines],
        strategy="PACK",
        bundle_label_selector=[{"ray.io/node-id": machine.id} for machine in machines],
    )


def _placed(machine: Machine, group: Any, rank: int) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

    if group is None:
        return NodeAffinitySchedulingStrategy(machine.id, soft=False)
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)


def _deliver(inbox: "SimpleQueue[Answer | NodeView]", gang: int, rank: int, method: str, future: Any) -> None:
    """Put the answer of a call into the inbox; called by Ray, in a thread of its own."""
    error = future.exception()
    if error is None:
        inbox.put(Answer(gang, rank, method, future.result()))
    else:
        inbox.put(Answer(gang, rank, method, failure=fault(error)))


def fault(error: BaseException) -> Failure:
    """Sort what Ray says of a call that did not return."""
    from ray import exceptions

    text = str(error).strip()[:_TEXT_CHARACTERS]
    if isinstance(error, exceptions.OutOfMemoryError):
        return Failure(FailureKind.OUT_OF_MEMORY, text, error=type(error).__name__)
    if isinstance(error, exceptions.RayActorError) and error.preempted:
        return Failure(FailureKind.PREEMPTED, text)
    unreachable = exceptions.NodeDiedError | exceptions.ActorUnschedulableError | exceptions.ActorUnavailableError
    if isinstance(error, unreachable) or "node has died" in text:
        return Failure(FailureKind.NODE_LOST, text)
    if isinstance(error, exceptions.RayActorError | exceptions.WorkerCrashedError):
        detail = _EXIT_DETAIL.search(text)
        return Failure(
            FailureKind.CRASHED, f"the worker process died: {detail[1] if detail else text}", error="WorkerDied"
        )
    return Failure.of(error, "start")


def _by_value(recipe: Recipe) -> bytes:
    """Pickle ``recipe``; code of ``__main__`` and of notebooks goes with it."""
    from ray import cloudpickle

    try:
        return bytes(cloudpickle.dumps(recipe))
    except Exception as error:
        raise ValueError(
            f"space, task or trainer cannot be sent to a worker ({type(error).__name__}: {error}); "
            "name it as module:name, or keep open files, locks and connections out of it"
        ) from error


def _view() -> NodeView:
    import ray

    return NodeView(ray.nodes(), dict(ray._private.state.state.get_draining_nodes()))

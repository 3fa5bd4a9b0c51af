"""The scheduler: events in, commands out. It knows time from the events alone, and no executor.

First fit: legs that go on before new ones, each group in its order; a leg takes the first node that holds it whole,
else the first nodes of one kind that hold it together. A leg that does not fit now waits; narrower ones behind it go.
A leg whose plan was chosen from priced options is not spread over nodes that hold it in parts, since it was priced for
one: it takes the fastest of its options (fewest devices first) that a node has room for.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from cluster.placement import first_fit
from cluster.protocol import (
    Command,
    Ended,
    Event,
    Failed,
    Finished,
    Halt,
    Halting,
    Launch,
    Leg,
    LegId,
    NodeDraining,
    NodeGone,
    NodeJoined,
    Progress,
    Ready,
    Reported,
    Submitted,
    Want,
)
from cluster.resources import Allocation, ClusterSpec, Node
from trainers import Plan


class Scheduler:
    """Decides which legs run where.

    ``max_concurrent`` limits running legs, ``max_devices`` the devices held by all of them; ``width`` is how many
    devices the legs are expected to take that `Want` asks for. Deterministic: equal events give equal commands.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        max_concurrent: int | None = None,
        max_devices: int | None = None,
        width: int = 1,
    ) -> None:
        self._max_concurrent = max_concurrent
        self._max_devices = max_devices
        self._width = width
        self._nodes: dict[str, Node] = {node.name: node for node in cluster}
        self._free: dict[str, int] = {node.name: node.devices for node in cluster}
        self._draining: set[str] = set()
        self._waiting: tuple[deque[Leg], deque[Leg]] = (deque(), deque())
        self._running: dict[LegId, Allocation] = {}
        self._held = 0
        self._ended = False

    def handle(self, event: Event) -> list[Command]:
        """Take an event; return what is to be done now."""
        match event:
            case Finished() | Failed():
                self._release(event.id)
            case Submitted():
                if not self._ended:
                    self._waiting[0 if event.leg.promoted else 1].append(event.leg)
            case NodeJoined():
                self._join(event.node)
            case NodeDraining():
                self._draining.add(event.node)
                there = [id for id, held in self._running.items() if any(node == event.node for node, _ in held.parts)]
                return [*(Halt(id, Halting.PAUSE) for id in there), *self._launches(event.at)]
            case NodeGone():
                self._lose(event.node)
            case Ended():
                self._ended = True
                for queue in self._waiting:
                    queue.clear()
                return [Halt(id, event.how) for id in self._running]
            case Progress() | Reported():
                return []
            case Ready():
                pass
        return self._launches(event.at)

    @property
    def busy(self) -> bool:
        """Whether a leg runs or waits for devices."""
        return bool(self._running) or any(self._waiting)

    @property
    def widest(self) -> int:
        """The most devices that one leg could be given, were nothing else running."""
        devices = max(self._by_kind(self._total()).values(), default=0)
        return devices if self._max_devices is None else min(devices, self._max_devices)

    @property
    def waiting(self) -> list[Leg]:
        """Legs that wait for devices, in the order in which they will be tried."""
        return [*self._waiting[0], *self._waiting[1]]

    def _launches(self, at: float) -> list[Command]:
        commands: list[Command] = [*self._place(at)]
        if not self._ended and not any(self._waiting):
            legs = self._room()
            if self._max_concurrent is not None:
                legs = min(legs, self._max_concurrent - len(self._running))
            if legs > 0:
                commands.append(Want(legs))
        return commands

    def _place(self, at: float) -> Iterator[Launch]:
        for queue in self._waiting:
            for _ in range(len(queue)):
                leg = queue.popleft()
                plan, allocation = self._choose(leg)
                if allocation is None:
                    queue.append(leg)  # a full turn of the queue keeps its order
                    continue
                self._hold(leg.id, allocation)
                yield Launch(at, (leg,), plan, allocation, leg.time_limit)

    def _choose(self, leg: Leg) -> tuple[Plan, Allocation | None]:
        """The leg's plan and devices; of priced options the widest with room, in one node where one could hold it."""
        if not leg.options:
            return leg.plan, self._fit(leg.plan.width)
        largest = max((node.devices for node in self._nodes.values()), default=0)
        for option in reversed(leg.options):
            allocation = self._fit(option.devices)
            if allocation is not None and (len(allocation.parts) == 1 or option.devices > largest):
                return option.plan, allocation
        return leg.plan, None

    def _room(self) -> int:
        """How many legs of the expected width fit now; a leg's devices are of one kind."""
        legs = sum(free // self._width for free in self._by_kind(self._free).values())
        return legs if self._max_devices is None else min(legs, (self._max_devices - self._held) // self._width)

    def _total(self) -> dict[str, int]:
        return {name: node.devices for name, node in self._nodes.items()}

    def _by_kind(self, devices: Mapping[str, int]) -> dict[str, int]:
        """Sum ``devices`` of nodes by their kind, those of draining nodes left out."""
        kinds: dict[str, int] = {}
        for name, count in devices.items():
            if name not in self._draining:
                kind = self._nodes[name].kind
                kinds[kind] = kinds.get(kind, 0) + count
        return kinds

    def _fit(self, width: int) -> Allocation | None:
        if self._max_concurrent is not None and len(self._running) >= self._max_concurrent:
            return None
        if self._max_devices is not None and self._held + width > self._max_devices:
            return None
        usable = ((self._nodes[name], free) for name, free in self._free.items() if name not in self._draining)
        return first_fit(width, usable)

    def _hold(self, id: LegId, allocation: Allocation) -> None:
        self._running[id] = allocation
        self._held += allocation.devices
        for node, count in allocation.parts:
            self._free[node] -= count

    def _release(self, id: LegId) -> None:
        allocation = self._running.pop(id)
        self._held -= allocation.devices
        for node, count in allocation.parts:
            self._free[node] += count

    def _lose(self, name: str) -> None:
        """Forget a node, and what legs hold there: one of the same name that joins later is another."""
        self._nodes.pop(name, None)
        self._free.pop(name, None)
        self._draining.discard(name)
        for id, allocation in self._running.items():
            kept = tuple(part for part in allocation.parts if part[0] != name)
            self._held -= allocation.devices - sum(count for _, count in kept)
            self._running[id] = Allocation(kept)

    def _join(self, node: Node) -> None:
        if node.name not in self._nodes:
            self._nodes[node.name] = node
            self._free[node.name] = node.devices
        self._draining.discard(node.name)

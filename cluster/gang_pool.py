"""All gangs of an executor: which one takes a launch, and when one makes place for another."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Protocol

from cluster.gang import Answer, Gang, Ranks
from cluster.patience import Keep, Patience
from cluster.protocol import ExecutorEvent, Failed, Halt, Launch
from cluster.resources import Allocation, Node
from trainers import Failure, FailureKind

_RELEASE_SECONDS = 0.2
"""After a gang was ended its devices take a moment to be free for a placement group. One that finds them taken is
only tried again a second later."""


class Machines(Protocol):
    """Where gangs are made."""

    def nodes(self) -> Sequence[Node]:
        """The nodes that are there now."""
        ...

    def gang(self, number: int, allocation: Allocation) -> Ranks:
        """Ask for the processes of a gang; never blocks."""
        ...


class GangPool:
    """Keeps gangs warm, and gives each launch one of its allocation's shape.

    A launch takes an idle gang on the same devices, its trial's own first; else a new gang is made. Idle gangs that
    hold the devices it needs are ended for it, the longest idle first.
    """

    def __init__(
        self, machines: Machines, patience: Patience, keep: Keep, emit: Callable[[ExecutorEvent], None]
    ) -> None:
        self._machines, self._patience, self._keep, self._emit = machines, patience, keep, emit
        self._gangs: dict[int, Gang] = {}
        self._waiting: list[tuple[float, Launch]] = []
        self._made = 0

    def launch(self, launch: Launch, at: float) -> None:
        """Run the legs of ``launch``; what cannot be is told by a Failed for each leg."""
        refusal = self._refusal(launch)
        if refusal is not None:
            self._refuse(launch, refusal, at)
            return
        gang = self._idle(launch)
        if gang is not None:
            gang.begin(launch, at)
            return
        ended = self._make_place(launch.allocation)
        if ended and launch.allocation.devices > 1:
            self._waiting.append((at + _RELEASE_SECONDS, launch))
        else:
            self._make(launch, at)

    def halt(self, halt: Halt, at: float) -> None:
        """Halt a leg wherever it is; does nothing where it has ended."""
        for gang in self._gangs.values():
            if gang.holds(halt.id):
                gang.halt(halt.id, halt.how, at)
                return
        for item in self._waiting:
            if any(leg.id == halt.id for leg in item[1].legs):
                self._waiting.remove(item)
                self._refuse(item[1], Failure(FailureKind.CANCELLED, "halted before it began", "start"), at)
                return

    def answered(self, answer: Answer, at: float) -> None:
        """Take a rank's answer; one of a gang that was ended is late and dropped."""
        gang = self._gangs.get(answer.gang)
        if gang is not None:
            gang.answered(answer, at)
            self._retire(gang)

    def node_of(self, answer: Answer) -> str | None:
        """Return the node of the rank that answers, None where its gang is no more."""
        gang = self._gangs.get(answer.gang)
        ranks = [name for name, count in gang.allocation.parts for _ in range(count)] if gang else []
        return ranks[answer.rank] if ranks else None

    def tick(self, at: float) -> None:
        """Do what is due."""
        for gang in [gang for gang in self._gangs.values() if gang.next_tick <= at]:
            gang.tick(at)
            self._retire(gang)
        due = [launch for moment, launch in self._waiting if moment <= at]
        self._waiting = [item for item in self._waiting if item[0] > at]
        for launch in due:
            self._make(launch, at)

    @property
    def next_tick(self) -> float:
        """When `tick` has something to do."""
        moments = [gang.next_tick for gang in self._gangs.values()]
        return min([*moments, *(moment for moment, _ in self._waiting)], default=inf)

    def node_gone(self, name: str, failure: Failure, at: float) -> None:
        """Fail with ``failure`` what ran on a node that is gone."""
        for gang in [gang for gang in self._gangs.values() if name in dict(gang.allocation.parts)]:
            del self._gangs[gang.number]
            gang.lose(failure, at)

    def close(self) -> None:
        """End all gangs; nothing is told of their legs any more."""
        gangs = list(self._gangs.values())
        self._gangs.clear()
        self._waiting.clear()
        for gang in gangs:
            gang.kill()

    def _idle(self, launch: Launch) -> Gang | None:
        """Return an idle gang on the same devices: the trial's own, else the longest idle."""
        wanted = {leg.id.trial for leg in launch.legs}
        same = [gang for gang in self._spare() if gang.ready and gang.allocation == launch.allocation]
        return min(same, key=lambda gang: (gang.trial not in wanted, gang.idle_since), default=None)

    def _spare(self) -> Iterable[Gang]:
        return (gang for gang in self._gangs.values() if gang.spare)

    def _make(self, launch: Launch, at: float) -> None:
        self._made += 1
        ranks = self._machines.gang(self._made, launch.allocation)
        gang = Gang(self._made, launch.allocation, ranks, at, self._patience, self._emit)
        self._gangs[gang.number] = gang
        gang.begin(launch, at)

    def _make_place(self, allocation: Allocation) -> bool:
        """End idle gangs until ``allocation`` is free; return whether any was."""
        ended = False
        for name, count in allocation.parts:
            while self._free(name) < count:
                holders = [gang for gang in self._spare() if name in dict(gang.allocation.parts)]
                oldest = min(holders, key=lambda gang: gang.idle_since)
                del self._gangs[oldest.number]
                oldest.kill()
                ended = True
        return ended

    def _free(self, name: str) -> int:
        held = self._held(self._gangs.values())
        return next(node.devices for node in self._machines.nodes() if node.name == name) - held[name]

    def _held(self, gangs: Iterable[Gang]) -> Counter[str]:
        held: Counter[str] = Counter()
        for gang in gangs:
            held.update(dict(gang.allocation.parts))
        for _, launch in self._waiting:
            held.update(dict(launch.allocation.parts))
        return held

    def _refusal(self, launch: Launch) -> Failure | None:
        """Why ``launch`` can never run as it is asked, or None."""
        devices = {node.name: node.devices for node in self._machines.nodes()}
        busy = self._held(gang for gang in self._gangs.values() if not gang.spare)
        if launch.plan.width != launch.allocation.devices:
            text = f"plan {launch.plan} takes {launch.plan.width} devices, the allocation is {launch.allocation}"
            return Failure(FailureKind.ERROR, text, "start", "AllocationError")
        for name, count in launch.allocation.parts:
            if name not in devices:
                return Failure(FailureKind.NODE_LOST, f"node {name} is not in the cluster", "start")
            if count > devices[name]:
                text = f"{count} devices asked on node {name}, which has {devices[name]} in all"
                return Failure(FailureKind.ERROR, text, "start", "AllocationError")
            if count + busy[name] > devices[name]:
                text = f"{count} devices asked on node {name}: {busy[name]} of its {devices[name]} are in use"
                return Failure(FailureKind.ERROR, text, "start", "AllocationError")
        return None

    def _refuse(self, launch: Launch, failure: Failure, at: float) -> None:
        for leg in launch.legs:
            self._emit(Failed(at, leg.id, failure, 0.0))

    def _retire(self, gang: Gang) -> None:
        """Let a gang go that is broken or worn, once nothing runs on it."""
        if gang.spare and gang.worn(self._keep) and self._gangs.pop(gang.number, None) is not None:
            gang.kill()

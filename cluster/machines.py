"""The cluster's machines, from what Ray tells of its nodes: names, devices, and their coming and going."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from cluster.protocol import NodeDraining, NodeGone, NodeJoined
from cluster.resources import Node

NodeEvent = NodeJoined | NodeDraining | NodeGone
_ACCELERATOR = "accelerator_type:"


@dataclass(frozen=True, slots=True)
class NodeView:
    """Ray's nodes at one moment; ``draining`` maps a node's id to its deadline, in Unix milliseconds (0: none)."""

    table: Sequence[Mapping[str, Any]]
    draining: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node with what is needed to reach it; ``threads`` are CPU threads for each device."""

    id: str
    address: str
    threads: int
    node: Node

    @property
    def accelerated(self) -> bool:
        """Whether its devices are GPUs."""
        return self.node.kind != "cpu"


class Machines:
    """The table of machines, brought up to date from views of Ray's nodes.

    ``device`` is "cpu" (a device is a core), "cuda" (a GPU), or "auto": GPUs where the first view has any. No more
    than ``max_devices`` are used in all. Raises ValueError where the first view has no such device.
    """

    def __init__(self, device: str, max_devices: int | None) -> None:
        if device not in ("auto", "cpu", "cuda"):
            raise ValueError(f'device = {device!r}: it is "auto", "cpu" or "cuda"')
        if max_devices is not None and max_devices < 1:
            raise ValueError(f"max_devices = {max_devices}: it is at least 1, or left out for all")
        self._device, self._limit = device, max_devices
        self._machines: dict[str, Machine] = {}
        self._leaving: set[str] = set()
        self._suspected: dict[str, float] = {}

    def update(self, view: NodeView, at: float, wall: float) -> list[NodeEvent]:
        """Take a view; return what changed. ``wall`` is the Unix time in seconds, for the deadlines of drains."""
        alive = {
            entry["NodeID"]: entry for entry in view.table if entry["Alive"] and self._trusted(entry["NodeID"], at)
        }
        if self._device == "auto":
            self._device = "cuda" if any(_gpus(entry) for entry in alive.values()) else "cpu"
        events: list[NodeEvent] = []
        for id in self._machines.keys() - alive.keys():
            events.append(NodeGone(at, self._machines.pop(id).node.name))
        for id, entry in alive.items():
            machine = None if id in self._machines else self._read(id, entry)
            if machine is not None:
                self._leaving.discard(machine.node.name)
                self._machines[id] = machine
                events.append(NodeJoined(at, machine.node))
        for id, deadline in view.draining.items():
            name = self._machines[id].node.name if id in self._machines else None
            if name is not None and name not in self._leaving:
                self._leaving.add(name)
                seconds = max(0.0, deadline / 1000 - wall) if deadline else inf
                events.append(NodeDraining(at, name, seconds))
        return events

    def suspect(self, name: str, until: float) -> None:
        """Take a node as gone until then: it does not answer, though Ray may need seconds to say that it died."""
        for id, machine in self._machines.items():
            if machine.node.name == name:
                self._suspected[id] = until

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes that are there now."""
        return tuple(machine.node for machine in self._machines.values())

    def named(self, name: str) -> Machine:
        """Return the machine of a node's name."""
        return next(machine for machine in self._machines.values() if machine.node.name == name)

    def announced(self, name: str) -> bool:
        """Whether a node of this name said that it would go."""
        return name in self._leaving

    def _trusted(self, id: str, at: float) -> bool:
        return self._suspected.get(id, at) <= at

    def _read(self, id: str, entry: Mapping[str, Any]) -> Machine | None:
        cpus = int(entry["Resources"].get("CPU", 0))
        devices = _gpus(entry) if self._device == "cuda" else cpus
        if self._limit is not None:
            devices = min(devices, self._limit - sum(node.devices for node in self.nodes))
        if devices < 1:
            return None
        kind = _accelerator(entry) if self._device == "cuda" else "cpu"
        threads = max(1, (cpus or os.cpu_count() or 1) // _gpus(entry)) if self._device == "cuda" else 1
        node = Node(self._name(id, entry), devices, kind)
        return Machine(id, entry["NodeManagerAddress"], threads, node)

    def _name(self, id: str, entry: Mapping[str, Any]) -> str:
        """Return the host's name; with part of the node's id where another node has that name."""
        host = str(entry["NodeManagerHostname"])
        taken = {node.name for node in self.nodes}
        return f"{host}-{id[:6]}" if host in taken else host


def _gpus(entry: Mapping[str, Any]) -> int:
    return int(entry["Resources"].get("GPU", 0))


def _accelerator(entry: Mapping[str, Any]) -> str:
    """Return the accelerator's name, e.g. "H100"."""
    label = entry.get("Labels", {}).get("ray.io/accelerator-type")
    listed = [name.removeprefix(_ACCELERATOR) for name in entry["Resources"] if name.startswith(_ACCELERATOR)]
    return str(label or next(iter(listed), "gpu"))

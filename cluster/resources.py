"""The machines as values: nodes with devices of one kind, and the part of them that a leg holds."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with ``devices`` equal devices of ``kind`` ("cpu": one core, else an accelerator's name)."""

    name: str
    devices: int
    kind: str = "cpu"


@dataclass(frozen=True, slots=True)
class Allocation:
    """Which devices a leg holds: ``parts`` of (node name, number of devices there)."""

    parts: tuple[tuple[str, int], ...]

    @property
    def devices(self) -> int:
        """Number of devices held."""
        return sum(count for _, count in self.parts)

    def __str__(self) -> str:
        return " + ".join(f"{count} on {node}" for node, count in self.parts)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """All nodes that an executor has."""

    nodes: tuple[Node, ...]

    @property
    def devices(self) -> int:
        """Number of devices in all."""
        return sum(node.devices for node in self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

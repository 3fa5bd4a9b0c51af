"""Where a leg goes: first fit over nodes, as a function of plain values."""

from collections.abc import Iterable

from cluster.resources import Allocation, Node


def first_fit(width: int, nodes: Iterable[tuple[Node, int]]) -> Allocation | None:
    """Devices for a leg of ``width`` among ``nodes`` with their free devices; None where they do not suffice.

    The first node that holds the leg whole; else the first nodes of one kind that together do.
    """
    by_kind: dict[str, list[tuple[str, int]]] = {}
    for node, free in nodes:
        if free >= width:
            return Allocation(((node.name, width),))
        if free > 0:
            by_kind.setdefault(node.kind, []).append((node.name, free))
    for parts in by_kind.values():
        if sum(free for _, free in parts) >= width:
            return Allocation(_gather(width, parts))
    return None


def _gather(width: int, parts: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    taken: list[tuple[str, int]] = []
    for node, free in parts:
        count = min(free, width)
        taken.append((node, count))
        width -= count
        if not width:
            break
    return tuple(taken)

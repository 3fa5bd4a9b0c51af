"""Where the modules of a traced step are drawn: a row for each level, forward downwards, backward upwards beside it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from search_spaces.module_groups import Group, in_order
from search_spaces.operator_graph import OperatorGraph, Phase

_MOST_GROUPS = 280
_WIDEST = 5


@dataclass(frozen=True, slots=True)
class Box:
    """A group of operators in a ``row`` and a ``lane`` of its pass."""

    group: Group
    row: int
    lane: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a box to one that reads its results, both by number; ``critical`` where the critical path goes along it."""

    source: int
    target: int
    critical: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes in the order in which their operators run, and arrows between them.

    Of arrows from the forward to the backward pass only that of the critical path is there. ``critical`` are the
    numbers of boxes that the path touches.
    """

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    critical: frozenset[int]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return max((box.row for box in self.boxes), default=-1) + 1

    def between(self, source: Box, target: Box) -> bool:
        """Whether a box of their pass lies in their lane between two boxes."""
        low, high = sorted((source.row, target.row))
        return any(
            low < box.row < high and box.lane == source.lane and box.group.phase is source.group.phase
            for box in self.boxes
        )

    def lanes(self, phase: Phase) -> int:
        """Number of lanes of a pass."""
        return max((box.lane for box in self.boxes if box.group.phase is phase), default=-1) + 1


def lay_out(graph: OperatorGraph, critical_path: Sequence[int]) -> Layout:
    """Place modules, as fine as fits, so that each lies below what it reads, and its gradient beside it."""
    groups = in_order(graph, lambda finer: _fits(graph, finer))
    inputs = _inputs(graph, groups)
    owner = _owners(groups)
    way = [owner[place] for place in critical_path]
    turns = {(source, target) for source, target in zip(way, way[1:], strict=False) if source != target}
    arrows = [
        Arrow(source, target, (source, target) in turns)
        for target, sources in enumerate(inputs)
        for source in sources
        if groups[source].phase is groups[target].phase or (source, target) in turns
    ]
    rows, critical = _rows(groups, inputs), frozenset(way)
    boxes = zip(groups, rows, _lanes(groups, rows, inputs, critical), strict=True)
    return Layout(tuple(Box(*box) for box in boxes), tuple(arrows), critical)


def _fits(graph: OperatorGraph, groups: Sequence[Group]) -> bool:
    if len(groups) > _MOST_GROUPS:
        return False
    levels = _levels(_inputs(graph, groups))
    return max(map(levels.count, levels), default=0) <= _WIDEST


def _owners(groups: Sequence[Group]) -> dict[int, int]:
    return {place: number for number, group in enumerate(groups) for place in group.places}


def _inputs(graph: OperatorGraph, groups: Sequence[Group]) -> list[list[int]]:
    """The other groups that each group reads."""
    owner = _owners(groups)
    return [
        sorted({owner[source] for place in group.places for source in graph.operators[place].inputs} - {number})
        for number, group in enumerate(groups)
    ]


def _levels(inputs: Sequence[Sequence[int]]) -> list[int]:
    levels: list[int] = []
    for sources in inputs:
        levels.append(1 + max((levels[source] for source in sources), default=-1))
    return levels


def _rows(groups: Sequence[Group], inputs: Sequence[Sequence[int]]) -> list[int]:
    """A forward group's level; a backward group is beside a forward group of its module, above what it reads.

    One that reads results of the forward pass alone, where gradients begin, is beside those.
    """
    levels = _levels(inputs)
    beside: dict[str, list[int]] = {}
    rows: list[int] = []
    for number, group in enumerate(groups):
        if group.phase is Phase.FORWARD:
            beside.setdefault(group.module, []).append(levels[number])
            rows.append(levels[number])
        else:
            read = [rows[source] for source in inputs[number] if groups[source].phase is group.phase]
            below = min(read, default=max((rows[source] + 1 for source in inputs[number]), default=max(levels) + 1))
            own = beside.get(group.module, []) if read or not inputs[number] else []
            rows.append(_beside(own, below))
    return rows


def _beside(own: Sequence[int], limit: int) -> int:
    """The lowest of a module's ``own`` rows above the ``limit``; without one, next to it."""
    above = [row for row in own if row < limit]
    return max(above) if above else min(own, default=max(limit - 1, 0))


def _lanes(
    groups: Sequence[Group], rows: Sequence[int], inputs: Sequence[Sequence[int]], critical: Collection[int]
) -> list[int]:
    """The critical path first: the lane of the forward group of the same module, else of an input, else the first;
    where it is taken the next that is free.
    """
    lanes: dict[int, int] = {}
    taken: set[tuple[Phase, int, int]] = set()
    beside: dict[tuple[str, int], int] = {}
    for number in sorted(range(len(groups)), key=lambda number: number not in critical):
        group, row = groups[number], rows[number]
        inner = [lanes[source] for source in inputs[number] if source in lanes and groups[source].phase is group.phase]
        wanted = [beside[group.module, row]] if (group.module, row) in beside else inner
        free = (lane for lane in [*wanted, *range(len(groups))] if (group.phase, row, lane) not in taken)
        lanes[number] = next(free)
        taken.add((group.phase, row, lanes[number]))
        if group.phase is Phase.FORWARD:
            beside[group.module, row] = lanes[number]
    return [lanes[number] for number in range(len(groups))]

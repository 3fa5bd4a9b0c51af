"""Work, depth and concurrency of an operator graph (Ben-Nun and Hoefler 2019, section 2.5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from search_spaces.operator_graph import Operator, OperatorGraph

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Concurrency(Generic[Number]):
    """Work W and depth D of a graph, in one unit: operations, or that of a weight such as seconds.

    ``critical_path`` are the places of the operators on a longest path, in order; ``levels`` the number of operators
    at each level, those that no operator comes before first: an operator's level is one above its inputs' highest.
    """

    work: Number
    depth: Number
    critical_path: tuple[int, ...]
    levels: tuple[int, ...]

    @property
    def parallelism(self) -> float:
        """``W / D``, which no speed-up exceeds; infinite where nothing is computed."""
        return self.work / self.depth if self.depth else inf


def work_depth(graph: OperatorGraph) -> Concurrency[int]:
    """Of the graph in unit operations: an operator starts when all its inputs are whole."""
    works = [operator.work for operator in graph.operators]
    depths = [operator.depth for operator in graph.operators]
    return _concurrency(graph, works, depths)


def weighted_work_depth(graph: OperatorGraph, weight: Callable[[Operator], float]) -> Concurrency[float]:
    """Of the graph with operators that are not divided, each of ``weight(operator)``, say its seconds."""
    weights = [float(weight(operator)) for operator in graph.operators]
    return _concurrency(graph, weights, weights)


def brent_bounds(work: Number, depth: Number, processors: int) -> tuple[Number, Number]:
    """Bounds of the time that any greedy schedule takes on ``processors`` p (Brent 1974, lemma 2; Graham 1969).

    ``max(W / p, D) <= T_p <= (W - D) / p + D``, in the unit of W and D; operations, integers, rounded to whole ones.
    Raises ValueError where p is below 1.
    """
    if processors < 1:
        raise ValueError(f"processors = {processors}: at least 1 computes")
    if isinstance(work, int) and isinstance(depth, int):
        return max(-(-work // processors), depth), (work - depth) // processors + depth
    return max(work / processors, depth), (work - depth) / processors + depth


def _concurrency(graph: OperatorGraph, works: Sequence[Number], depths: Sequence[Number]) -> Concurrency[Number]:
    finish: list[Number] = []
    level: list[int] = []
    for operator, depth in zip(graph.operators, depths, strict=True):
        start: Number = 0
        below = -1
        for place in operator.inputs:
            if finish[place] > start:
                start = finish[place]
            if level[place] > below:
                below = level[place]
        finish.append(start + depth)
        level.append(below + 1)
    levels = [0] * (max(level, default=-1) + 1)
    for number in level:
        levels[number] += 1
    return Concurrency(sum(works), max(finish, default=0), _path(graph, finish), tuple(levels))


def _path(graph: OperatorGraph, finish: Sequence[float]) -> tuple[int, ...]:
    """Back from the operator that ends last, each time to the input that ended last."""
    places: Sequence[int] = range(len(finish))
    path: list[int] = []
    while places:
        path.append(max(places, key=finish.__getitem__))
        places = graph.operators[path[-1]].inputs
    return tuple(reversed(path))

"""Operators of a graph gathered by the module that they run in, as finely as a reader can still take in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase


@dataclass(frozen=True, slots=True)
class Group:
    """Operators, by their places, of one pass and one module ("" for the network itself)."""

    module: str
    phase: Phase
    places: tuple[int, ...]


def module_of(operator: Operator, depth: int | None = None) -> str:
    """Path of the module that an operator runs in; with ``depth``, of the one around it that lies so deep."""
    path = operator.name.rpartition(".")[0]
    return path if depth is None else ".".join(path.split(".")[:depth])


def by_module(graph: OperatorGraph, most: int) -> list[Group]:
    """One group for each module and pass, in order of their first operators: the deepest modules that make at most
    ``most`` groups, the outermost where all make more.
    """
    return _finest(graph, _of_modules, lambda groups: len(groups) <= most)


def in_order(graph: OperatorGraph, fits: Callable[[Sequence[Group]], bool]) -> list[Group]:
    """Neighbouring operators of one module: groups that follow each other as operators do, so that they make no cycle.

    Of the deepest modules whose groups ``fits`` accepts, else of the outermost.
    """
    return _finest(graph, _of_neighbours, fits)


def longest_chain(graph: OperatorGraph, places: Sequence[int]) -> int:
    """Depth of some operators among themselves, in unit operations."""
    finish: dict[int, int] = {}
    for place in places:
        operator = graph.operators[place]
        finish[place] = operator.depth + max((finish.get(source, 0) for source in operator.inputs), default=0)
    return max(finish.values(), default=0)


def main_kind(graph: OperatorGraph, places: Sequence[int]) -> Kind:
    """The class of operators that does most of the work; of equals the first."""
    work: dict[Kind, int] = {}
    for place in places:
        operator = graph.operators[place]
        work[operator.kind] = work.get(operator.kind, 0) + operator.work
    return max(work, key=work.__getitem__)


def _finest(
    graph: OperatorGraph,
    gather: Callable[[OperatorGraph, int], list[Group]],
    fits: Callable[[Sequence[Group]], bool],
) -> list[Group]:
    deepest = max((operator.name.count(".") for operator in graph.operators), default=1)
    for depth in range(deepest, 1, -1):
        groups = gather(graph, depth)
        if fits(groups):
            return groups
    return gather(graph, 1)


def _of_modules(graph: OperatorGraph, depth: int) -> list[Group]:
    places: dict[tuple[str, Phase], list[int]] = {}
    for place, operator in enumerate(graph.operators):
        places.setdefault((module_of(operator, depth), operator.phase), []).append(place)
    return [Group(module, phase, tuple(own)) for (module, phase), own in places.items()]


def _of_neighbours(graph: OperatorGraph, depth: int) -> list[Group]:
    def key(place: int) -> tuple[str, Phase]:
        operator = graph.operators[place]
        return module_of(operator, depth), operator.phase

    return [Group(*own, tuple(places)) for own, places in groupby(range(len(graph.operators)), key)]

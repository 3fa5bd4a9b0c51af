"""Fully connected layers of a graph as the tensor axis divides them, and what it then exchanges (MODELS.md 3).

Columns then rows (Shoeybi et al. 2019): layers whose results only reach another one through operators that work on
columns or attention heads alone are split by columns, the other by rows; the pair all-reduces its result in the forward
and the gradient of its input in the backward pass. A layer alone is split by columns: it gathers its result.
"""

from dataclasses import dataclass

from search_spaces.operator_graph import Kind, OperatorGraph, Phase

_BY_COLUMNS = (Kind.ELEMENTWISE, Kind.ATTENTION, Kind.COPY)


@dataclass(frozen=True, slots=True)
class DividedLayers:
    """Layers, by the places of their forward operators, that are split ``by_columns`` and then, in a pair, ``by_rows``.

    ``by_rows`` is None for a layer alone.
    """

    by_columns: tuple[int, ...]
    by_rows: int | None


def divided_layers(graph: OperatorGraph) -> list[DividedLayers]:
    """All fully connected layers, as pairs where they are some."""
    layers = [place for place in range(len(graph.operators)) if _is_layer(graph, place)]
    readers = _forward_readers(graph)
    taken: set[int] = set()
    divided = []
    for place in layers:
        first = _before(graph, place, readers)
        if place not in taken and first and not taken.intersection(first):
            divided.append(DividedLayers(tuple(sorted(first)), place))
            taken |= {place, *first}
    divided += [DividedLayers((place,), None) for place in layers if place not in taken]
    return sorted(divided, key=lambda layers: layers.by_columns)


def sent_elements(graph: OperatorGraph, layers: DividedLayers, ranks: int, element_bytes: float = 4.0) -> float:
    """Elements that a process sends in a step; nothing for gradients of what no operator computes."""
    share = (ranks - 1) / ranks
    last = layers.by_columns[0] if layers.by_rows is None else layers.by_rows
    result = graph.operators[last].written_bytes / element_bytes
    inputs = {graph.operators[place].inputs: place for place in layers.by_columns}
    gradients = sum(_input_elements(graph, place, element_bytes) for sources, place in inputs.items() if sources)
    return share * ((1 if layers.by_rows is None else 2) * result + 2 * gradients)


def _is_layer(graph: OperatorGraph, place: int) -> bool:
    operator = graph.operators[place]
    return operator.phase is Phase.FORWARD and operator.kind is Kind.MATMUL and operator.parameters > 0


def _input_elements(graph: OperatorGraph, place: int, element_bytes: float) -> float:
    operator = graph.operators[place]
    return operator.read_bytes / element_bytes - operator.parameters


def _forward_readers(graph: OperatorGraph) -> dict[int, set[int]]:
    """The forward operators that read each operator's result."""
    readers: dict[int, set[int]] = {}
    for place, operator in enumerate(graph.operators):
        if operator.phase is Phase.FORWARD:
            for source in operator.inputs:
                readers.setdefault(source, set()).add(place)
    return readers


def _before(graph: OperatorGraph, place: int, readers: dict[int, set[int]]) -> set[int]:
    """The layers that alone feed the one at ``place``; empty where others do, or others read them."""
    way = _behind(graph, place)
    layers = {source for source in way if _is_layer(graph, source)}
    divided = all(source in layers or graph.operators[source].kind in _BY_COLUMNS for source in way)
    return layers if divided and all(readers[source] <= way | {place} for source in way) else set()


def _behind(graph: OperatorGraph, place: int) -> set[int]:
    """Operators that the one at ``place`` rests on, no further than to layers."""
    found: set[int] = set()
    waiting = list(graph.operators[place].inputs)
    while waiting:
        source = waiting.pop()
        if source not in found:
            found.add(source)
            if not _is_layer(graph, source):
                waiting += graph.operators[source].inputs
    return found

"""Fully connected layers of a graph as the tensor axis divides them, and what it then exchanges (MODELS.md 3).

Columns then rows (Shoeybi et al. 2019): layers whose results only reach another one through operators that work on
columns or attention heads alone are split by columns, the other by rows; the pair all-reduces its result in the forward
and the gradient of its input in the backward pass. A layer alone is split by columns: it gathers its result. Processes
are no more than columns and heads; a graph does not tell the number of heads.
"""

from collections.abc import Collection
from dataclasses import dataclass

from search_spaces.module_groups import module_of
from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase

_POINTWISE = (Kind.ELEMENTWISE, Kind.COPY)
_BY_COLUMNS = (*_POINTWISE, Kind.ATTENTION)


@dataclass(frozen=True, slots=True)
class DividedLayers:
    """Layers, by the places of their forward operators, that are split ``by_columns`` and then, in a pair, ``by_rows``.

    ``by_rows`` is None for a layer alone. ``learning`` is one of those by columns for each of their inputs that gets a
    gradient.
    """

    by_columns: tuple[int, ...]
    by_rows: int | None
    learning: tuple[int, ...]


def divided_layers(graph: OperatorGraph) -> list[DividedLayers]:
    """All fully connected layers, as pairs where they are some."""
    layers = [place for place in range(len(graph.operators)) if _is_layer(graph, place)]
    readers = _forward_readers(graph)
    taken: set[int] = set()
    divided: list[tuple[tuple[int, ...], int | None]] = []
    for place in layers:
        first = _before(graph, place, readers)
        if place not in taken and first and not taken.intersection(first):
            divided.append((tuple(sorted(first)), place))
            taken |= {place, *first}
    divided += [((place,), None) for place in layers if place not in taken]
    learning = _learning(graph)
    return [
        DividedLayers(by_columns, by_rows, _one_an_input(graph, by_columns, learning))
        for by_columns, by_rows in sorted(divided, key=lambda layers: layers[0])
    ]


def sent_elements(graph: OperatorGraph, layers: DividedLayers, ranks: int, element_bytes: float = 4.0) -> float:
    """Elements that a process sends in a step; nothing for gradients that no operator computes."""
    share = (ranks - 1) / ranks
    last = layers.by_columns[0] if layers.by_rows is None else layers.by_rows
    result = graph.operators[last].written_bytes / element_bytes
    gradients = sum(_input_elements(graph.operators[place], element_bytes) for place in layers.learning)
    return share * ((1 if layers.by_rows is None else 2) * result + 2 * gradients)


def _is_layer(graph: OperatorGraph, place: int) -> bool:
    operator = graph.operators[place]
    return operator.phase is Phase.FORWARD and operator.kind is Kind.MATMUL and operator.parameters > 0


def _input_elements(operator: Operator, element_bytes: float) -> float:
    return operator.read_bytes / element_bytes - operator.parameters


def _one_an_input(graph: OperatorGraph, layers: tuple[int, ...], learning: set[int]) -> tuple[int, ...]:
    inputs = {graph.operators[place].inputs: place for place in layers}
    return tuple(place for sources, place in inputs.items() if not learning.isdisjoint(sources))


def _learning(graph: OperatorGraph) -> set[int]:
    """The forward operators whose results get a gradient: those that read trained weights, and all behind them."""
    if graph.weights:
        learning = {place for weight in graph.weights if weight.trained for place in weight.readers}
    else:
        learning = {place for place, operator in enumerate(graph.operators) if operator.parameters}
    for place, operator in enumerate(graph.operators):
        if operator.phase is Phase.FORWARD and not learning.isdisjoint(operator.inputs):
            learning.add(place)
    return learning


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
    divided = way - layers <= _by_columns(graph, way)
    alone = all(readers[source] <= way | {place} for source in way)
    return layers if divided and alone and _same_columns(graph, layers, place) else set()


def _behind(graph: OperatorGraph, place: int, through: Collection[Kind] = tuple(Kind)) -> set[int]:
    """Operators that the one at ``place`` rests on, no further than to layers and to the first not of ``through``."""
    found: set[int] = set()
    waiting = list(graph.operators[place].inputs)
    while waiting:
        source = waiting.pop()
        if source not in found:
            found.add(source)
            if not _is_layer(graph, source) and graph.operators[source].kind in through:
                waiting += graph.operators[source].inputs
    return found


def _by_columns(graph: OperatorGraph, way: set[int]) -> set[int]:
    """Those on a ``way`` that work on columns or heads alone.

    Attention that is not fused, say for its dropout, is a product, a softmax of it and another product (Vaswani et al.
    2017, eq. 1).
    """
    ahead = {place: _of_other_kinds(graph, place) for place in way if _is_product(graph, place)}
    softmaxes = {place for place in way if graph.operators[place].kind is Kind.SOFTMAX}
    scores = {place: _of_other_kinds(graph, place) for place in softmaxes}
    attending = {place for place, sources in scores.items() if sources and sources <= ahead.keys()}
    products = {source for place in attending for source in scores[place]}
    products |= {place for place, sources in ahead.items() if not attending.isdisjoint(sources)}
    return attending | products | {place for place in way if graph.operators[place].kind in _BY_COLUMNS}


def _is_product(graph: OperatorGraph, place: int) -> bool:
    return graph.operators[place].kind is Kind.MATMUL and not _is_layer(graph, place)


def _of_other_kinds(graph: OperatorGraph, place: int) -> set[int]:
    """The last operators before the one at ``place`` that do more than to change or copy each number."""
    found = _behind(graph, place, _POINTWISE)
    return {source for source in found if graph.operators[source].kind not in _POINTWISE}


def _same_columns(graph: OperatorGraph, layers: set[int], place: int) -> bool:
    """Whether the layer at ``place`` sums over columns of ``layers``, and not over what was one of their other dims.

    It has as many rows as one of them, or one a sample.
    """
    rows = {_rows(graph, layer) for layer in layers} | {graph.batch}
    return _rows(graph, place) in rows and not _turned(graph, place)


def _rows(graph: OperatorGraph, place: int) -> float:
    """Of the matrix that a layer is given: its FLOPs are two for each row and element of the largest weight."""
    weights = [weight.elements for weight in graph.weights if place in weight.readers]
    return graph.operators[place].flops / (2 * max(weights, default=graph.operators[place].parameters))


def _turned(graph: OperatorGraph, place: int) -> bool:
    """Whether a layer first copies its input, for its last dim is not the innermost; its bias is then added later."""
    layer = graph.operators[place]
    copied = [graph.operators[source] for source in layer.inputs if graph.operators[source].kind is Kind.COPY]
    return not layer.name.endswith("addmm") and any(module_of(copy) == module_of(layer) for copy in copied)

"""Operator graphs of eleven networks with measured times (Narayanan et al. 2019, PipeDream)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase

LINE = re.compile(
    r"(?P<node>node\d+) -- (?P<name>.*) -- forward_compute_time=(?P<forward>[\d.]+), "
    r"backward_compute_time=(?P<backward>[\d.]+), activation_size=(?P<activation>.+), parameter_size=(?P<size>[\d.]+)"
)
KINDS = {
    "Conv2d": Kind.CONVOLUTION,
    "Linear": Kind.MATMUL,
    "Classifier": Kind.MATMUL,
    "LSTM": Kind.MATMUL,
    "EmuBidirLSTM": Kind.MATMUL,
    "RecurrentAttention": Kind.ATTENTION,
    "BatchNorm2d": Kind.NORMALIZATION,
    "MaxPool2d": Kind.POOLING,
    "AvgPool2d": Kind.POOLING,
    "AdaptiveAvgPool2d": Kind.POOLING,
    "Embedding": Kind.EMBEDDING,
    "Concat": Kind.COPY,
}
WARM_UP = 3
"""First operators whose forward times hold the device's warm-up."""


@dataclass(frozen=True)
class Network:
    """A graph of forward operators, then of backward operators, and their measured seconds."""

    name: str
    graph: OperatorGraph
    seconds: tuple[float, ...]


def networks(folder: Path) -> tuple[Network, ...]:
    """All networks, by name."""
    paths = sorted(folder.glob("*.graph.txt"))
    if not paths:
        raise SystemExit(f"{folder}/*.graph.txt are missing; give --data DIR or set NAS_BENCHMARK_DATA")
    return tuple(network(path.name.removesuffix(".graph.txt"), path.read_text(encoding="utf-8")) for path in paths)


def network(name: str, text: str) -> Network:
    """Read one file's ``text``; the backward pass runs the forward graph's edges the other way.

    Inputs take no time, and the first operators no more forward than backward: the rest is the device's warm-up.
    """
    nodes = {found["node"]: found for line in text.splitlines() if (found := LINE.match(line))}
    edges = [line.strip().split(" -- ") for line in text.splitlines() if line.startswith("\t")]
    order = _depth_first(sorted(nodes, key=_number), edges)
    place, last = {node: number for number, node in enumerate(order)}, 2 * len(order) - 1
    before: dict[str, list[int]] = {node: [] for node in order}
    after: dict[str, list[int]] = {node: [place[node]] for node in order}
    for source, target in edges:
        before[target].append(place[source])
        after[source].append(last - place[target])
    operators = [_operator(nodes[node], Phase.FORWARD, before[node]) for node in order]
    operators += [_operator(nodes[node], Phase.BACKWARD, after[node]) for node in reversed(order)]
    backward = [float(nodes[node]["backward"]) / 1e3 for node in order]
    forward = _without_warm_up([nodes[node] for node in order], backward)
    graph = OperatorGraph(tuple(operators), 1, sum(operator.parameters for operator in operators))
    return Network(name, graph, (*forward, *reversed(backward)))


def _depth_first(nodes: Sequence[str], edges: Sequence[Sequence[str]]) -> list[str]:
    """A topological order in which a branch is followed to where it joins others before the next one starts."""
    sources: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        sources[target].append(source)
    order: dict[str, None] = {}
    waiting = list(reversed(nodes))
    while waiting:
        missing = [source for source in sources[waiting[-1]] if source not in order]
        if missing:
            waiting.extend(reversed(missing))
        else:
            order.setdefault(waiting.pop())
    return list(order)


def _without_warm_up(found: Sequence[re.Match[str]], backward: Sequence[float]) -> list[float]:
    forward, seen = [], 0
    for node, own in zip(found, backward, strict=True):
        is_input = node["name"].startswith("Input")
        seen += not is_input
        measured = 0.0 if is_input else float(node["forward"]) / 1e3
        forward.append(min(measured, own) if seen <= WARM_UP else measured)
    return forward


def _number(node: str) -> int:
    return int(node.removeprefix("node"))


def _operator(found: re.Match[str], phase: Phase, inputs: Sequence[int]) -> Operator:
    activation = round(sum(float(size) for size in re.findall(r"[\d.]+", found["activation"])))
    kind = KINDS.get(re.split(r"\W", found["name"])[0], Kind.ELEMENTWISE)
    elements = round(float(found["size"]) / 4) if phase is Phase.FORWARD else 0
    saved = activation if phase is Phase.FORWARD else 0
    return Operator(found["node"], kind, phase, 0, 0, 0, 0, activation, elements, saved, tuple(sorted(inputs)))

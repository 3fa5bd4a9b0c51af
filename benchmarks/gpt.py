"""The operators of a GPT's training step, from its configuration (Radford et al. 2019), in mixed precision.

A product is one operator forward and two backward (by its input and by its weight). Element-wise kernels are those of
Megatron-LM (Shoeybi et al. 2019): fused scale, mask and softmax, dropout, fused bias and GeLU, fused bias, dropout and
residual. Section 3 there says what tensor parallelism divides, and what it all-reduces after which operator.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase
from trainers.parallelism.workload import Workload, columns

HALF, SINGLE = 2, 4
VOCABULARY = 50257


@dataclass(frozen=True)
class Gpt:
    """A GPT and its micro-batch."""

    samples: int
    hidden: int
    heads: int
    layers: int
    length: int
    vocabulary: int = VOCABULARY

    @property
    def tokens(self) -> int:
        """Of a micro-batch."""
        return self.samples * self.length


@dataclass(frozen=True)
class _Kernel:
    kind: Kind
    flops: int
    read: int
    written: int
    parameters: int = 0
    saved: int = 0
    reduced: int = 0


@dataclass(frozen=True)
class _Layer:
    """Kernels of one unit: the last one is what the next unit reads."""

    name: str
    forward: _Kernel
    backward: tuple[_Kernel, ...]
    divided: bool = True


def _product(name: str, rows: int, inner: int, outer: int, reduced: tuple[int, int] = (0, 0)) -> _Layer:
    """[rows, inner] times a weight [inner, outer]; ``reduced`` bytes after the forward product and after dX."""
    flops = 2 * rows * inner * outer
    x, w, y = HALF * rows * inner, HALF * inner * outer, HALF * rows * outer
    forward = _Kernel(Kind.MATMUL, flops, x + w, y, inner * outer, x, reduced[0])
    by_input = _Kernel(Kind.MATMUL, flops, y + w, x, reduced=reduced[1])
    return _Layer(name, forward, (by_input, _Kernel(Kind.MATMUL, flops, x + y, w)))


def _heads(name: str, pairs: int, rows: int, inner: int, outer: int) -> _Layer:
    """``pairs`` products [rows, inner] times [inner, outer] without weights."""
    flops = 2 * pairs * rows * inner * outer
    x, w, y = (HALF * pairs * size for size in (rows * inner, inner * outer, rows * outer))
    forward = _Kernel(Kind.ATTENTION, flops, x + w, y, saved=x + w)
    backward = (_Kernel(Kind.ATTENTION, flops, y + w, x), _Kernel(Kind.ATTENTION, flops, x + y, w))
    return _Layer(name, forward, backward)


def _pointwise(
    name: str, kind: Kind, values: int, reads: int, parameters: int = 0, divided: bool = True, element: int = HALF
) -> _Layer:
    """A kernel that reads ``reads`` tensors of as many ``values`` as it writes; backward it reads one more."""
    size = element * values
    forward = _Kernel(kind, 0, reads * size, size, parameters, size)
    return _Layer(name, forward, (_Kernel(kind, 0, (reads + 1) * size, size),), divided)


def _block(name: str, gpt: Gpt) -> Iterator[_Layer]:
    tokens, hidden, length = gpt.tokens, gpt.hidden, gpt.length
    exchanged, pairs = HALF * tokens * hidden, gpt.samples * gpt.heads
    scores, width = pairs * length * length, hidden // gpt.heads
    yield _pointwise(f"{name}.attention.norm", Kind.NORMALIZATION, tokens * hidden, 1, 2 * hidden, divided=False)
    yield _product(f"{name}.attention.qkv", tokens, hidden, 3 * hidden, (0, exchanged))
    yield _pointwise(f"{name}.attention.transpose", Kind.COPY, 3 * tokens * hidden, 1)
    yield _heads(f"{name}.attention.scores", pairs, length, width, length)
    yield _pointwise(f"{name}.attention.softmax", Kind.SOFTMAX, scores, 1)
    yield _pointwise(f"{name}.attention.dropout", Kind.ELEMENTWISE, scores, 1)
    yield _heads(f"{name}.attention.context", pairs, length, length, width)
    yield _pointwise(f"{name}.attention.transpose back", Kind.COPY, tokens * hidden, 1)
    yield _product(f"{name}.attention.projection", tokens, hidden, hidden, (exchanged, 0))
    yield _pointwise(f"{name}.attention.residual", Kind.ELEMENTWISE, tokens * hidden, 2, hidden, divided=False)
    yield _pointwise(f"{name}.mlp.norm", Kind.NORMALIZATION, tokens * hidden, 1, 2 * hidden, divided=False)
    yield _product(f"{name}.mlp.up", tokens, hidden, 4 * hidden, (0, exchanged))
    yield _pointwise(f"{name}.mlp.gelu", Kind.ELEMENTWISE, 4 * tokens * hidden, 1)
    yield _product(f"{name}.mlp.down", tokens, 4 * hidden, hidden, (exchanged, 0))
    yield _pointwise(f"{name}.mlp.residual", Kind.ELEMENTWISE, tokens * hidden, 2, hidden, divided=False)


def _layers(gpt: Gpt) -> Iterator[_Layer]:
    values = gpt.tokens * gpt.hidden
    weights = (gpt.vocabulary + gpt.length) * gpt.hidden
    looked_up = _Kernel(Kind.EMBEDDING, 0, HALF * values, HALF * values, weights, 0, HALF * values)
    yield _Layer("embedding", looked_up, (_Kernel(Kind.EMBEDDING, 0, HALF * values, HALF * values),))
    for number in range(gpt.layers):
        yield from _block(f"blocks.{number}", gpt)
    yield _pointwise("head.norm", Kind.NORMALIZATION, values, 1, 2 * gpt.hidden, divided=False)
    yield _product("head.logits", gpt.tokens, gpt.hidden, gpt.vocabulary, (0, HALF * values))
    yield _pointwise("head.loss", Kind.SOFTMAX, gpt.tokens * gpt.vocabulary, 3, element=SINGLE)


@lru_cache(maxsize=4096)
def workload(gpt: Gpt) -> Workload:
    """Operators of a micro-batch on an undivided machine; a unit is a layer's part between two borders."""
    layers = list(_layers(gpt))
    kernels = [(layer, layer.forward, Phase.FORWARD) for layer in layers]
    kernels += [(layer, kernel, Phase.BACKWARD) for layer in reversed(layers) for kernel in layer.backward]
    operators = tuple(
        Operator(
            layer.name,
            kernel.kind,
            phase,
            kernel.flops,
            kernel.flops,
            0,
            kernel.read,
            kernel.written,
            kernel.parameters,
            kernel.saved,
            (place - 1,) if place else (),
        )
        for place, (layer, kernel, phase) in enumerate(kernels)
    )
    parameters = sum(kernel.parameters for _, kernel, _ in kernels)
    return columns(
        OperatorGraph(operators, gpt.samples, parameters),
        divided=[place for place, (layer, _, _) in enumerate(kernels) if layer.divided],
        reduced_bytes={place: float(kernel.reduced) for place, (_, kernel, _) in enumerate(kernels) if kernel.reduced},
        unit=attrgetter("name"),
        element_bytes=HALF,
    )


PARTS_OF_A_BLOCK = 15


def equal_stages(layers: int, stages: int) -> tuple[int, ...]:
    """Units before which stages of as many blocks each start: Megatron-LM's rule; the first also embeds."""
    return tuple(1 + PARTS_OF_A_BLOCK * (layers * stage // stages) for stage in range(1, stages))

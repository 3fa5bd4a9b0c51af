"""What a network computes in one training step: its operators, which of them read whose results, what is kept when."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """The pass of a training step that an operator belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Kind(StrEnum):
    """Classes of operators that share a rate on a device."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    MATMUL = "matmul"
    ATTENTION = "attention"
    NORMALIZATION = "normalization"
    POOLING = "pooling"
    SOFTMAX = "softmax"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    EMBEDDING = "embedding"
    COPY = "copy"


class Role(StrEnum):
    """What a piece of memory is for.

    ``ACTIVATION`` is what the forward pass makes and the backward pass still finds, ``TEMPORARY`` all else that is made
    on the way, gradients of activations among it; ``GRADIENT`` those of parameters.
    """

    PARAMETER = "parameters"
    BUFFER = "buffers"
    INPUT = "inputs"
    GRADIENT = "gradients"
    ACTIVATION = "activations"
    TEMPORARY = "temporaries"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of one pass.

    ``flops`` counts two for each multiply-accumulate of a product of matrices or a convolution and nothing else, as
    torch counts them: the gradient of the weights of a convolution in groups as if there were one group. ``work`` and
    ``depth`` count unit operations and the longest chain of them (MODELS.md 1). ``read_bytes`` and ``written_bytes``
    are those of its tensors, ``parameters`` the elements of parameters among what it reads, ``saved_bytes`` what it
    keeps for the backward pass and no operator before it kept already, parameters apart. ``inputs`` are the places in
    the graph of the operators whose results it reads. ``forward`` is the place of the operator whose gradient it
    computes: None in the forward pass, and where autograd does not tell.
    """

    name: str
    kind: Kind
    phase: Phase
    flops: int
    work: int
    depth: int
    read_bytes: int
    written_bytes: int
    parameters: int
    saved_bytes: int
    inputs: tuple[int, ...]
    forward: int | None = None


class Weight(NamedTuple):
    """A parameter, or all that share its memory: its elements, and the forward operators that read it.

    ``trained``: it gets a gradient.
    """

    elements: int
    readers: tuple[int, ...]
    trained: bool = True


class Value(NamedTuple):
    """What one operator left in one piece of memory, or the network was given, as forward operators read it.

    ``source`` is the place of that operator, None for an input. ``bytes`` are those of its parts that ``readers`` read
    together: nothing for what only the backward pass looks at, such as places of maxima.
    """

    source: int | None
    bytes: int
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Storage:
    """A piece of memory, whatever the number of tensors that view it.

    It is there while the operators at places ``born`` to ``died - 1`` run.
    """

    role: Role
    bytes: int
    born: int
    died: int


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Operators in an order in which each comes after its inputs, for a ``batch`` of samples.

    ``parameters`` counts elements, shared ones once. ``unknown`` are the operators of torch without a formula of their
    own, counted as one operation for each number they write. In a graph that tells no ``weights`` each operator has its
    own parameters; in one that tells no ``values`` results are read whole by all whose inputs they are.
    """

    operators: tuple[Operator, ...]
    batch: int
    parameters: int
    storages: tuple[Storage, ...] = ()
    unknown: tuple[str, ...] = ()
    weights: tuple[Weight, ...] = ()
    values: tuple[Value, ...] = ()


def step_flops(graph: OperatorGraph, phase: Phase) -> int:
    """FLOPs of one pass over the batch: two for each multiply-accumulate of a product or convolution, nothing else."""
    return sum(operator.flops for operator in graph.operators if operator.phase is phase)


def step_macs(graph: OperatorGraph, phase: Phase) -> int:
    """Multiply-accumulates of one pass over the batch: half of its FLOPs."""
    return step_flops(graph, phase) // 2

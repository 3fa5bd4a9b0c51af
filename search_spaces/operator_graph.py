"""What a network computes in one training step: its operators, and which of them read whose results."""

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of one pass.

    ``flops`` counts two for each multiply-accumulate of a product and nothing else (torch's convention); ``work`` and
    ``depth`` count unit operations and the longest chain of them (MODELS.md 1). ``read_bytes`` and ``written_bytes``
    are those of its tensors, ``parameters`` the elements of parameters among what it reads, ``saved_bytes`` what it
    keeps for the backward pass. ``inputs`` are the places in the graph of the operators whose results it reads.
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


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Operators in an order in which each comes after its inputs, for a ``batch`` of samples.

    ``parameters`` counts elements, shared ones once.
    """

    operators: tuple[Operator, ...]
    batch: int
    parameters: int

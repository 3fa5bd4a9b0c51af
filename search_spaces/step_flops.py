"""FLOPs and multiply-accumulates of the two passes of a training step."""

from search_spaces.operator_graph import OperatorGraph, Phase


def step_flops(graph: OperatorGraph, phase: Phase) -> int:
    """FLOPs of one pass over the batch: two for each multiply-accumulate of a product or convolution, nothing else."""
    return sum(operator.flops for operator in graph.operators if operator.phase is phase)


def step_macs(graph: OperatorGraph, phase: Phase) -> int:
    """Multiply-accumulates of one pass over the batch: half of its FLOPs."""
    return step_flops(graph, phase) // 2

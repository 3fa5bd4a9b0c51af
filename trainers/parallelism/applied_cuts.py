"""Where trials would cut a network into stages, in units of its workload: what is priced is then what runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch import fx, nn

from search_spaces.module_groups import module_of
from search_spaces.operator_graph import OperatorGraph, Phase
from search_spaces.signature import Signature
from search_spaces.tracing import Loss, class_loss
from trainers.parallelism.partition import CutError, partition
from trainers.parallelism.plan import MICRO_BATCHES_A_STAGE
from trainers.parallelism.workload import Workload


@dataclass(frozen=True, slots=True)
class AppliedCuts:
    """``starts`` by the number of stages (`cluster.planner.CutsByStages`), and why there are no more of them."""

    starts: dict[int, tuple[int, ...] | None] = field(default_factory=dict)
    refusal: str = ""


def applied_cuts(
    network: nn.Module,
    signature: Signature,
    graph: OperatorGraph,
    work: Workload,
    stages: Iterable[int],
    loss: Loss = class_loss,
) -> AppliedCuts:
    """Cuts into each of ``stages`` (ascending), up to the first that is impossible.

    ``work`` is of the ``graph`` of a whole batch; stages are balanced for the micro-batches of a pipeline alone.
    """
    starts: dict[int, tuple[int, ...] | None] = {}
    for number in stages:
        samples = max(graph.batch // (MICRO_BATCHES_A_STAGE * number), 1)
        try:
            parts = partition(network, signature, samples, number, loss)
        except CutError as error:
            return AppliedCuts(starts, str(error))
        starts[number] = unit_starts(parts, graph, work)
    return AppliedCuts(starts)


def unit_starts(parts: Sequence[fx.GraphModule], graph: OperatorGraph, work: Workload) -> tuple[int, ...] | None:
    """Units of ``work`` before which all ``parts`` but the first start; None where no modules say so.

    A part starts with the first module that no other part calls; calls of functions before it stay with the unit
    before.
    """
    called = [[str(node.target) for node in part.graph.nodes if node.op == "call_module"] for part in parts]
    starts = [0]
    for number, own in enumerate(called[1:], 1):
        elsewhere = {name for other, names in enumerate(called) if other != number for name in names}
        places = (_first(graph, name) for name in own if name not in elsewhere)
        place = next((place for place in places if place is not None), None)
        if place is None or work.unit[place] <= starts[-1]:
            return None
        starts.append(int(work.unit[place]))
    return tuple(starts[1:])


def _first(graph: OperatorGraph, module: str) -> int | None:
    """Place of the first forward operator that runs in a ``module``, or in one inside it."""
    for place, operator in enumerate(graph.operators):
        if operator.phase is Phase.FORWARD and (module_of(operator) + ".").startswith(module + "."):
            return place
    return None

"""What whole training steps say of rates that were fitted to single operators.

Steps take more than their operators: Python, autograd, and memory that is let go. So every operator takes some seconds
more, and some for each byte that it moves, found by least squares on the steps' relative errors. More than these two
numbers was not worth it: a factor for each kind fits the measured steps no better, and others worse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainers.parallelism.operator_costs import saturating_seconds
from trainers.parallelism.rates import OperatorRate
from trainers.parallelism.workload import kind_of, torch_operator

if TYPE_CHECKING:
    from cluster.operator_samples import Timed
    from search_spaces.operator_graph import Operator


@dataclass(frozen=True, slots=True)
class Beyond:
    """Seconds that an operator, and a byte that it moves, take beyond its own."""

    each: float
    byte: float

    def applied(self, rates: Mapping[str, OperatorRate]) -> dict[str, OperatorRate]:
        """The same rates, with all of it laid on the operators."""
        return {
            label: replace(
                rate,
                bytes_per_second=1 / (1 / rate.bytes_per_second + self.byte),
                launch_seconds=rate.launch_seconds + self.each,
            )
            for label, rate in rates.items()
        }


def beyond_operators(timed: "Sequence[Timed]", rates: Mapping[str, OperatorRate]) -> Beyond:
    """Those that explain the steps that were ``timed`` best; neither is negative."""
    from scipy.optimize import nnls

    steps = np.array([one.step_seconds for one in timed])
    told = np.array([_told(one.graph.operators, rates) for one in timed])
    (each, byte), _ = nnls(told[:, :2] / steps[:, None], 1 - told[:, 2] / steps)
    return Beyond(float(each), float(byte))


def _told(operators: "Sequence[Operator]", rates: Mapping[str, OperatorRate]) -> tuple[float, float, float]:
    """Number of operators, bytes that they move, their seconds."""
    moved = [float(operator.read_bytes + operator.written_bytes) for operator in operators]
    seconds = sum(_seconds(operator, size, rates) for operator, size in zip(operators, moved, strict=True))
    return float(len(operators)), sum(moved), seconds


def _seconds(operator: "Operator", moved: float, rates: Mapping[str, OperatorRate]) -> float:
    rate = rates.get(torch_operator(operator)) or rates[kind_of(operator)]
    known = np.array([[rate.flops_per_second], [rate.half_flops], [rate.bytes_per_second], [rate.launch_seconds]])
    return float(saturating_seconds(known, np.array([float(operator.flops)]), np.array([moved]))[0])

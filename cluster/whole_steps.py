"""What whole training steps say of rates that were fitted to single operators.

Steps take more than their operators: Python, autograd, and memory that is let go. And a fit on logarithms tells what an
operator takes as a rule, while a step is a sum. Both are made good by least squares on the steps' relative errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.operator_costs import saturating_seconds
from trainers.parallelism.rates import OperatorRate
from trainers.parallelism.workload import kind_of, torch_operator

if TYPE_CHECKING:
    from cluster.operator_samples import Timed
    from search_spaces.operator_graph import Operator

STEP_ERROR = 0.1
"""Standard deviation of a step's relative error."""
SPREAD = 0.2
"""Standard deviation of a kind's factor around 1 before any step is seen."""
FARTHEST = 3.0
"""No factor is above this, nor below its inverse."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """Seconds an operator and a byte it moves take beyond its own, and what those of a kind are multiplied with."""

    each: float
    byte: float
    factors: Mapping[str, float]

    def applied(self, rates: Mapping[str, OperatorRate]) -> dict[str, OperatorRate]:
        """The same rates, with all of it laid on the operators."""
        return {
            label: self._slowed(rate, self.factors.get(label.partition("/")[0], 1.0)) for label, rate in rates.items()
        }

    def _slowed(self, rate: OperatorRate, factor: float) -> OperatorRate:
        return replace(
            rate,
            flops_per_second=rate.flops_per_second / factor,
            bytes_per_second=1 / (factor / rate.bytes_per_second + self.byte),
            launch_seconds=rate.launch_seconds * factor + self.each,
        )


def beyond_operators(timed: "Sequence[Timed]", rates: Mapping[str, OperatorRate]) -> Beyond:
    """Most probable given the steps that were ``timed``."""
    from scipy.optimize import lsq_linear

    kinds = sorted({kind_of(operator) for one in timed for operator in one.graph.operators})
    steps = np.array([one.step_seconds for one in timed])
    told = np.array([_told(one.graph.operators, kinds, rates) for one in timed]) / steps[:, None]
    prior = np.hstack([np.zeros((len(kinds), 2)), np.eye(len(kinds))])
    found = lsq_linear(
        np.vstack([told / STEP_ERROR, prior / SPREAD]),
        np.concatenate([np.full(len(timed), 1 / STEP_ERROR), np.full(len(kinds), 1 / SPREAD)]),
        bounds=([0.0, 0.0, *[1 / FARTHEST] * len(kinds)], [np.inf, np.inf, *[FARTHEST] * len(kinds)]),
    )
    each, byte, *factors = (float(value) for value in found.x)
    return Beyond(each, byte, dict(zip(kinds, factors, strict=True)))


def _told(operators: "Sequence[Operator]", kinds: Sequence[str], rates: Mapping[str, OperatorRate]) -> FloatArray:
    """Number of operators, bytes that they move, seconds of each kind."""
    row = np.zeros(2 + len(kinds))
    for operator in operators:
        kind = kind_of(operator)
        moved = float(operator.read_bytes + operator.written_bytes)
        row[:2] += 1, moved
        row[2 + kinds.index(kind)] += _seconds(
            rates.get(torch_operator(operator)) or rates[kind], operator.flops, moved
        )
    return row


def _seconds(rate: OperatorRate, flops: float, moved: float) -> float:
    known = np.array([[rate.flops_per_second], [rate.half_flops], [rate.bytes_per_second], [rate.launch_seconds]])
    return float(saturating_seconds(known, np.array([flops]), np.array([moved]))[0])

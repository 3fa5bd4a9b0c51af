"""Workloads of any number of samples from two traces: each column of an operator is affine in the samples.

What a weight takes does not grow with the batch, what an activation takes grows in proportion, and an operator's FLOPs
and bytes are sums of both. The peak of memory is the largest of many such sums: between the two traces it is not above
the straight line.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.workload import Workload

AFFINE = (
    "peak_bytes",
    "flops",
    "bytes",
    "parameters",
    "saved_bytes",
    "written_bytes",
    "temporary_bytes",
    "reduced_bytes",
    "value_bytes",
    "borders",
)
SAME = ("kind", "backward", "unit", "divided", "writers", "read", "readers")


@dataclass(frozen=True, eq=False)
class Scaled:
    """Workloads of one network by samples; raises ValueError where the two are not of the same operators."""

    first: Workload
    second: Workload

    def __post_init__(self) -> None:
        first, second = self.first, self.second
        alike = first.kinds == second.kinds and all(
            np.array_equal(getattr(first, name), getattr(second, name)) for name in SAME
        )
        if not alike or first.samples == second.samples:
            raise ValueError(
                f"workloads of {first.samples:g} and {second.samples:g} samples do not tell how the network scales: "
                "trace it at two batches at which it runs the same operators, or at each batch that is asked for"
            )

    def __call__(self, samples: float) -> Workload:
        """The workload of so many samples."""
        part = (samples - self.first.samples) / (self.second.samples - self.first.samples)
        changed: dict[str, Any] = {name: self._column(name, part) for name in AFFINE}
        pairs = np.stack([self.first.alike, self.second.alike], 1)
        alike = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
        return replace(self.first, samples=samples, alike=alike, **changed)

    def _column(self, name: str, part: float) -> FloatArray | float | None:
        first, second = (getattr(work, name) for work in (self.first, self.second))
        if first is None:
            return None
        if isinstance(first, float):
            return max(first + part * (second - first), 0.0) if isfinite(first) else first
        return np.asarray(np.maximum(first + part * (second - first), 0.0), np.float64)

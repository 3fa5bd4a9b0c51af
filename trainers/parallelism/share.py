"""What is left for one device of a plan, and what it exchanges: the value that axes split further."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from trainers.parallelism.arrays import FloatArray, IntArray
from trainers.parallelism.workload import Workload


class Collective(StrEnum):
    """Exchanges of a group of processes."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of an axis over a group of ``ranks``, ``times`` a step, in each of the stages."""

    axis: str
    collective: Collective
    ranks: int
    nodes: int
    bytes: FloatArray
    """[stages] of the whole tensor, one time."""
    times: int = 1
    overlaps_forward: bool = False
    """Whether it may be hidden behind the forward pass too, beside the backward pass."""

    def sent_bytes(self) -> FloatArray:
        """[stages] bytes that a process sends in a step (ring)."""
        share = (self.ranks - 1) / self.ranks
        factor = {Collective.ALL_REDUCE: 2 * share, Collective.SEND: 1.0}.get(self.collective, share)
        return self.bytes * (factor * self.times)


@dataclass(frozen=True, eq=False)
class Share:
    """One micro-batch on one device of each stage, the groups that it exchanges with, and who holds the states."""

    work: Workload
    """Operators of all stages, each as one device of its stage runs it."""
    starts: tuple[int, ...] | None = None
    """Units before which stages start; None: the pipeline axis finds them."""
    exchanges: tuple[Exchange, ...] = ()
    state_shards: int = 1
    """Devices over which weights, gradients and optimiser states of a stage are spread."""

    @property
    def stages(self) -> int:
        """Number of pipeline stages."""
        return len(self.starts or ()) + 1

    @cached_property
    def stage(self) -> IntArray:
        """[n] stage of each operator."""
        return np.searchsorted(np.array(self.starts or (), np.intp), self.work.unit, side="right")

    def per_stage(self, values: FloatArray) -> FloatArray:
        """Sum ``values`` [n] over each stage's operators [stages]."""
        return np.bincount(self.stage, values, self.stages).astype(np.float64)

    @cached_property
    def distinct(self) -> tuple[IntArray, FloatArray]:
        """Places of one operator of each alike [u], and how often each stage runs it [2, stages, u].

        The first of both are forward, the second backward.
        """
        _, first = np.unique(self.work.alike, return_index=True)
        row = self.work.backward * self.stages + self.stage
        times = np.bincount(row * len(first) + self.work.alike, minlength=2 * self.stages * len(first))
        return first, times.reshape(2, self.stages, len(first)).astype(np.float64)

    @cached_property
    def parameters(self) -> FloatArray:
        """[stages] parameters of a device, before they are sharded."""
        return self.per_stage(self.work.parameters)

    @cached_property
    def learning(self) -> FloatArray:
        """[stages] those of a device that get gradients: of operators of which some weight does."""
        return self.per_stage(np.where(self.work.tensors > 0, self.work.parameters, 0.0))

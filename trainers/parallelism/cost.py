"""What a training step costs under a plan, before it runs (MODELS.md 4): operators, pipeline, exchanges, optimiser.

Each axis divides what the axes before it left (``split`` of its module); what remains is priced here.
"""

from dataclasses import dataclass, replace
from functools import reduce
from math import exp

import numpy as np

from trainers.optimizer_states import OptimizerBytes
from trainers.parallelism import pipeline
from trainers.parallelism.arrays import FloatArray
from trainers.parallelism.axes import AXES
from trainers.parallelism.collective_costs import all_reduce, half, send
from trainers.parallelism.memory import memory_bytes
from trainers.parallelism.operator_costs import device_seconds, host_seconds
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.share import Collective, Exchange, Share
from trainers.parallelism.workload import Workload

LEAST_EXPOSED = 0.1
"""Share of an exchange that is never hidden."""


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """Where the seconds of a step go."""

    compute: float
    """Of the slowest stage, all its micro-batches, exchanges of the tensor axis included."""
    bubble: float
    """Of the slowest stage: waiting for the others, and for what passes the borders."""
    exposed: float
    """Exchanges of gradients and weights that nothing hides."""
    optimizer: float
    """The optimiser, and what a step takes whatever its network."""

    @property
    def total(self) -> float:
        """Of the step."""
        return self.compute + self.bubble + self.exposed + self.optimizer


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a training step of the whole batch takes: seconds, and memory of the fullest device."""

    time: StepSeconds
    memory_bytes: float
    log_error: float
    """Standard deviation of log(measured / predicted)."""

    @property
    def seconds(self) -> float:
        """Of the step."""
        return self.time.total

    def corrected(self, log_ratio: float, log_error: float) -> "StepCost":
        """The same step where log(measured / predicted) is expected to be ``log_ratio``."""
        by = exp(log_ratio)
        time = StepSeconds(
            self.time.compute * by, self.time.bubble * by, self.time.exposed * by, self.time.optimizer * by
        )
        return replace(self, time=time, log_error=log_error)


def price(
    work: Workload,
    plan: Plan,
    machine: Machine,
    optimizer: OptimizerBytes,
    starts: tuple[int, ...] | None = None,
) -> StepCost:
    """Cost of a step of ``plan.micro_batches`` times ``work`` on each of ``plan.data * plan.shard`` replicas.

    ``work`` is one micro-batch. ``starts`` are the units before which stages start, where they are not free.
    Raises ValueError where an axis cannot split this work.
    """
    share = divide(work, plan, machine, starts)
    memory = memory_bytes(share, plan, machine, optimizer.held)
    return StepCost(step_seconds(share, plan, machine, optimizer), float(memory.max()), machine.log_error)


def divide(work: Workload, plan: Plan, machine: Machine, starts: tuple[int, ...] | None = None) -> Share:
    """One device's share of ``work`` under ``plan``: all axes, one after another."""
    return reduce(lambda share, axis: axis.split(share, plan, machine), AXES.values(), Share(work, starts))


def step_seconds(share: Share, plan: Plan, machine: Machine, optimizer: OptimizerBytes) -> StepSeconds:
    """Seconds of a step of a ``share``; see ``price``."""
    forward, backward = stage_seconds(share, plan, machine)
    borders = sum((_seconds(e, machine) for e in share.exchanges if e.collective is Collective.SEND), np.zeros(1))
    piped = pipeline.pipeline_seconds(forward + backward + borders, plan.micro_batches)
    slowest = float((forward + backward).max()) * plan.micro_batches
    device = machine.device
    updated = share.parameters * (optimizer.moved / share.state_shards / device.optimizer_bytes_per_second)
    updated += share.per_stage(share.work.tensors) * device.tensor_seconds + device.step_seconds
    exposed = exposed_seconds(share, plan, machine, forward, backward)
    return StepSeconds(slowest, piped - slowest, exposed, float(updated.max()))


def stage_seconds(share: Share, plan: Plan, machine: Machine) -> tuple[FloatArray, FloatArray]:
    """Forward and backward seconds [stages] of a micro-batch: of the device, or of its host where that is more.

    With recomputation the backward pass computes the forward pass once more.
    """
    places, times = share.distinct
    device, host = (seconds(share.work, machine, places) for seconds in (device_seconds, host_seconds))
    forward, backward = np.maximum(times @ device, times @ host) * machine.slow_down(plan.width)
    return forward, backward + forward * plan.recompute


def exposed_seconds(share: Share, plan: Plan, machine: Machine, forward: FloatArray, backward: FloatArray) -> float:
    """Seconds of the step's exchanges of gradients and weights that are not hidden: of the stage with most of them.

    ``max(0.1 T, T - rho T_hiding)``, where gradients hide behind the last backward pass, and weights that are
    gathered behind every pass; a second that hides one exchange hides no other.
    """
    exposed, hidden = np.zeros(share.stages), np.zeros(share.stages)
    exchanges = [exchange for exchange in share.exchanges if exchange.collective is not Collective.SEND]
    for exchange in sorted(exchanges, key=lambda exchange: exchange.overlaps_forward):
        whole = _seconds(exchange, machine) * exchange.times
        hiding = (forward + backward) * plan.micro_batches if exchange.overlaps_forward else backward
        left = np.maximum(machine.overlap * hiding - hidden, 0.0)
        own = np.maximum(LEAST_EXPOSED * whole, whole - left)
        exposed, hidden = exposed + own, hidden + whole - own
    return float(exposed.max())


def _seconds(exchange: Exchange, machine: Machine) -> FloatArray:
    """[stages] seconds of one time."""
    link = machine.link(exchange.ranks, exchange.nodes)
    match exchange.collective:
        case Collective.ALL_REDUCE:
            return all_reduce(link, exchange.ranks, exchange.bytes)
        case Collective.SEND:
            return send(link, exchange.bytes)
        case Collective.ALL_GATHER | Collective.REDUCE_SCATTER:
            return half(link, exchange.ranks, exchange.bytes)

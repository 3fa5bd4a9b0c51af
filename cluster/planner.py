"""The plans of a candidate that are worth a device: all legal ones priced, the Pareto set kept (MODELS.md 4.5).

A plan is legal where its axes can be applied, its width is at most the devices, and each micro-batch has a sample. It
is worth its devices where no plan of as many or fewer is as fast.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product
from math import ceil

import numpy as np

from trainers.measurement import MeasuredStep
from trainers.optimizer_states import OptimizerBytes
from trainers.parallelism.calibrated import Calibrated
from trainers.parallelism.collective_costs import all_reduce
from trainers.parallelism.correction import NOISE, SPREAD
from trainers.parallelism.cost import divide, stage_seconds
from trainers.parallelism.memory import fits
from trainers.parallelism.option import Option
from trainers.parallelism.plan import AXES, INSTALLED_AXES, Plan
from trainers.parallelism.rates import Machine
from trainers.parallelism.workload import Workload

EVERY_DEGREE = 8
"""Up to here each degree is tried; above, 2^k and 3 * 2^k."""

MEMORY_ERROR = 0.05
"""Standard deviation of a device's memory over what is predicted; twice that must be left free."""

Workloads = Callable[[int], Workload]
"""The workload of a micro-batch of so many samples, such as `trainers.parallelism.scaling.Scaled`."""
Cuts = Callable[[Plan], tuple[int, ...]]
"""Units before which stages start in a trial under a plan, ValueError where it cannot be cut so, such as
`trainers.parallelism.traced_step.TracedStep.starts`."""


def model_of(machine: Machine, optimizer: str, momentum: float) -> Calibrated:
    """Prices on a machine with an optimiser of the supervised trainer in float32."""
    return Calibrated(machine, OptimizerBytes.of(optimizer, momentum))


def worthwhile(options: Iterable[Option], machine: Machine) -> tuple[Option, ...]:
    """Those that fit on the devices of a ``machine`` and are worth them, fewest devices first; none where none fits."""
    return pareto(option for option in options if fits(option.memory_bytes, MEMORY_ERROR, machine))


def priced(
    work: Workloads,
    model: Calibrated,
    devices: int,
    batch: int,
    installed: Collection[str] = INSTALLED_AXES,
    cuts: Cuts | None = None,
    least: int = 1,
) -> Iterator[Option]:
    """Every legal plan with its price, whether it fits or not.

    Left out are those that cannot split this network, and those wider than ``reach``. Without ``cuts`` the model cuts
    pipelines by itself, anywhere between units. Raises ValueError for less than one device or sample.
    """
    machine = model.machine
    for plan in legal(reach(machine, devices), batch, installed, least):
        try:
            cost = model.price(work(micro_batch(plan, batch)), plan, cuts(plan) if cuts else None)
        except ValueError:  # fewer places than stages, nothing that the tensor axis divides, no such link
            continue
        yield Option(plan, cost.seconds, cost.memory_bytes, cost.log_error)


def reach(machine: Machine, devices: int) -> int:
    """Of ``devices`` those that a plan can be priced on: one machine's where no link between machines is known."""
    return devices if any(link.nodes > 1 for link in machine.links) else min(devices, machine.devices_per_node)


def legal(devices: int, batch: int, installed: Collection[str] = INSTALLED_AXES, least: int = 1) -> Iterator[Plan]:
    """Plans of at most ``devices`` whose every micro-batch has ``least`` samples, along ``installed`` axes alone.

    The plan of one device is among them whatever the batch. A pipeline alone takes a batch in parts. ``installed`` may
    name ``recompute`` beside the axes.
    """
    if devices < 1 or batch < 1:
        raise ValueError(f"plans: devices = {devices}, batch = {batch}; both are at least 1")
    choices = [degrees(devices) if axis in installed else (1,) for axis in AXES]
    recompute = (False, True) if "recompute" in installed else (False,)
    for data, shard, tensor, pipeline in product(*choices):
        own, width = batch // (data * shard), data * shard * tensor * pipeline
        if width > devices or own < (least if width > 1 else 1):
            continue
        for exponent in range((own // least).bit_length() if pipeline > 1 else 1):
            for again in recompute:
                yield Plan(data, shard, tensor, pipeline, 2**exponent, again)


def degrees(most: int) -> tuple[int, ...]:
    """Degrees of an axis up to ``most``: each up to 8, above that 2^k and 3 * 2^k."""
    sparse = (base << shift for shift in range(most.bit_length()) for base in (1, 3))
    return tuple(sorted({*range(1, min(most, EVERY_DEGREE) + 1), *(degree for degree in sparse if degree <= most)}))


def micro_batch(plan: Plan, batch: int) -> int:
    """Samples of the largest micro-batch on the rank with most of them."""
    return ceil(ceil(batch / (plan.data * plan.shard)) / plan.micro_batches)


def pareto(options: Iterable[Option]) -> tuple[Option, ...]:
    """Those that none of as many or fewer devices equals, fewest devices first; of equals the one of least memory."""
    kept: list[Option] = []
    for option in sorted(options, key=lambda o: (o.devices, o.seconds, o.memory_bytes, str(o.plan))):
        if not kept or option.seconds < kept[-1].seconds:
            if kept and kept[-1].devices == option.devices:
                continue
            kept.append(option)
    return tuple(kept)


def evaluation_seconds(work: Workload, model: Calibrated, samples: int, ranks: int = 1) -> float:
    """Seconds of a forward pass over ``samples``, shared by ``ranks``, in batches as large as ``work``."""
    forward, _ = stage_seconds(divide(work, Plan(), model.machine), Plan(), model.machine)
    return float(forward.sum()) * ceil(samples / ranks) / work.samples


def plans_unknown(
    parameters: int, model: Calibrated, devices: int, batch: int, measured: Mapping[Plan, MeasuredStep]
) -> tuple[Option, ...]:
    """Data-parallel plans of a network without a graph, from steps that were ``measured`` under at least one of them.

    Those are taken as they are. For others computing goes with the samples of a rank, from the narrowest that was
    measured, and the exchange of gradients is hidden behind none of it. Memory is that of the states alone.
    """
    states = parameters * model.optimizer.held + model.machine.device.context_bytes
    first = min(measured, key=lambda plan: plan.width)
    own = measured[first].seconds - _exchange(first, parameters, model)
    per_sample = max(own, 0.0) / micro_batch(first, round(measured[first].samples))
    options = []
    for plan in legal(reach(model.machine, devices), batch, ("data",)):
        try:
            seconds = micro_batch(plan, batch) * per_sample + _exchange(plan, parameters, model)
        except ValueError:  # no such link
            continue
        error = NOISE if plan in measured else SPREAD
        if plan in measured:
            seconds = measured[plan].seconds * batch / measured[plan].samples
        options.append(Option(plan, seconds, states, error))
    return worthwhile(options, model.machine)


def _exchange(plan: Plan, parameters: int, model: Calibrated) -> float:
    if plan.data == 1:
        return 0.0
    link = model.machine.link(plan.data, model.machine.nodes(plan.data))
    return float(all_reduce(link, plan.data, np.array([4.0 * parameters]))[0])

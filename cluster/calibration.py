"""Measuring a device once: rates of its operators, what a training step takes beside them, its memory and links.

Operators are timed within real training steps of networks drawn at random (`cluster.reference_networks`), several times
each and mixed. A saturating rate is fitted to each kind and to each operator of torch (MODELS.md 4.1), then adjusted to
whole steps (`cluster.whole_steps`). Torch is imported when it is needed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from cluster.device_memory import context_bytes, local_devices, memory_bytes
from cluster.links import measure_links
from cluster.machine_file import Key
from cluster.whole_steps import beyond_operators
from trainers.parallelism.cost import divide, stage_seconds
from trainers.parallelism.fitting import fit_rate
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import DeviceRates, Link, Machine, OperatorRate
from trainers.parallelism.workload import columns, kind_of, torch_operator

if TYPE_CHECKING:
    from cluster.descent_timing import Descent
    from cluster.operator_samples import Timed
    from search_spaces.operator_graph import Operator

LONG, SHORT = 30.0, 3.0
"""Seconds of operators; the rest takes a few, half as long where the machine is busy."""
FEWEST = 8
"""Timed calls that an operator of torch needs for a rate of its own."""
MOST = 400
"""Timed calls that a rate is fitted to: every so many of them, by how long they took."""
LEAST_ERROR = 0.05
"""Standard deviation of log(measured / predicted) below which no calibration is believed."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, and how: networks and calls timed, seconds that it took, what failed."""

    key: Key
    machine: Machine
    networks: int
    calls: int
    seconds: float
    failures: tuple[str, ...] = ()


def calibrate(
    device: str = "cpu",
    threads: int = 1,
    dtype: str = "float32",
    seconds: float = LONG,
    devices: int | None = None,
    say: Say = lambda line: None,
) -> Calibration:
    """Measure the ``device`` (torch's name) as one rank uses it, and its links to others of up to ``devices``.

    ``seconds`` are those of the operators. Links that cannot be measured are told and left out.
    """
    from cluster.descent_timing import time_descent
    from cluster.fresh_memory import time_fresh_memory
    from cluster.operator_samples import time_references
    from cluster.operator_timing import TimedDevice

    began = perf_counter()
    timer = TimedDevice(device, threads, dtype)
    context = context_bytes(device)
    with _threads(threads):
        say(f"timing operators in training steps for {seconds:g} s")
        timed = time_references(timer, seconds)
        descent = time_descent(timer)
        fresh_from, fresh = time_fresh_memory(timer)
    rates = device_rates(timed, descent, device, dtype, timer.accelerator)
    local = local_devices(device) if devices is None else devices
    say(f"timing links between {local} devices" if local > 1 else "one device: no links")
    links, failures = measure_links(device, threads, local, seconds)
    rates = replace(
        rates,
        memory_bytes=memory_bytes(device),
        context_bytes=context,
        fresh_from_bytes=fresh_from,
        fresh_seconds_per_byte=fresh,
    )
    machine = machine_of(timed, rates, links, local)
    calls = sum(len(one.kernels) * len(one.operators) for one in timed)
    return Calibration(
        Key.here(device, threads, dtype), machine, len(timed), calls, perf_counter() - began, tuple(failures)
    )


def device_rates(
    timed: "Sequence[Timed]", descent: "Descent", device: str, dtype: str, accelerator: bool = False
) -> DeviceRates:
    """Fit the rates of kinds, and of operators of torch that were called often enough."""
    kernels = [kernel for one in timed for kernel in one.kernels]
    rates = {"other": _rate(kernels), **_rates(kernels, kind_of, 1), **_rates(kernels, torch_operator, FEWEST)}
    host = 0.0
    if accelerator:
        host = min(one.step_seconds / len(one.graph.operators) for one in timed)
    else:
        rates = beyond_operators(timed, rates).applied(rates)
    return DeviceRates(
        device=device,
        dtype=dtype,
        operators=rates,
        host_seconds=host,
        exchange_host_seconds=host,
        optimizer_bytes_per_second=descent.optimizer_bytes_per_second,
        tensor_seconds=descent.tensor_seconds,
        step_seconds=descent.step_seconds,
    )


def machine_of(timed: "Sequence[Timed]", rates: DeviceRates, links: Sequence[Link], devices: int) -> Machine:
    """The machine, its error that of the steps that it was measured with, on one device of the optimiser's left out."""
    bare = Machine(replace(rates, tensor_seconds=0.0, step_seconds=0.0), tuple(links), max(devices, 1))
    errors = []
    for one in timed:
        share = divide(columns(one.graph, kind=torch_operator), Plan(), bare)
        forward, backward = stage_seconds(share, Plan(), bare)
        errors.append(np.log(one.step_seconds / float(forward[0] + backward[0])))
    spread = max(float(np.sqrt(np.mean(np.square(errors)))), LEAST_ERROR)
    overlap = 1.0 if rates.device != "cpu" else 0.0
    return replace(bare, device=rates, log_error=spread, overlap=overlap)


def _rates(
    kernels: "Sequence[tuple[Operator, float]]", name: "Callable[[Operator], str]", fewest: int
) -> dict[str, OperatorRate]:
    grouped = defaultdict(list)
    for operator, seconds in kernels:
        grouped[name(operator)].append((operator, seconds))
    return {label: _rate(group) for label, group in sorted(grouped.items()) if len(group) >= fewest}


def _rate(kernels: "Sequence[tuple[Operator, float]]") -> OperatorRate:
    kernels = sorted(kernels, key=lambda kernel: kernel[1])[:: -(-len(kernels) // MOST)]
    flops = np.array([float(operator.flops) for operator, _ in kernels])
    moved = np.array([float(operator.read_bytes + operator.written_bytes) for operator, _ in kernels])
    return fit_rate(flops, moved, np.array([seconds for _, seconds in kernels]))


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

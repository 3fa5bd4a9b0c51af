"""Measured GPT training iterations on one node of 8 A100, and all-reduces there (Bang et al. 2024, vTrain)."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.gpt import Gpt, equal_stages, workload
from trainers.parallelism.collective_costs import fit
from trainers.parallelism.fitting import Measured
from trainers.parallelism.plan import Plan
from trainers.parallelism.rates import DeviceRates, Link, Machine, OperatorRate

DEVICES_PER_NODE = 8


@dataclass(frozen=True)
class Iteration:
    """One measured training iteration."""

    gpt: Gpt
    plan: Plan
    batch: int
    seconds: float

    @property
    def step(self) -> Measured:
        """As the cost model takes it: stages hold as many layers each, as in Megatron-LM."""
        starts = equal_stages(self.gpt.layers, self.plan.pipeline)
        return Measured(workload(self.gpt), self.plan, self.seconds, starts)

    @property
    def group(self) -> tuple[int, ...]:
        """Iterations of one group are plans for one model and batch on as many GPUs."""
        gpt = self.gpt
        return self.plan.width, self.batch, gpt.hidden, gpt.heads, gpt.layers, gpt.length


def iterations(folder: Path) -> tuple[Iteration, ...]:
    """All rows of the data set, in its order."""
    path = folder / "data" / "ground_truth_single.csv"
    if not path.is_file():
        raise SystemExit(f"{path} is missing; give --data DIR or set NAS_BENCHMARK_DATA")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        return tuple(_iteration(row) for row in list(csv.reader(lines))[1:])


def _iteration(row: Sequence[str]) -> Iteration:
    _, batch, micro_batch, hidden, heads, layers, length, tensor, data, pipeline = map(int, row[:-1])
    plan = Plan(data=data, tensor=tensor, pipeline=pipeline, micro_batches=batch // (micro_batch * data))
    return Iteration(Gpt(micro_batch, hidden, heads, layers, length), plan, batch, float(row[-1]) / 1e3)


def links(folder: Path) -> tuple[Link, ...]:
    """All-reduces out of place of 2 to 8 GPUs of a node, from the folder of a device."""
    found = []
    for path in sorted(folder.glob("AR_GPU*_LUT")):
        ranks = int(path.name.split("_")[1].removeprefix("GPU"))
        table = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(0, 3))
        found.append(fit(ranks, 1, [(float(size), float(time) * 1e-9) for size, time in table]))
    if not found:
        raise SystemExit(f"{folder}/AR_GPU*_LUT are missing; give --data DIR or set NAS_BENCHMARK_DATA")
    return tuple(found)


def data_sheet(kinds: Sequence[str], measured: Sequence[Link]) -> Machine:
    """What is known of the node before any step is measured: NVIDIA's data sheet of the A100, and its links.

    Times of launch and host, and the size of half the rate, are orders of magnitude only, and fitted. Megatron-LM
    exchanges gradients after the backward pass.
    """
    rate = OperatorRate(flops_per_second=312e12, half_flops=3e9, bytes_per_second=1555e9, launch_seconds=5e-6)
    device = DeviceRates(
        device="A100",
        dtype="float16",
        operators=dict.fromkeys((*kinds, "other"), rate),
        host_seconds=3e-5,
        exchange_host_seconds=3e-5,
        optimizer_bytes_per_second=1555e9,
    )
    return Machine(device, tuple(measured), DEVICES_PER_NODE, overlap=0.0)

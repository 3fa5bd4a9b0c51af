"""Seconds to analyse a candidate on one core: build on meta, trace forward and backward, W, D, memory."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.planner import Measure, Row
from search_spaces.garbage_collection import collection_paused
from search_spaces.memory import step_memory
from search_spaces.meta_device import MetaDevice
from search_spaces.tracing import trace
from search_spaces.work_depth import work_depth
from tests.search_spaces.networks import NETWORKS

BATCH = 32
REPEATS = 30


@dataclass(frozen=True)
class Aim:
    """Milliseconds to reach, and the best known."""

    aim: float
    best_known: float


AIMS = {"nas-bench-201": Aim(50, 81), "resnet50": Aim(120, 153), "gpt2": Aim(120, 131)}


def measure(repeats: int = REPEATS) -> tuple[list[Measure], list[Row]]:
    """Medians of milliseconds; a row a repeat.

    Each repeat builds a network anew, and nothing is kept from one to the next; imports, and what torch does but once
    in a process, are left out by a repeat before.
    """
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    rows: list[Row] = []
    for name in AIMS:
        case = NETWORKS[name]
        analyse(case.build, case.inputs(BATCH))
        rows += [
            {"network": name, "repeat": repeat, **analyse(case.build, case.inputs(BATCH))} for repeat in range(repeats)
        ]
    return [
        Measure(
            f"{name}: milliseconds, median of {repeats}",
            median(row["milliseconds"] for row in rows if row["network"] == name),
            ("<=", aim.aim),
            aim.best_known,
        )
        for name, aim in AIMS.items()
    ], rows


def analyse(build: Callable[[], nn.Module], inputs: Tensor) -> Row:
    """Analyse once; milliseconds of all and of the build alone, and what was found."""
    began = time.perf_counter()
    with collection_paused(), MetaDevice():  # as search_spaces.statics.meta_network
        network = build()
    built = time.perf_counter()
    graph = trace(network, [inputs], len(inputs))
    concurrency, memory = work_depth(graph), step_memory(graph)
    ended = time.perf_counter()
    return {
        "milliseconds": 1e3 * (ended - began),
        "build_milliseconds": 1e3 * (built - began),
        "operators": len(graph.operators),
        "flops": sum(operator.flops for operator in graph.operators),
        "work_operations": concurrency.work,
        "depth_operations": concurrency.depth,
        "peak_bytes": memory.peak_bytes,
    }

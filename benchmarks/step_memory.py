"""Peak memory of a step, predicted from the graph and tracked by torch's MemTracker in a real step on the CPU."""

from statistics import median

import numpy as np
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn.functional import cross_entropy

from benchmarks.planner import Measure, Row
from search_spaces import SPACES, SearchSpace, Signature, TensorType, meta_network
from search_spaces.memory import step_memory
from search_spaces.tracing import trace
from search_spaces.values import Architecture

IMAGES = Signature(TensorType((3, 32, 32)), TensorType((10,)))
TOKENS = Signature(TensorType((64,), "int64", vocabulary=256), TensorType((64, 256)))
BATCHES = (4, 32)
SAMPLES = 10
DNN_PERF = 0.137
"""Error of DNNPerf on GPUs (Gao et al. 2023)."""


def measure(samples: int = SAMPLES) -> tuple[list[Measure], list[Row]]:
    """Error of the peak over all built-in spaces; a row a network and batch."""
    rows: list[Row] = []
    for name in SPACES.names():
        space, signature = SPACES.load(name)(), TOKENS if name == "transformer" else IMAGES
        for seed in range(samples):
            architecture = space.sample(np.random.default_rng(seed))
            rows += [{"space": name, "seed": seed, **row(space, architecture, signature, batch)} for batch in BATCHES]
    errors = [abs(line["predicted_bytes"] / line["tracked_bytes"] - 1) for line in rows]
    return [
        Measure(f"peak memory of a step, median error of {len(rows)}", median(errors), ("<=", 0.05), DNN_PERF),
        Measure(f"peak memory of a step, largest error of {len(rows)}", max(errors)),
    ], rows


def row(space: SearchSpace, architecture: Architecture, signature: Signature, batch: int) -> Row:
    """Predicted on the meta device, then run for real."""
    memory = step_memory(trace(meta_network(space, architecture, signature), signature, batch))
    inputs = torch.zeros(batch, *signature.input.shape, dtype=getattr(torch, signature.input.dtype))
    network = space.build(architecture, signature).requires_grad_(True)  # else the tracker fails where some do not
    return {
        "architecture": str(architecture),
        "batch": batch,
        "predicted_bytes": memory.peak_bytes,
        **{f"predicted_{part}_bytes": size for part, size in memory.parts.items()},
        "tracked_bytes": tracked_bytes(network, inputs),
    }


def tracked_bytes(network: nn.Module, inputs: torch.Tensor) -> int:
    """Bytes at the peak of forward, cross-entropy and backward."""
    tracker = MemTracker()
    tracker.track_external(network, inputs)
    with tracker:
        _loss(network(inputs)).backward()  # type: ignore[no-untyped-call]
    return int(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])


def _loss(outputs: torch.Tensor) -> torch.Tensor:
    """Outputs are let go before the backward pass, as in training."""
    rows = outputs.reshape(-1, outputs.shape[-1])
    return cross_entropy(rows, torch.zeros(len(rows), dtype=torch.int64))

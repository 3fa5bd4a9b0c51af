"""Stages of measured operator graphs, and their work and depth (data of PipeDream)."""

from operator import attrgetter
from pathlib import Path

import numpy as np

from benchmarks.pipedream import Network, networks
from benchmarks.planner import Measure, Row
from search_spaces.work_depth import Concurrency, weighted_work_depth
from trainers.parallelism.line_balancing import balance
from trainers.parallelism.pipeline import best_cut
from trainers.parallelism.stages import fewest_stages
from trainers.parallelism.workload import columns

STAGES = (2, 4, 8)
ORACLE_IDEALS = 300_000
AIM = 1.02


def measure(folder: Path) -> tuple[list[Measure], list[Row]]:
    """Measures over all networks, and a row for each network and number of stages."""
    graphs = networks(folder)
    rows = [row(network, stages) for network in graphs for stages in STAGES]
    worst = max(rows, key=lambda line: line["largest_seconds"] / line["lower_bound_seconds"])
    measures = [
        Measure(
            "largest stage / bound of any contiguous cut, worst of 33",
            worst["largest_seconds"] / worst["lower_bound_seconds"],
            ("<=", AIM),
        ),
        Measure("cuts proven best in their order, share", float(np.mean([line["best_in_its_order"] for line in rows]))),
    ]
    for network in graphs:
        found = concurrency(network)
        measures += [
            Measure(f"{network.name}: work W, seconds", found.work),
            Measure(f"{network.name}: depth D, seconds", found.depth),
            Measure(f"{network.name}: W / D", found.parallelism),
        ]
    return measures, rows


def concurrency(network: Network) -> Concurrency[float]:
    """Work and depth, forward and backward, in seconds."""
    seconds = iter(network.seconds)
    return weighted_work_depth(network.graph, lambda operator: next(seconds))


def row(network: Network, stages: int) -> Row:
    """A network's cut into ``stages``, what no contiguous cut of any order is below, and how that is known."""
    work = columns(network.graph, unit=attrgetter("name"))
    costs = work.per_unit(np.array(network.seconds))
    ordered, cuts = best_cut(work, costs, np.zeros_like, stages)
    own = ordered.per_unit(np.array(network.seconds))
    bound, proof = cuts.lower_bound, "mean stage or largest unit"
    if cuts.largest > AIM * bound:
        oracle = balance(costs.tolist(), work.unit_inputs, stages, ORACLE_IDEALS)
        bound, proof = (oracle.lower_bound, "all orders tried") if oracle else (bound, proof)
    return {
        "network": network.name,
        "stages": stages,
        "starts": list(cuts.starts),
        "stage_seconds": list(cuts.stage_costs),
        "largest_seconds": cuts.largest,
        "lower_bound_seconds": bound,
        "proof": proof,
        "best_in_its_order": fewest_stages(own, np.zeros(work.units + 1), cuts.largest * (1 - 1e-9)) > stages,
    }

"""Tables of recorded results as benchmarks need them: found, relabelled, judged by what is best in them."""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nas.objective import Direction, Objective, Objectives
from nas.pareto import hypervolume, non_dominated_ranks
from search_spaces.recorded import read_arrays
from trainers.tasks.recorded import Recorded

Row = dict[str, Any]


def find(table: str, data: str | None) -> Path:
    """The file of a table; SystemExit saying what is missing."""
    if Path(table).is_file():
        return Path(table)
    folder = Path(data or os.environ.get("NAS_BENCHMARK_DATA", "../shared/data"))
    path = folder / "tables" / f"{table}.npz"
    if not path.is_file():
        raise SystemExit(f"{path} is missing; give --data DIR or set NAS_BENCHMARK_DATA")
    return path


def relabelled(path: Path, seed: int, folder: Path) -> Path:
    """A copy of the table that says the same under other names and orders."""
    rng = np.random.default_rng([seed, 7])
    arrays: dict[str, Any] = {**read_arrays(str(path))}
    spec = json.loads(str(arrays["spec"]))
    order = rng.permutation(len(spec["decisions"]))
    codes, decisions = arrays["codes"][:, order].copy(), []
    for at, old in enumerate(order):
        decision = spec["decisions"][old]
        count, ordered = len(decision["options"]), bool(decision.get("ordered"))
        places = np.arange(count) if ordered else rng.permutation(count)
        codes[:, at] = places[codes[:, at]]
        decisions.append({"name": f"d{at}", "options": [f"o{k}" for k in range(count)], "ordered": ordered})
    arrays["codes"] = codes
    arrays["spec"] = np.array(json.dumps({**spec, "name": "relabelled", "space": None, "decisions": decisions}))
    np.savez(folder / "relabelled.npz", **arrays)
    return folder / "relabelled.npz"


class Table:
    """A table with its own objective, and metrics that are to be small as well."""

    def __init__(self, path: Path, minimized: Sequence[str] = ()) -> None:
        self.task = Recorded(str(path))
        self.objective: str = self.task.spec["objective"]
        self.sign = 1 if self.task.spec["direction"] == "maximize" else -1
        self.test: str = self.task.spec.get("test_metric", self.objective)
        self.objectives = Objectives(
            (
                Objective(self.objective, Direction(self.task.spec["direction"])),
                *(Objective(name, Direction.MINIMIZE) for name in minimized),
            )
        )

    @cached_property
    def costs(self) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """Costs at the last fidelity, [rows with all of them, objectives]."""
        table, columns = read_arrays(self.task.path), []
        for objective in self.objectives.objectives:
            name = objective.name
            values = table[f"metric:{name}"][:, -1] if f"metric:{name}" in table else table[f"cost:{name}"]
            columns.append(-values if objective.direction is Direction.MAXIMIZE else values)
        costs = np.stack(columns, axis=1).astype(float)
        return np.asarray(costs[np.isfinite(costs).all(1)])

    @property
    def optimum(self) -> float:
        """The best objective at the last fidelity."""
        return -self.sign * float(self.costs[:, 0].min())

    @cached_property
    def front(self) -> set[tuple[float, ...]]:
        """The exact Pareto front, as costs."""
        ranks = non_dominated_ranks([tuple(row) for row in self.costs.tolist()])
        return {tuple(row) for row, rank in zip(self.costs.tolist(), ranks, strict=True) if rank == 0}

    def covered(self, costs: Sequence[tuple[float, ...]]) -> float:
        """Hypervolume as a share of the exact front's; the reference lies a tenth of its range beyond its worst."""
        points = np.array(sorted(self.front))
        low, high = points.min(0), points.max(0)

        def volume(some: Sequence[tuple[float, ...]]) -> float:
            scaled = (np.array(some).reshape(-1, len(low)) - low) / np.where(high > low, high - low, 1.0)
            return hypervolume([tuple(point) for point in scaled.tolist()], (1.1,) * len(low))

        return volume(costs) / volume(sorted(self.front))

    def expected_best(self, queries: int) -> float:
        """Expected best of ``queries`` codes drawn without replacement, one objective, unlisted codes the worst.

        P(best is the i-th of n) = C(n - i, N - 1) / C(n, N), here by a recursion over i.
        """
        codes = 1
        for decision in self.task.spec["decisions"]:
            codes *= len(decision["options"])
        ordered = np.sort(self.costs[:, 0])
        values = np.append(ordered, np.full(codes - len(ordered), ordered[-1]))
        chance, expected = queries / codes, 0.0
        for at, value in enumerate(values[: codes - queries + 1].tolist()):
            expected += chance * value
            chance *= (codes - at - queries) / (codes - at - 1) if codes - at > 1 else 0.0
        return -self.sign * expected

"""How good a strategy's search is, on tables of recorded results.

    python -m benchmarks.search_quality TABLE... --strategy S --seeds N --budget B [--relabel SEED] --json FILE
    python -m benchmarks.search_quality TABLE... --strategy S --seeds N --protocol T --workers W --hours H [--rule asha]

Protocol Q: every distinct code costs a query, also one that has no row; the objective is that of the last fidelity.
Protocol T: virtual time on W workers; the pick is the best seen objective, judged at the last fidelity. A TABLE is a
file, or a name in DATA/tables, where DATA is ``--data``, else NAS_BENCHMARK_DATA, else ../shared/data.
``--relabel`` permutes decisions and unordered options and replaces all names. A run ends early where it has found the
optimum, since nothing can change any more. Drives the product's own controller through its Python API.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import isfinite
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import nas
from nas.study import Study
from trainers.tasks.recorded import Recorded

CHECKPOINTS = (50, 100, 192, 300, 500)


@dataclass(frozen=True)
class Case:
    """One search."""

    table: Path
    strategy: str
    seed: int
    budget: int
    settings: Mapping[str, Any]
    relabel: int | None = None
    workers: int = 1
    hours: float | None = None
    rule: str = "none"


def run(case: Case) -> dict[str, Any]:
    """Search once; return the row of the case."""
    with tempfile.TemporaryDirectory() as place:
        path = case.table if case.relabel is None else relabelled(case.table, case.relabel, Path(place))
        task = Recorded(str(path))
        objective, sign = task.spec["objective"], 1 if task.spec["direction"] == "maximize" else -1
        optimum = best_recorded(task)
        budget = {"hours": case.hours} if case.hours else {"trials": case.budget, "target": optimum}
        study = nas.search(
            folder=Path(place) / "study",
            search={"task": f"table:{path}", "strategy": case.strategy, "seed": case.seed, **budget},
            strategy=dict(case.settings),
            fidelity=_fidelity(task, case.rule),
            cluster={"executor": "simulated", "max_devices": case.workers},
        )
        row = {"table": case.table.stem, "strategy": case.strategy, "seed": case.seed, "relabel": case.relabel}
        if case.hours:
            return row | _timed(study, task, objective, sign)
        return row | _queried(study, objective, task.spec.get("test_metric", objective), sign, optimum)


def _fidelity(task: Recorded, rule: str) -> dict[str, Any]:
    levels = task.fidelities
    if rule == "none":
        return {"rule": "none", "max": levels[-1]}
    return {"rule": rule, "min": levels[0], "max": levels[-1], "eta": 3}


def best_recorded(task: Recorded) -> float:
    """The optimum at the last fidelity."""
    with np.load(task.path, allow_pickle=False) as table:
        values = table["metric:" + task.spec["objective"]][:, -1]
    return float(np.nanmax(values) if task.spec["direction"] == "maximize" else np.nanmin(values))


def _queried(study: Study, objective: str, test: str, sign: int, optimum: float) -> dict[str, Any]:
    best, pick, trace = -np.inf, None, []
    for trial in study.trials():
        if not trial.launches:
            continue
        value = trial.metrics.get(objective, np.nan) if trial.rungs else np.nan
        if isfinite(value) and sign * value > best:
            best, pick = sign * value, trial
        trace.append(sign * best)
    found = trace.index(optimum) + 1 if optimum in trace else None
    tested = pick.metrics.get(test) if pick else None
    return {"found_at": found, "test": tested, "trace": _changes(trace)}


def _changes(trace: Sequence[float]) -> list[tuple[int, float]]:
    """Queries (from 1) at which the best changed, and to what."""
    return [(at + 1, value) for at, value in enumerate(trace) if at == 0 or value != trace[at - 1]]


def _timed(study: Study, task: Recorded, objective: str, sign: int) -> dict[str, Any]:
    last = task.fidelities[-1]
    seen = [
        (sign * measurement.metrics[objective], trial)
        for trial in study.trials()
        for measurement in trial.rungs.values()
        if isfinite(measurement.metrics[objective])
    ]
    pick = max(seen, key=lambda entry: entry[0])[1]
    final = task.measure(pick.proposal.candidate.architecture, last)
    return {
        "final": final[objective],
        "test": final.get(task.spec.get("test_metric", objective)),
        "trials": study.launched,
        "epochs": sum(trial.fidelity for trial in study.trials()),
    }


def relabelled(path: Path, seed: int, folder: Path) -> Path:
    """A copy of the table that says the same under other names and orders."""
    rng = np.random.default_rng([seed, 7])
    with np.load(path, allow_pickle=False) as table:
        arrays = dict(table)
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


def summary(rows: Sequence[Mapping[str, Any]], budget: int) -> dict[str, Any]:
    """The JSON line of one table and strategy."""
    line: dict[str, Any] = {"table": rows[0]["table"], "strategy": rows[0]["strategy"], "seeds": len(rows)}
    if "final" in rows[0]:
        return line | {name: _mean([row[name] for row in rows]) for name in ("final", "test", "trials", "epochs")}
    line["budget"] = budget
    for queries in CHECKPOINTS:
        if queries <= budget:
            line[f"at{queries}"] = _mean([_at(row["trace"], queries) for row in rows])
    line["test"] = _mean([row["test"] for row in rows])
    line["found"] = sum(row["found_at"] is not None for row in rows) / len(rows)
    line["mean_queries"] = _mean([row["found_at"] or budget for row in rows])
    return line


def _at(trace: Sequence[tuple[int, float]], queries: int) -> float:
    return [value for at, value in trace if at <= queries][-1]


def _mean(values: Sequence[float | None]) -> list[float | None]:
    """Mean and standard deviation, six significant digits."""
    known = np.array([value for value in values if value is not None], dtype=float)
    return [float(f"{known.mean():.6g}"), float(f"{known.std():.6g}")] if len(known) else [None, None]


def find(table: str, data: str | None) -> Path:
    """The file of a table; SystemExit saying what is missing."""
    if Path(table).is_file():
        return Path(table)
    folder = Path(data or os.environ.get("NAS_BENCHMARK_DATA", "../shared/data"))
    path = folder / "tables" / f"{table}.npz"
    if not path.is_file():
        raise SystemExit(f"{path} is missing; give --data DIR or set NAS_BENCHMARK_DATA")
    return path


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_quality", description=__doc__)
    parser.add_argument("tables", nargs="+", metavar="TABLE")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an argument of the strategy")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--relabel", type=int)
    parser.add_argument("--protocol", choices=["Q", "T"], default="Q")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--rule", help="fidelity rule (protocol T: asha)")
    parser.add_argument("--data")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    timed = options.protocol == "T"
    if timed and not options.hours:
        parser.error("--protocol T needs --hours")
    settings = {name: json.loads(value) for name, _, value in (text.partition("=") for text in options.set)}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for table in options.tables:
            path = find(table, options.data)
            cases = [
                Case(
                    path,
                    options.strategy,
                    seed,
                    options.budget,
                    settings,
                    options.relabel,
                    options.workers,
                    options.hours if timed else None,
                    options.rule or ("asha" if timed else "none"),
                )
                for seed in range(options.seeds)
            ]
            rows = list(pool.map(run, cases))
            line = summary(rows, options.budget) | {"relabel": options.relabel}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
            _append(options.json, [line])
            _append(options.rows, rows)


def _append(file: Path | None, lines: Sequence[Mapping[str, Any]]) -> None:
    if file:
        with open(file, "a", encoding="utf-8") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()

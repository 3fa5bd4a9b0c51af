"""How good a strategy's search is, on tables of recorded results.

    python -m benchmarks.search_quality TABLE... --strategy S --seeds N --budget B [--relabel SEED] --json FILE
    python -m benchmarks.search_quality TABLE... --strategy S --seeds N --minimize latency_ms_raspi4 --budget 192
    python -m benchmarks.search_quality TABLE... --strategy S --seeds N --protocol T --workers W --hours H [--rule asha]
    python -m benchmarks.search_quality --compare ROWS --at N --first S --second S
    python -m benchmarks.search_quality --markdown JSON

Protocol Q: every distinct code costs a query, also one that has no row; the objective is that of the last fidelity.
With ``--minimize`` there are several objectives: measured are the share of the exact front that is found and the
hypervolume as a share of the exact front's. Protocol T: virtual time on W workers; the pick is the best seen objective,
judged at the last fidelity. A TABLE is a file, or a name in DATA/tables, where DATA is ``--data``, else
NAS_BENCHMARK_DATA, else ../shared/data. ``--relabel`` permutes decisions and unordered options and replaces all names.
A run for one objective ends where it has found the optimum, since nothing can change any more. Drives the product's own
controller through its Python API; strategies ``optuna-random``, ``-tpe``, ``-gp``, ``-nsga2`` are Optuna's samplers
without us. ``--strategy closed-form`` is the expectation of random search. ``--compare`` pairs the rows of two
strategies by table and seed, and gives the mean difference with its 95 % interval (t distribution); ``--markdown`` sets
the lines of a JSON file as tables, as is done at the end of each measurement. Rows and lines say under ``how`` what was
searched otherwise than by protocol Q alone; those that differ in it are never compared or set in one table.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import isfinite, sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import t as student

import nas
from benchmarks import bare_optuna
from benchmarks.tables import Row, Table, find, relabelled
from nas.study import Study

Queries: TypeAlias = Sequence[Mapping[str, float] | None]
CHECKPOINTS = (50, 100, 192, 300, 500)


@dataclass(frozen=True)
class Case:
    """One search."""

    table: Path
    strategy: str
    seed: int
    budget: int
    settings: Mapping[str, Any]
    minimize: tuple[str, ...] = ()
    relabel: int | None = None
    workers: int = 1
    hours: float | None = None
    rule: str = "none"
    least: float | None = None

    @property
    def how(self) -> Row:
        """What is otherwise than in protocol Q on one worker, plain values by name."""
        given = {
            "relabel": self.relabel,
            "minimize": list(self.minimize) or None,
            "workers": self.workers if self.workers > 1 else None,
            "hours": self.hours,
            "rule": self.rule if self.rule != "none" else None,
            "min": self.least,
            "set": dict(self.settings) or None,
        }
        return {name: value for name, value in given.items() if value is not None}


def run(case: Case) -> Row:
    """Search once; return the row of the case."""
    with tempfile.TemporaryDirectory() as place:
        path = case.table if case.relabel is None else relabelled(case.table, case.relabel, Path(place))
        table = Table(path, case.minimize)
        row = {"table": case.table.stem, "strategy": case.strategy, "seed": case.seed, "how": case.how}
        if case.hours:
            return row | _timed(_search(case, table, Path(place)), table)
        if case.strategy in bare_optuna.SAMPLERS:
            queried: Queries = bare_optuna.queries(table, case.strategy, case.seed, case.budget)
        else:
            trials = _search(case, table, Path(place)).trials()
            queried = [trial.metrics if trial.rungs else None for trial in trials if trial.launches]
        return row | (_fronts(queried, table, case.budget) if case.minimize else _bests(queried, table))


def _search(case: Case, table: Table, place: Path) -> Study:
    levels = table.task.fidelities
    alone = not case.minimize
    budget = {"hours": case.hours} if case.hours else {"trials": case.budget}
    return nas.search(
        folder=place / "study",
        search={
            "task": f"table:{table.task.path}",
            "strategy": case.strategy,
            "seed": case.seed,
            **budget,
            **({"target": table.optimum} if alone and not case.hours else {}),
        },
        strategy=dict(case.settings),
        objectives={objective.name: objective.direction.value for objective in table.objectives.objectives},
        fidelity=(
            {"rule": "none", "max": levels[-1]}
            if case.rule == "none"
            else {"rule": case.rule, "min": case.least or levels[0], "max": levels[-1], "eta": 3}
        ),
        cluster={"executor": "simulated", "max_devices": case.workers},
    )


def _bests(queried: Queries, table: Table) -> Row:
    """``trace``: queries (from 1) at which the best changed, and to what; ``found_at``: that of the optimum."""
    best, pick, trace = -np.inf, None, []
    for at, metrics in enumerate(queried, 1):
        value = table.sign * metrics[table.objective] if metrics else -np.inf
        if isfinite(value) and value > best:
            best, pick = value, metrics
            trace.append((at, table.sign * best))
    found = trace[-1][0] if trace and trace[-1][1] == table.optimum else None
    return {"found_at": found, "test": pick.get(table.test) if pick else None, "trace": trace}


def _fronts(queried: Queries, table: Table, budget: int) -> Row:
    """At each checkpoint the share of the exact front found, and the hypervolume as a share of the exact front's.

    A search that ended before a checkpoint, repeating itself, keeps what it had.
    """
    costs = [table.objectives.costs(metrics) for metrics in queried if metrics]
    reached = [queries for queries in CHECKPOINTS if queries <= budget]
    counts = {queries: sum(metrics is not None for metrics in queried[:queries]) for queries in reached}
    return {
        "front": {queries: len(table.front & set(costs[: counts[queries]])) / len(table.front) for queries in reached},
        "volume": {queries: table.covered(costs[: counts[queries]]) for queries in reached},
    }


def _timed(study: Study, table: Table) -> Row:
    objective = table.objective
    seen = [
        (table.sign * measurement.metrics[objective], trial)
        for trial in study.trials()
        for measurement in trial.rungs.values()
        if isfinite(measurement.metrics[objective])
    ]
    if not seen:
        return {"final": None, "test": None, "trials": study.launched, "epochs": 0}
    pick = max(seen, key=lambda entry: entry[0])[1]
    final = table.task.measure(pick.proposal.candidate.architecture, table.task.fidelities[-1])
    return {
        "final": final[objective],
        "test": final.get(table.test),
        "trials": study.launched,
        "epochs": sum(trial.fidelity for trial in study.trials()),
    }


def summary(rows: Sequence[Row], budget: int) -> Row:
    """The JSON line of one table and strategy."""
    line: Row = {name: rows[0][name] for name in ("table", "strategy", "how")} | {"seeds": len(rows)}
    if "final" in rows[0]:
        return line | {name: _mean([row[name] for row in rows]) for name in ("final", "test", "trials", "epochs")}
    line["budget"] = budget
    reached = [queries for queries in CHECKPOINTS if queries <= budget]
    if "front" in rows[0]:
        for queries in reached:
            line[f"front{queries}"] = _mean([row["front"][queries] for row in rows])
            line[f"volume{queries}"] = _mean([row["volume"][queries] for row in rows])
        return line
    for queries in reached:
        line[f"at{queries}"] = _mean([value_at(row, queries) for row in rows])
    line["test"] = _mean([row["test"] for row in rows])
    line["found"] = sum(row["found_at"] is not None for row in rows) / len(rows)
    line["mean_queries"] = _mean([row["found_at"] or budget for row in rows])
    return line


def value_at(row: Row, queries: int) -> float | None:
    """The best objective after so many queries, or the share of the front's hypervolume; None before there is one."""
    known = {int(at): value for at, value in row["volume"].items()} if "volume" in row else {}
    before = [value for at, value in row.get("trace", []) if at <= queries]
    return before[-1] if before else known.get(queries)


def compare(rows: Iterable[Row], first: str, second: str, queries: int) -> list[Row]:
    """Mean of ``first`` minus ``second`` over the seeds that both have, a table at a time, with its 95 % interval.

    Rows of the one and the other are paired where they were searched alike.
    """
    by: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for row in rows:
        value = row["final"] if "final" in row else value_at(row, queries)
        if value is not None:
            by.setdefault((row["table"], _how(row)), {}).setdefault(row["strategy"], {})[row["seed"]] = value
    lines = []
    for (table, how), of in sorted(by.items()):
        ours, theirs = of.get(first, {}), of.get(second, {})
        differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
        if len(differences) > 1:
            half = student.ppf(0.975, len(differences) - 1) * stdev(differences) / sqrt(len(differences))
            line = {"table": table, "how": json.loads(how), "first": first, "second": second, "at": queries}
            lines.append(line | {"seeds": len(differences), "difference": mean(differences), "interval": half})
    return lines


def markdown(lines: Sequence[Row]) -> str:
    """Tables of strategies x tables, for each way of searching.

    By protocol Q for one objective: mean queries to the optimum (share of runs that found it), and the mean at 192;
    else each measure with its deviation.
    """
    parts = []
    for how in dict.fromkeys(map(_how, lines)):
        alike = [line for line in lines if _how(line) == how]
        titles = {"mean queries to the optimum (found)": _queries_cell, "N = 192": _value_cell}
        if "mean_queries" not in alike[0]:
            measures = [name for name, value in alike[0].items() if isinstance(value, list)]
            titles = {name: partial(_cell, name) for name in measures}
        if how != "{}":
            parts.append(f"{how}\n")
        tables = list(dict.fromkeys(line["table"] for line in alike))
        by = {(line["strategy"], line["table"]): line for line in alike}
        for title, cell in titles.items():
            parts.append(f"| {title} | " + " | ".join(tables) + " |\n" + "|---" * (len(tables) + 1) + "|")
            for strategy in dict.fromkeys(line["strategy"] for line in alike):
                cells = [cell(by[strategy, table]) if (strategy, table) in by else "" for table in tables]
                parts.append(f"| {strategy} | " + " | ".join(cells) + " |")
            parts.append("")
    return "\n".join(parts)


def _how(row: Row) -> str:
    return json.dumps(row.get("how", {}), sort_keys=True)


def _queries_cell(line: Row) -> str:
    return f"{line['mean_queries'][0]:.0f} ({line['found']:.2f})"


def _value_cell(line: Row) -> str:
    return _cell("at192", line)


def _cell(name: str, line: Row) -> str:
    value, deviation = line.get(name, (None, None))
    return "" if value is None else f"{value:.6g} ({deviation:.2g})"


def _mean(values: Sequence[float | None]) -> list[float | None]:
    """Mean and standard deviation, six significant digits."""
    known = np.array([value for value in values if value is not None], dtype=float)
    return [float(f"{known.mean():.6g}"), float(f"{known.std():.6g}")] if len(known) else [None, None]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_quality", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an argument of the strategy")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--minimize", action="append", default=[], metavar="METRIC", help="one more objective")
    parser.add_argument("--relabel", type=int)
    parser.add_argument("--protocol", choices=["Q", "T"], default="Q")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--rule", help="fidelity rule (protocol T: asha)")
    parser.add_argument("--min", type=float, help="its lowest fidelity (the table's)")
    parser.add_argument("--compare", type=Path, metavar="ROWS")
    parser.add_argument("--markdown", type=Path, metavar="JSON")
    parser.add_argument("--at", type=int, default=192)
    parser.add_argument("--first", default="auto")
    parser.add_argument("--second", default="evolution")
    parser.add_argument("--data")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=Path)
    return parser


def main() -> None:
    """Measure as the command line says."""
    parser = _parser()
    options = parser.parse_args()
    if options.compare:
        compared = compare(map(json.loads, options.compare.open()), options.first, options.second, options.at)
        _say(compared, options.json)
        return
    if options.markdown:
        sys.stdout.write(markdown(list(map(json.loads, options.markdown.open()))))
        return
    timed = options.protocol == "T"
    if timed and not options.hours:
        parser.error("--protocol T needs --hours")
    if options.strategy == "closed-form":
        for name in options.tables:
            table = Table(find(name, options.data))
            _say([{"table": name} | {f"at{n}": table.expected_best(n) for n in CHECKPOINTS}], options.json)
        return
    if timed and options.strategy in bare_optuna.SAMPLERS:
        parser.error(
            f"{options.strategy} is asked without the product, which has the clock of protocol T; use protocol Q"
        )
    settings = {name: json.loads(value) for name, _, value in (text.partition("=") for text in options.set)}
    lines = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for name in options.tables:
            path = find(name, options.data)
            cases = [
                Case(
                    path,
                    options.strategy,
                    seed,
                    options.budget,
                    settings,
                    tuple(options.minimize),
                    options.relabel,
                    options.workers,
                    options.hours if timed else None,
                    options.rule or ("asha" if timed else "none"),
                    options.min,
                )
                for seed in range(options.seeds)
            ]
            rows = list(pool.map(run, cases))
            lines.append(summary(rows, options.budget))
            _say(lines[-1:], options.json)
            _append(options.rows, rows)
    sys.stdout.write("\n" + markdown(lines))


def _say(lines: Sequence[Row], file: Path | None) -> None:
    for line in lines:
        sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    _append(file, lines)


def _append(file: Path | None, lines: Sequence[Row]) -> None:
    if file:
        with open(file, "a", encoding="utf-8") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()

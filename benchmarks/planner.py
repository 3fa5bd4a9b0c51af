"""How well the cost model prices and plans, on machines that others measured.

    python -m benchmarks.planner vtrain [--json FILE] [--rows FILE] [--first N] [--seeds N] [--calibrate N] [--data DIR]
    python -m benchmarks.planner pipedream [--json FILE] [--rows FILE] [--data DIR]
    python -m benchmarks.planner {memory,analyse,cpu,plans} [--json FILE] [--rows FILE]

``vtrain``: training iterations of GPT on 8 A100. Calibration rows are drawn uniformly, rates are fitted to them, what
the fit leaves is learnt, and all other rows are predicted; then each group of plans for one model, batch and number of
GPUs is decided by prediction. ``pipedream``: stages of measured operator graphs, against the best contiguous cut of any
topological order, and their work and depth. ``memory``: the peak of a training step of networks of all built-in spaces,
against torch's tracker of real steps on the CPU. ``analyse``: milliseconds on one core to build a network on the meta
device, to trace its step and to take work, depth and memory from the graph. ``cpu``: steps of the product's own
training loop on one core, of candidates of three built-in spaces, predicted from a calibration beforehand. ``plans``:
steps of trials of one and two ranks on Ray, and whether the faster plan is chosen. All write a
line a measure (``measure, value, aim, best_known, met``; an aim of null is not judged) to ``--json``, and a line a case
with prediction and truth, or with its timing, to ``--rows``. The models are the product's (trainers/parallelism,
search_spaces, cluster); DATA is ``--data``, else NAS_BENCHMARK_DATA, else ../shared/data.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Row: TypeAlias = dict[str, Any]


class Measure(NamedTuple):
    """One figure; ``aim`` is ("<=" or ">=", number) or nothing."""

    measure: str
    value: float
    aim: tuple[str, float] | None = None
    best_known: float | None = None

    @property
    def line(self) -> Row:
        """As it is written."""
        if self.aim is None:
            return {
                "measure": self.measure,
                "value": self.value,
                "aim": None,
                "best_known": self.best_known,
                "met": None,
            }
        sign, bound = self.aim
        met = self.value <= bound if sign == "<=" else self.value >= bound
        aim = f"{sign} {bound}"
        return {"measure": self.measure, "value": self.value, "aim": aim, "best_known": self.best_known, "met": met}


Benchmark: TypeAlias = Callable[[Path, argparse.Namespace], tuple[list[Measure], list[Row]]]


def _vtrain(data: Path, options: argparse.Namespace) -> tuple[list[Measure], list[Row]]:
    from benchmarks.plan_choice import measure

    return measure(data / "vtrain", range(options.first, options.first + options.seeds), options.calibrate)


def _pipedream(data: Path, options: argparse.Namespace) -> tuple[list[Measure], list[Row]]:
    from benchmarks.stage_cuts import measure

    del options
    return measure(data / "pipedream")


def _memory(data: Path, options: argparse.Namespace) -> tuple[list[Measure], list[Row]]:
    from benchmarks.step_memory import measure

    del data, options
    return measure()


def _analyse(data: Path, options: argparse.Namespace) -> tuple[list[Measure], list[Row]]:
    from benchmarks.analysing import measure

    del data, options
    return measure()


def _cpu(data: Path, options: argparse.Namespace) -> tuple[list[Measure], list[Row]]:
    from benchmarks.cpu_steps import measure

    del data, options
    return measure()


def _plans(data: Path, options: argparse.Namespace) -> tuple[list[Measure], list[Row]]:
    from benchmarks.trained_plans import measure

    del data, options
    return measure()


BENCHMARKS: Mapping[str, Benchmark] = {
    "vtrain": _vtrain,
    "pipedream": _pipedream,
    "memory": _memory,
    "analyse": _analyse,
    "cpu": _cpu,
    "plans": _plans,
}


def main(arguments: Iterable[str] | None = None) -> None:
    """Measure, print the table, write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--data")
    parser.add_argument("--first", type=int, default=0, help="vtrain: the first seed")
    parser.add_argument("--seeds", type=int, default=20, help="vtrain: number of seeds")
    parser.add_argument("--calibrate", type=int, default=30, help="vtrain: rows to calibrate with")
    options = parser.parse_args(None if arguments is None else list(arguments))
    data = Path(options.data or os.environ.get("NAS_BENCHMARK_DATA", "../shared/data"))
    measures, rows = BENCHMARKS[options.benchmark](data, options)
    lines = [measure.line for measure in measures]
    sys.stdout.write(table(lines))
    for path, content in ((options.json, lines), (options.rows, rows)):
        if path:
            path.write_text("".join(json.dumps(line) + "\n" for line in content), encoding="utf-8")


def table(lines: Iterable[Row]) -> str:
    """Measures as Markdown."""
    said = {True: "yes", False: "no", None: ""}
    rows = ["| measure | value | aim | best known | met |", "|---|---|---|---|---|"]
    for line in lines:
        known = "" if line["best_known"] is None else f"{line['best_known']:.4g}"
        rows.append(
            f"| {line['measure']} | {line['value']:.4g} | {line['aim'] or ''} | {known} | {said[line['met']]} |"
        )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()

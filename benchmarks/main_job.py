"""The main job's strategy against random search, at equal device-seconds.

    python -m benchmarks.main_job --seeds 5 --device-hours 0.03 --json FILE --rows FILE

Runs `nas search` for each seed once as it is and once with ``strategy = "random"``, both until the same device-hours
are spent, and compares the hypervolumes of their fronts. The costs are the error (1 - val_accuracy) and the parameters,
plain and as log10; the reference is an error of 0.1 at 250,000 parameters (the space's largest network has 241,000).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from math import log10
from pathlib import Path
from statistics import median
from typing import Any

import nas
from nas.pareto import hypervolume

_ERROR, _PARAMETERS = 0.1, 250_000


def run(strategy: str, seed: int, device_hours: float, settings: list[str], folder: Path) -> dict[str, Any]:
    """Search once; the measures of its front."""
    command = [sys.executable, "-m", "nas", "search", "--dir", str(folder)]
    own = [f"search.strategy={strategy}", f"search.seed={seed}", f"search.device_hours={device_hours}"]
    for setting in [*own, *settings]:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    study = nas.load(folder)
    points = [(1 - trial.metrics["val_accuracy"], trial.metrics["parameters"]) for trial in study.front()]
    return {
        "strategy": strategy,
        "seed": seed,
        "trials": study.launched,
        "completed": study.counts().get("completed", 0),
        "device_seconds": study.device_seconds,
        "seconds": study.seconds,
        "front": points,
        "hypervolume": hypervolume(points, (_ERROR, _PARAMETERS)) / (_ERROR * _PARAMETERS),
        "log_hypervolume": hypervolume([(e, log10(p)) for e, p in points], (_ERROR, log10(_PARAMETERS))) / _ERROR,
    }


def main() -> None:
    """Run and compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.main_job", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device-hours", type=float, default=0.03)
    parser.add_argument("--strategy", default="evolution", help="evolution, unless you compare another one")
    parser.add_argument("--set", action="append", default=[], help="a setting of the strategy's runs, as of nas search")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for seed in range(options.seeds):
            for strategy, settings in ((options.strategy, options.set), ("random", [])):
                row = run(strategy, seed, options.device_hours, settings, Path(place) / f"{strategy}-{seed}")
                rows.append(row)
                shown = {name: value for name, value in row.items() if name != "front"}
                sys.stdout.write(json.dumps(shown) + "\n")
                sys.stdout.flush()
    measure: dict[str, Any] = {"measure": "main_job", "seeds": options.seeds, "device_hours": options.device_hours}
    for volume in ("hypervolume", "log_hypervolume"):
        by: dict[str, list[float]] = {options.strategy: [], "random": []}
        for row in rows:
            by[row["strategy"]].append(row[volume])
        differences = [ours - random for ours, random in zip(*by.values(), strict=True)]
        measure[volume] = {name: median(values) for name, values in by.items()}
        measure[volume] |= {"difference": median(differences), "ahead": sum(value > 0 for value in differences)}
    sys.stdout.write(json.dumps(measure) + "\n")
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(json.dumps(measure) + "\n")
    if options.rows:
        options.rows.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()

"""A strategy against random search in real training: `convnet` on CIFAR-10, at equal device-seconds.

    python -m benchmarks.real_search --seeds 5 --device-hours 0.15 --json FILE --rows FILE

Searches architecture, learning rate, weight decay and batch size of networks for 10,000 images, each seed once with the
strategy and once at random, under ASHA with 1 to 9 epochs; compared is the best validation accuracy at 9 epochs.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import nas
from benchmarks import cifar10
from benchmarks.search_quality import compare

_SPACE = {
    "stages": [2, 3],
    "depth": [1, 2],
    "widths": [8, 16, 32],
    "stem_strides": [2],
    "strides": [1, 2],
    "squeezes": [False, True],
}
_FIDELITY = {"rule": "asha", "min": 1, "max": 9, "eta": 3, "unit": "epoch"}
_HYPERPARAMETERS = {
    "learning_rate": {"low": 1e-3, "high": 0.3, "log": True},
    "weight_decay": {"low": 1e-5, "high": 1e-2, "log": True},
    "batch_size": [32, 64, 128],
}


def run(strategy: str, seed: int, device_hours: float, data: str, folder: Path, devices: int | None) -> dict[str, Any]:
    """Search once; the row of the search."""
    study = nas.search(
        folder=folder,
        search={
            "space": "convnet",
            "task": "benchmarks.cifar10:Cifar10",
            "strategy": strategy,
            "seed": seed,
            "device_hours": device_hours,
        },
        task={"path": data},
        space=_SPACE,
        objectives={"val_accuracy": "maximize"},
        hyperparameters=_HYPERPARAMETERS,
        fidelity=_FIDELITY,
        cluster={"max_devices": devices} if devices else {},
    )
    best = study.best()
    ended = [trial.metrics["val_accuracy"] for trial in study.trials() if trial.fidelity == _FIDELITY["max"]]
    return {
        "table": "convnet on CIFAR-10",
        "strategy": strategy,
        "seed": seed,
        "final": max(ended, default=0.0),
        "trials": study.launched,
        "completed": len(ended),
        "device_seconds": study.device_seconds,
        "seconds": study.seconds,
        "candidate": str(best.proposal.candidate) if best else None,
    }


def main() -> None:
    """Run and compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_search", description=__doc__)
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device-hours", type=float, default=0.15)
    parser.add_argument("--devices", type=int, help="devices used at most; all unless given")
    parser.add_argument("--data")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    data = cifar10.path(options.data)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for seed in range(options.seeds):
            for strategy in (options.strategy, "random"):
                folder = Path(place) / f"{strategy}-{seed}"
                rows.append(run(strategy, seed, options.device_hours, data, folder, options.devices))
                _write(options.rows, rows[-1])
    for line in compare(rows, options.strategy, "random", 0):
        _write(options.json, line | {"device_hours": options.device_hours})


def _write(file: Path | None, line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    if file:
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

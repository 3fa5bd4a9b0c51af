"""What orchestration costs: controller, scheduler and log, without any training.

    python -m benchmarks.orchestration simulated --trials 100000 --json FILE

`simulated`: random search on `mlp` and a learning rate under asha with three rungs, eight simulated workers, default
durability, on a virtual clock. `trials_per_second` counts launched trials over the whole session, from the opening of
the log to its closing; `last_over_first` is the time of the last tenth of the trials over that of the first tenth;
`replay_seconds` the reading of the log into a Study.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

import nas
from nas import session
from nas.config import SearchConfig
from nas.config_text import complete
from nas.study import Study
from trainers import Measurement


class Stopwatch:
    """Notes when each tenth of the trials had been launched."""

    def __init__(self, trials: int) -> None:
        self._trials = trials
        self.times = [perf_counter()]

    def __call__(self, study: Study, live: Mapping[int, Measurement]) -> None:
        """Watch a turn of the search."""
        while study.launched * 10 >= self._trials * len(self.times) and len(self.times) <= 10:
            self.times.append(perf_counter())


def simulated(trials: int, strategy: str = "random", folder: Path | None = None) -> dict[str, float]:
    """Run one simulated search of ``trials`` trials and replay its log."""
    config = SearchConfig.from_plain(
        complete(
            {
                "search": {"space": "mlp", "trainer": "synthetic", "strategy": strategy, "trials": trials, "seed": 0},
                "hyperparameters": {"learning_rate": {"low": 1e-4, "high": 1.0, "log": True}},
                "objectives": {"val_accuracy": "maximize"},
                "fidelity": {"rule": "asha", "min": 1, "max": 9, "eta": 3},
                "cluster": {"executor": "simulated", "max_devices": 8},
            }
        )
    )
    with tempfile.TemporaryDirectory(dir=folder) as place:
        study_folder = Path(place) / "study"
        watch = Stopwatch(trials)
        began = perf_counter()
        ending = session.run(config, study_folder, watch)
        seconds = perf_counter() - began
        with open(study_folder / "events.jsonl", "rb") as log:
            lines = sum(1 for _ in log)
        began = perf_counter()
        replayed = nas.load(study_folder)
        replay_seconds = perf_counter() - began
    if replayed.counts() != ending.study.counts() or replayed.launched != trials:
        raise SystemExit(f"the log replays to {replayed.counts()}, the search ended with {ending.study.counts()}")
    tenths = [after - before for before, after in zip(watch.times, watch.times[1:], strict=False)]
    return {
        "trials": trials,
        "seconds": seconds,
        "trials_per_second": trials / seconds,
        "last_over_first": tenths[-1] / tenths[0],
        "log_lines": lines,
        "replay_seconds": replay_seconds,
    }


def main() -> None:
    """Run the measure that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orchestration", description=__doc__)
    measures = parser.add_subparsers(dest="measure", required=True)
    command = measures.add_parser("simulated")
    command.add_argument("--trials", type=int, default=1000)
    command.add_argument("--strategy", default="random")
    command.add_argument("--json", type=Path, help="append the measure to FILE as one JSON line")
    options = parser.parse_args()
    measure = {"measure": options.measure, "strategy": options.strategy}
    measure |= simulated(options.trials, options.strategy)
    line = json.dumps(measure)
    sys.stdout.write(line + "\n")
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()

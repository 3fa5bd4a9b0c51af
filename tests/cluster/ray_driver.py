"""A driver in a process of its own: starts a local Ray, says what it has, and ends as its argument says."""

import json
import sys
from pathlib import Path
from tempfile import gettempdir

from cluster.ray_backend import RayExecutor
from cluster.session import Processes
from tests.cluster.ray_bench import Bench, recipe


def _session_folder() -> Path:
    return next(Path(gettempdir()).glob("nas-ray-*"))


def main(study: Path, ending: str) -> None:
    """``close``: end in order; ``wait``: run a leg for ever, to be killed."""
    executor = RayExecutor(recipe(study), max_devices=1)
    bench = Bench(executor)
    print(type(bench.run("report")).__name__, flush=True)
    if ending == "wait":
        bench.launch("block")
        while not (study / "trials" / "00001" / "rank0.log").is_file():
            executor.poll(0.05)
    print(json.dumps(Processes(_session_folder()).alive()), flush=True)
    if ending == "close":
        executor.close(5.0)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""A driver in a process of its own: starts a local Ray, says what it has, and ends as its argument says."""

import sys
from pathlib import Path

from cluster.ray_backend import RayExecutor
from tests.cluster.ray_bench import Bench, recipe


def main(study: Path, ending: str) -> None:
    """``close``: end in order; ``wait``: run a leg for ever, to be killed."""
    executor = RayExecutor(recipe(study), max_devices=1)
    bench = Bench(executor)
    print(type(bench.run("report")).__name__, flush=True)
    if ending == "wait":
        bench.launch("block")
        while not (study / "trials" / "00001" / "rank0.log").is_file():
            executor.poll(0.05)
    print("ready", flush=True)
    if ending == "close":
        executor.close(5.0)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

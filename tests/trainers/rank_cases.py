"""Runs on each of two ranks: legs of several kinds, one after the other; what they measured is written as JSON."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from search_spaces import Candidate
from tests.trainers.trainer_samples import Bars, candidate, recipe, run
from trainers import Plan, Runner

CASES: dict[str, tuple[Candidate, Any, dict[str, Any]]] = {
    "plain": (candidate(batch_size=63), "digits", {}),
    "adamw": (candidate(batch_size=64, optimizer="adamw", learning_rate=0.02), "digits", {}),
    "idle": (candidate(batch_size=1, learning_rate=0.01), Bars, {}),
    "global": (candidate("norm", batch_size=63), "digits", {"batch_norm": "global"}),
    "idle-global": (candidate("norm", batch_size=1, learning_rate=0.01), Bars, {"batch_norm": "global"}),
    "idle-local": (candidate("norm", batch_size=1, learning_rate=0.01), Bars, {}),
    "tiny": (candidate(batch_size=64), Bars(samples=6), {}),
}
EPOCHS = 3


def losses(measurements: list[Any]) -> list[dict[str, float]]:
    return [dict(measurement.metrics) for measurement in measurements]


def alone(folder: Path, name: str) -> list[dict[str, float]]:
    """The case in one process."""
    what, task, settings = CASES[name]
    measurements, failure = run(Runner(recipe(folder / name, task, settings=settings, maximum=EPOCHS)), what, EPOCHS)
    assert failure is None, failure
    return losses(measurements)


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    options = {"rank": rank, "world_size": 2, "plan": Plan(data=2)}
    found: dict[str, Any] = {}
    for name, (what, task, settings) in CASES.items():
        runner = Runner(recipe(folder / name, task, settings=settings, maximum=EPOCHS))
        measurements, failure = run(runner, what, EPOCHS, **options)
        found[name] = losses(measurements) if failure is None else failure.to_json()
    found |= _legs(folder, options) | _halts(folder, rank, options) | _mistakes(folder, rank, options)
    distributed.destroy_process_group()
    (folder / f"rank{rank}.json").write_text(json.dumps(found))


def _legs(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """In legs, on the kept learner and on a fresh one, with local batch statistics."""
    found = {}
    for name, live in (("live", True), ("reloaded", False)):
        measurements = []
        runner = Runner(recipe(folder / name, maximum=EPOCHS))
        for until in (1, EPOCHS):
            runner = runner if live else Runner(recipe(folder / name, maximum=EPOCHS))
            leg, failure = run(runner, candidate("norm", batch_size=15), until, **options)
            assert failure is None, failure
            measurements += leg
        found[name] = losses(measurements)
    unbroken = Runner(recipe(folder / "unbroken", maximum=EPOCHS))
    found["unbroken"] = losses(run(unbroken, candidate("norm", batch_size=15), EPOCHS, **options)[0])
    return found


def _halts(folder: Path, rank: int, options: dict[str, Any]) -> dict[str, Any]:
    """Rank 0's word counts, whatever rank 1 has heard."""
    found = {}
    for told in (0, 1):
        runner = Runner(recipe(folder / f"halt{told}", maximum=EPOCHS))
        _, failure = run(runner, candidate(), EPOCHS, halted=lambda told=told: rank == told, **options)
        found[f"halt{told}"] = failure.kind.value if failure else None
    return found


def _mistakes(folder: Path, rank: int, options: dict[str, Any]) -> dict[str, Any]:
    other = Runner(recipe(folder / "other"))
    _, failure = run(other, candidate(width=4 + rank), 1, **options)
    found: dict[str, Any] = {"other": failure.to_json() if failure else None}
    shared = recipe(folder / "shared")
    run(Runner(shared), candidate(), 1, **options)
    apart = replace(shared, folder=folder / "apart") if rank else shared
    apart.folder.mkdir(exist_ok=True)
    _, failure = run(Runner(apart), candidate(), 2, **options)
    return found | {"apart": failure.to_json() if failure else None}


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # a thread of gloo's that is still ending may abort an interpreter that ends in order

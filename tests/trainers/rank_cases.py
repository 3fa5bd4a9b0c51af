"""Runs on each of two or four ranks: legs of several kinds, one after the other, and writes what they measured."""

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
RESHARDED = candidate("deep", batch_size=63, optimizer="adamw", learning_rate=0.02)

PIPED: dict[int, dict[str, tuple[str, Candidate, Any, dict[str, Any]]]] = {
    2: {
        "piped": ("pipeline=2", candidate(batch_size=63), "digits", {"gradient_norm": 0.5}),
        "piped-tiny": ("pipeline=2", candidate(batch_size=3), Bars(samples=12), {}),
        "piped-smooth": ("pipeline=2", candidate(batch_size=64, label_smoothing=0.1), "digits", {}),
        "piped-bfloat16": ("pipeline=2", candidate(batch_size=64), "digits", {"precision": "bfloat16"}),
        "piped-norm": ("pipeline=2", candidate("norm", batch_size=64), "digits", {}),
    },
    4: {
        "piped-4": (
            "pipeline=4,micro_batches=3",
            candidate("deep", batch_size=63, optimizer="adamw", learning_rate=0.02),
            "digits",
            {},
        ),
        "data-piped": ("data=2,pipeline=2", candidate("deep", batch_size=63), "digits", {}),
        "data-piped-idle": ("data=2,pipeline=2", candidate("deep", batch_size=1, learning_rate=0.01), Bars, {}),
    },
}
"""Of so many ranks: plan, candidate, task and settings."""


def losses(measurements: list[Any]) -> list[dict[str, float]]:
    return [dict(measurement.metrics) for measurement in measurements]


def alone(folder: Path, name: str) -> list[dict[str, float]]:
    """The case in one process."""
    what, task, settings = (CASES | {key: case[1:] for cases in PIPED.values() for key, case in cases.items()})[name]
    measurements, failure = run(Runner(recipe(folder / name, task, settings=settings, maximum=EPOCHS)), what, EPOCHS)
    assert failure is None, failure
    return losses(measurements)


def main(rank: int, world_size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world_size)
    found = _two(rank, folder) if world_size == 2 else {}
    for name, (plan, what, task, settings) in PIPED[world_size].items():
        runner = Runner(recipe(folder / name, task, settings=settings, maximum=EPOCHS))
        options = {"rank": rank, "world_size": world_size, "plan": Plan.parse(plan)}
        measurements, failure = run(runner, what, EPOCHS, **options)
        found[name] = losses(measurements) if failure is None else failure.to_json()
    distributed.destroy_process_group()
    (folder / f"rank{rank}.json").write_text(json.dumps(found))


def _two(rank: int, folder: Path) -> dict[str, Any]:
    options = {"rank": rank, "world_size": 2, "plan": Plan(data=2)}
    found: dict[str, Any] = {}
    for name, (what, task, settings) in CASES.items():
        runner = Runner(recipe(folder / name, task, settings=settings, maximum=EPOCHS))
        measurements, failure = run(runner, what, EPOCHS, **options)
        found[name] = losses(measurements) if failure is None else failure.to_json()
    found |= _legs(folder, options) | _halts(folder, rank, options) | _mistakes(folder, rank, options)
    return found | _resharded(folder, rank, options)


def _resharded(folder: Path, rank: int, options: dict[str, Any]) -> dict[str, Any]:
    """One trial under four plans, an epoch each, on the kept trainer."""
    runner = Runner(recipe(folder / "resharded", "digits", maximum=4))
    piped = options | {"plan": Plan.parse("pipeline=2")}
    found = []
    for until, how in ((1, piped), (2, options), (3, piped), (4, {})):
        if how or rank == 0:
            measurements, failure = run(runner, RESHARDED, until, **how)
            assert failure is None, failure
            found += losses(measurements)
    _, failure = run(Runner(recipe(folder / "uncut")), candidate("short"), 1, **piped)
    return {"resharded": found, "uncut": failure.to_json() if failure else None}


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
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)  # a thread of gloo's that is still ending may abort an interpreter that ends in order

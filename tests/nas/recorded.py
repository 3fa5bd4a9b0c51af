"""A study's event log written by hand: what commands and reports read long after a run."""

from collections.abc import Iterable
from pathlib import Path

import orjson

from nas.config_text import load_config
from nas.study import Study, load

RUNGS = (3, 9, 27)


def header(config):
    plain = config.to_plain()
    return {
        "event": "study",
        "schema": 1,
        "created": "2026-11-30T02:45:00+00:00",
        "seed": plain["search"]["seed"],
        "config": plain,
        "space": {},
        "objectives": plain["objectives"],
        "constraints": plain["constraints"],
        "versions": {"python": "3.11.7", "ray-nas": "0.1.0", "torch": "2.13.0"},
    }


def proposed(number, at, width=8, activation="relu", **more):
    return {
        "event": "proposed",
        "at": at,
        "trial": number,
        "architecture": {"depth": 1 + number % 3, "width": width, "activation": activation},
        "hyperparameters": {"learning_rate": 0.01 * (1 + number % 7)},
        "key": f"{number:024x}",
        "operator": "sample",
        "bracket": 0,
        "until": 3,
        "static": {"parameters": 100 * width},
        **more,
    }


def launched(number, at, leg=0, until=3):
    leg_of = {"trial": number, "leg": leg, "attempt": 0, "until": until}
    return {"event": "launched", "at": at, **leg_of, "plan": "data=1", "on": [["node", 1]]}


def measured(number, at, leg, fidelity, accuracy, then, **more):
    metrics = {"val_accuracy": accuracy, "train_loss": round(1 - accuracy, 3)}
    return [
        {
            "event": "reported",
            "at": at,
            "trial": number,
            "leg": leg,
            "fidelity": fidelity,
            "metrics": metrics,
            "seconds": 4.0,
        },
        {"event": "finished", "at": at, "trial": number, "leg": leg, "busy": 4.0, "then": then, **more},
    ]


def failed(number, at, kind, message, outcome, traceback=""):
    failure = {"kind": kind, "message": message, "stage": "train", "error": "ValueError", "traceback": traceback}
    record = {"event": "failed", "at": at, "trial": number, "leg": 0, "attempt": 0, "busy": 1.0, "failure": failure}
    return {**record, "then": "ended", "outcome": outcome}


def small(closed=True, constraints=()) -> list[dict]:
    """Six trials: two complete (0 and 1, both on the front), one paused, one in error, a duplicate, a rejected one."""
    config = load_config(None, ["search.trials=4", *constraints])
    records = [header(config), {"event": "opened", "at": 0.0, "config": config.to_plain()}]
    at = 0.0
    for number, width, accuracies in ((0, 16, (0.8, 0.9, 0.97)), (1, 8, (0.7, 0.85, 0.95)), (2, 24, (0.6,))):
        records.append(proposed(number, at, width))
        for leg, (rung, accuracy) in enumerate(zip(RUNGS, accuracies, strict=False)):
            if leg:
                records.append({"event": "promoted", "at": at, "trial": number, "until": rung})
            records.append(launched(number, at, leg, rung))
            at += 5.0
            last = rung == RUNGS[-1]
            then = {"then": "ended", "outcome": "completed"} if last else {"then": "paused"}
            records += measured(number, at, leg, rung, accuracy, **then)
    trace = 'File "own.py", line 3, in build\n  <script>alert(1)</script>'
    records += [proposed(3, at, 8, "<b>relu</b>"), launched(3, at)]
    records.append(failed(3, at + 2, "error", "bad <i>activation</i> & more", "error", trace))
    records.append(proposed(4, at + 2, 16, verdict="duplicate", of=0))
    records.append(proposed(5, at + 2, 999, verdict="infeasible", reason="parameters is 99900, the constraint is <= 9"))
    if closed:
        records.append({"event": "closed", "at": at + 2, "reason": "4 trials", "exit_code": 0, "final": True})
    return records


def write(folder: Path, records: Iterable[dict]) -> Study:
    """Write the log and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
    (folder / "events.jsonl").write_bytes(lines)
    return load(folder)

"""What hostile but ordinary users do."""

import json
import math

import numpy as np
import pytest

import nas
from nas.errors import AllFailedError, ConfigError, StorageError

INLINE = {"executor": "inline"}
FULL = {"rule": "none", "max": 3}
ONE = {"val_accuracy": "maximize"}


def search(folder, function, **tables):
    tables = {"objectives": ONE, "fidelity": FULL, "cluster": INLINE, **tables}
    chosen = {"space": "mlp", "trainer": function, "strategy": "random", "trials": 2, **tables.pop("search", {})}
    return nas.search(folder=folder, search=chosen, **tables)


def numpy_numbers(candidate, context):
    for epoch in np.arange(1, 4):
        context.report(epoch, {"val_accuracy": np.float32(0.5)})


def fails_after_its_report(candidate, context):
    context.report(context.until, {"val_accuracy": 0.5})
    context.report(context.until, {"val_accuracy": 0.5})


def removes_the_log(candidate, context):
    context.report(context.until, {"val_accuracy": 0.5})
    (context.recipe.folder / "events.jsonl").unlink(missing_ok=True)


def test_numpy_fidelities_and_metrics_are_numbers(tmp_path):
    study = search(tmp_path / "s", numpy_numbers)
    assert study.counts() == {"completed": 2}
    assert nas.load(tmp_path / "s").best().metrics["val_accuracy"] == 0.5


@pytest.mark.parametrize("seconds", ["abc", -5, math.nan])
def test_seconds_that_are_no_time_fail_the_trial(tmp_path, seconds):
    def train(candidate, context):
        context.report(context.until, {"val_accuracy": 0.5}, seconds=seconds)

    with pytest.raises(AllFailedError, match="seconds"):
        search(tmp_path / "s", train)


@pytest.mark.parametrize(
    ("metrics", "told"), [({1: 0.5}, "name"), ([0.5], "by name"), ({"val_accuracy": "x"}, "number")]
)
def test_metrics_that_are_none_are_told(tmp_path, metrics, told):
    def train(candidate, context):
        context.report(context.until, metrics)

    with pytest.raises(AllFailedError, match=told):
        search(tmp_path / "s", train)


def test_trials_that_all_fail_after_a_report_are_no_success(tmp_path):
    with pytest.raises(AllFailedError, match="increase strictly"):
        search(tmp_path / "s", fails_after_its_report)


def test_a_log_that_is_removed_stops_the_search(tmp_path):
    with pytest.raises(StorageError, match="gone"):
        search(tmp_path / "s", removes_the_log, search={"trials": 50})


@pytest.mark.parametrize("value", [math.inf, math.nan, 2**70, {1, 2}, np.float32(1), object()])
def test_what_the_record_cannot_keep_is_refused_with_its_key(tmp_path, value):
    with pytest.raises(ConfigError, match=r"trainer\.x"):
        search(tmp_path / "s", numpy_numbers, trainer={"x": value})


def test_code_that_fails_while_it_is_made_is_named(tmp_path):
    class Space:
        def __init__(self):
            raise KeyError("mine")

    class Quits:
        def __init__(self):
            raise SystemExit(9)

    for space in (Space, Quits):
        with pytest.raises(ConfigError, match=r"search\.space: making it failed at test_hostile"):
            search(tmp_path / "s", numpy_numbers, search={"space": space})


def test_an_eta_that_makes_rungs_without_end_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"fidelity\.eta"):
        search(tmp_path / "s", numpy_numbers, fidelity={"rule": "asha", "min": 3, "max": 27, "eta": 1.00000001})


def test_old_trials_without_their_log_are_not_taken_for_new_ones(tmp_path):
    search(tmp_path / "s", numpy_numbers)
    (tmp_path / "s" / "events.jsonl").unlink()
    with pytest.raises(nas.StudyError, match="choose another folder"):
        search(tmp_path / "s", numpy_numbers)


def test_a_narrower_plan_on_resume_is_kept_to(tmp_path):
    tables = {
        "search": {"space": "mlp", "trainer": "synthetic", "trials": 4},
        "objectives": ONE,
        "fidelity": {"rule": "asha", "min": 1, "max": 9},
    }
    folder = tmp_path / "s"
    two = {"executor": "simulated", "max_devices": 2}
    nas.search(folder=folder, trial={"plan": "data=2"}, cluster=two, **tables)
    log = folder / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:6]))  # killed while trials ran on two devices
    study = nas.resume(folder, trial={"plan": "data=1"}, cluster={"executor": "simulated", "max_devices": 1})
    assert study.launched == 4
    records = [json.loads(line) for line in log.read_bytes().splitlines()]
    resumed = max(at for at, record in enumerate(records) if record["event"] == "opened")
    launched = [record["plan"] for record in records[resumed:] if record["event"] == "launched"]
    assert set(launched) == {"data=1"}

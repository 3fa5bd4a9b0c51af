"""Why trials wait, from the record alone."""

import pytest

from nas.answers import status_answer
from nas.study import load
from nas.waiting import paused, waiting
from tests.nas import recorded
from tests.nas.recorded import failed, launched, proposed
from tests.nas.test_cli import nas  # noqa: F401 - a fixture


def study(folder, *events, devices=None, plan="auto", **cluster):
    settings = [f"trial.plan={plan}", *(f"cluster.{name}={value}" for name, value in cluster.items())]
    records = recorded.small(closed=False, constraints=settings)[:2]
    machines = [(devices, "cpu")] if isinstance(devices, int) else devices or ()
    if machines:
        names = ("node", "b", "c")  # trials run on the first
        records[1]["cluster"] = [[name, *machine] for name, machine in zip(names, machines, strict=False)]
    return recorded.write(folder, [*records, *events])


def retried(number, at, kind, plan="data=1"):
    record = failed(number, at, kind, "gone", "crashed")
    return {name: value for name, value in record.items() if name != "outcome"} | {"then": "retry", "plan": plan}


TWO = (proposed(0, 0.0), launched(0, 0.0), proposed(1, 0.0))


@pytest.mark.parametrize(
    ("events", "known", "why"),
    [
        (TWO, {"devices": 1}, "it needs 1 device, and 1 of 1 in use by 1 trial"),
        (TWO, {"devices": 4, "max_concurrent": 1}, "cluster.max_concurrent = 1, and so many trials run"),
        (TWO, {"devices": 4, "max_devices": 1}, "it needs 1 device, and 1 of cluster.max_devices = 1 in use"),
        (TWO, {}, "it needs 1 device, and 1 in use by 1 trial"),
        (TWO[:1], {"devices": 4}, "it needs 1 device, and devices are free: it is about to begin"),
        (TWO, {"devices": 2}, "it needs 1 device, and devices are free: it is about to begin"),
        (
            TWO,
            {"devices": [(1, "cpu"), (1, "gpu")]},
            "it needs 1 device, and devices are free: it is about to begin, unless machines have gone",
        ),
        (
            (*TWO, launched(1, 0.0), proposed(2, 0.0)),
            {"devices": 1},
            "it needs 1 device, and 2 in use by 2 trials",
        ),
        (TWO[:1], {"devices": 2, "plan": "data=4"}, "it needs 4 devices, and the machines have 2: it never fits"),
        (
            TWO[:1],
            {"devices": [(2, "cpu"), (2, "gpu")], "plan": "data=4"},
            "it needs 4 devices, and the machines have 4, not all of one kind: it never fits",
        ),
        (
            TWO,
            {"devices": [(2, "cpu"), (1, "gpu")], "plan": "data=2"},
            "it needs 2 devices, and 1 of 3 in use by 1 trial, no more of one kind being free",
        ),
        (
            (*TWO, launched(1, 0.0), retried(1, 1.0, "out_of_memory", "data=2")),
            {"devices": 2},
            "another attempt after out of memory: it needs 2 devices, and 1 of 2 in use by 1 trial",
        ),
    ],
)
def test_a_waiting_trial_says_what_it_waits_for(tmp_path, events, known, why):
    (one,) = waiting(study(tmp_path, *events, **known), written=True)
    assert (one.trial, one.until, one.why) == (max(event["trial"] for event in events), 3, why)


CLOSED = {"event": "closed", "at": 1.0, "reason": "x", "exit_code": 130, "final": False}


@pytest.mark.parametrize("ending", [[CLOSED], []], ids=["interrupted", "killed"])
def test_without_a_writer_all_that_is_open_waits_for_one(tmp_path, ending):
    open_study = study(tmp_path, *TWO, *ending)
    told = {one.trial: one.why for one in waiting(open_study, written=False)}
    assert told == {
        0: "it was broken off, and nobody goes on with the search",
        1: "it has not begun, and nobody goes on with the search",
    }


def test_who_runs_paused_or_ended_waits_for_no_device(tmp_path):
    assert paused(recorded.write(tmp_path / "closed", recorded.small()), written=False) == []
    whole = recorded.write(tmp_path, recorded.small(closed=False))
    assert waiting(whole, written=True) == []
    assert paused(whole, written=True) == ["1 trial paused at 3 epochs; the better ones will go on to 9"]
    assert paused(whole, written=False) == ["1 trial paused at 3 epochs"]
    assert status_answer(whole, None)["waiting"] == []


def test_status_tells_it(tmp_path, nas):  # noqa: F811
    study(tmp_path, *TWO)
    code, out, _ = nas("status", tmp_path)
    assert code == 0
    assert "trial 1 waits for its leg to 3 epochs: it has not begun, and nobody goes on with the search" in out


def test_a_session_records_the_machines_that_it_began_with(tmp_path, nas):  # noqa: F811
    dry = ["--set", "cluster.executor=simulated", "--set", "search.trainer=synthetic", "--trials", "2"]
    assert nas("search", *dry, "--set", "cluster.max_devices=3", "--dir", tmp_path / "s")[0] == 0
    assert sum(machine.devices for machine in load(tmp_path / "s").machines) == 3

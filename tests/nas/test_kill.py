"""A search on Ray that is killed five times ends with exactly the trials that were asked for."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pytest

import nas

MARK = "NAS_TEST_MARK"
TRIALS = 24
KILLS = 5
CODE = """
import os, time

def train(candidate, context):
    time.sleep(0.15)  # stands for training
    state = {"legs": (context.checkpoint.state["legs"] if context.checkpoint else 0) + 1}
    with open(os.path.join(os.environ["LEGS"]), "a") as file:
        file.write(f"{context.trial} {context.start} {context.until}\\n")
    depth = candidate.architecture["depth"]
    context.report(context.until, {"val_accuracy": depth + candidate.hyperparameters["learning_rate"]}, state=state)
"""
CONFIG = f"""
[search]
space = "mlp"
task = "digits"
trainer = "killed:train"
trials = {TRIALS}
seed = 3
[objectives]
val_accuracy = "maximize"
[hyperparameters]
learning_rate = {{ low = 0.001, high = 0.1, log = true }}
[fidelity]
rule = "asha"
min = 1
max = 9
[cluster]
executor = "ray"
max_devices = 2
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "killed.py").write_text(CODE)
    (tmp_path / "search.toml").write_text(CONFIG)
    return tmp_path


def start(place, mark, *arguments):
    environment = {**os.environ, MARK: mark, "LEGS": str(place / "legs")}
    return subprocess.Popen(
        [sys.executable, "-m", "nas", *arguments],
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def marked(mark):
    """Processes that carry the mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]))
            except OSError:
                continue
    return found


def await_that(condition, seconds, message):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message()
        time.sleep(0.02)  # a look at another process's files, not a synchronisation


def lines(place):
    log = place / "study" / "events.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.slow
@pytest.mark.ray
def test_five_kills_lose_nothing_and_run_no_finished_leg_again(place):
    rng = np.random.default_rng(17)
    mark = uuid.uuid4().hex
    command = ["search", "search.toml", "--dir", "study"]
    for _ in range(KILLS):
        target = lines(place) + int(rng.integers(4, 25))
        process = start(place, mark, *command)
        await_that(
            lambda process=process, target=target: lines(place) >= target or process.poll() is not None,
            60,
            lambda: f"the log stays at {lines(place)} lines",
        )
        assert process.poll() is None, process.stderr.read().decode()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        await_that(lambda: not marked(mark), 20, lambda: f"left behind: {marked(mark)}")
        command = ["resume", "study"]
    process = start(place, mark, *command)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    await_that(lambda: not marked(mark), 5, lambda: f"left behind: {marked(mark)}")

    study = nas.load(place / "study")
    assert study.sessions == KILLS + 1
    assert study.launched == TRIALS
    assert sum(study.counts().values()) == TRIALS
    assert set(study.counts()) == {"completed", "stopped"}
    records = [orjson.loads(line) for line in (place / "study" / "events.jsonl").read_bytes().splitlines()]
    proposed = [record["trial"] for record in records if record["event"] == "proposed"]
    assert proposed == list(range(len(proposed)))
    finished = Counter((record["trial"], record["leg"]) for record in records if record["event"] == "finished")
    assert set(finished.values()) == {1}
    assert_no_finished_leg_ran_again(place, records)


def assert_no_finished_leg_ran_again(place, records):
    """A leg runs again only while its measurement was not on record, and never twice in one session."""
    ran = Counter(tuple(map(float, line.split())) for line in (place / "legs").read_text().splitlines())
    reported = {
        (float(record["trial"]), float(record["fidelity"])) for record in records if record["event"] == "reported"
    }
    launches = Counter(
        (float(record["trial"]), float(record["until"])) for record in records if record["event"] == "launched"
    )
    after_report = set()
    for record in records:
        if record["event"] == "launched":
            assert (record["trial"], record["until"]) not in after_report
        if record["event"] == "reported":
            after_report.add((record["trial"], record["fidelity"]))
    assert {(trial, until) for trial, _, until in ran} == reported
    for (trial, _, until), times in ran.items():
        assert times <= launches[trial, until]


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_log_within_1_s_and_ends_all_within_5_s(place, number):
    mark = uuid.uuid4().hex
    process = start(place, mark, "search", "search.toml", "--dir", "study")
    await_that(lambda: lines(place) >= 8, 60, lambda: f"the log stays at {lines(place)} lines")
    process.send_signal(number)
    sent = time.monotonic()
    await_that(lambda: b'"closed"' in (place / "study" / "events.jsonl").read_bytes(), 1.5, lambda: "not closed")
    closed = time.monotonic() - sent
    process.communicate(timeout=10)
    await_that(lambda: not marked(mark), 5, lambda: f"left behind: {marked(mark)}")
    ended = time.monotonic() - sent
    assert process.returncode == 128 + number
    assert closed < 1.0
    assert ended < 5.0
    study = nas.load(place / "study")
    assert study.exit_code == 128 + number
    assert study.launched >= 1

"""Checkpoints are kept below a size: the front's and those of trials that may go on stay."""

from pathlib import Path

import pytest

import nas
from nas.retention import Retention

SIZE = 1000


@pytest.fixture
def study(tmp_path):
    """A finished study of eight trials, each with a checkpoint of SIZE bytes."""
    study = nas.search(
        folder=tmp_path / "s",
        search={"space": "mlp", "trainer": "synthetic", "strategy": "random", "trials": 8},
        objectives={"val_accuracy": "maximize"},
        fidelity={"rule": "none", "max": 3},
        cluster={"executor": "simulated", "max_devices": 2},
    )
    for trial in study.trials():
        folder = checkpoints(study, trial.number)
        folder.mkdir(parents=True)
        (folder / "3.ckpt").write_bytes(b"x" * SIZE)
    return study


def checkpoints(study, number) -> Path:
    return study.folder / "trials" / f"{number:05d}" / "checkpoints"


def kept(study):
    return {trial.number for trial in study.trials() if checkpoints(study, trial.number).exists()}


def test_below_the_size_nothing_goes(study):
    Retention(study.folder, 8 * SIZE).look(study, study[0])
    assert kept(study) == set(range(8))


def test_above_the_size_the_oldest_ended_go_first_and_the_front_stays(study):
    best = study.best().number
    Retention(study.folder, 3 * SIZE).look(study, study[0])
    ended = sorted((trial for trial in study.trials() if trial.number != best), key=lambda trial: trial.ended_at)
    assert kept(study) == {best, ended[-1].number}  # nine tenths of the size


def test_the_front_stays_whatever_the_size(study):
    Retention(study.folder, 1).look(study, study[0])
    assert kept(study) == {study.best().number}


def test_a_trial_that_is_held_loses_its_own_after_those_that_ended(study):
    paused, waiting = [trial for trial in study.trials() if trial.number != study.best().number][:2]
    paused.state, waiting.state = nas.State.PAUSED, nas.State.WAITING
    Retention(study.folder, 3.4 * SIZE).look(study, study[0])
    assert kept(study) == {study.best().number, paused.number, waiting.number}
    Retention(study.folder, 1).look(study, study[0])
    assert kept(study) == {study.best().number, waiting.number}


def test_what_is_there_before_a_session_counts(study):
    retention = Retention(study.folder, 4 * SIZE)
    (checkpoints(study, 7) / "9.ckpt").write_bytes(b"x" * SIZE)
    retention.look(study, study[7])
    assert len(kept(study)) <= 4

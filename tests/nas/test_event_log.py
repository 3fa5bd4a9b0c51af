"""The event log and its lock: nothing lost, nothing torn, one writer."""

import errno
import logging
import os
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nas
from nas import event_log
from nas.errors import StorageError, StudyError
from nas.event_log import FILE, EventLog, read
from nas.lock import Lock, owner, process_start
from nas.study import fold


def curve(candidate, context):
    """Learning by formula."""
    if candidate.architecture["depth"] == 3:
        raise RuntimeError("this depth fails")
    accuracy = float("nan") if candidate.architecture["depth"] == 4 else candidate.architecture["dropout"]
    context.report(context.until, {"val_accuracy": accuracy, "loss": float("inf")}, seconds=context.until)


@cache
def whole_log():
    """Bytes of a study's log that has every kind of record."""
    with TemporaryDirectory() as folder:
        nas.search(
            folder=folder,
            search={"space": "mlp", "task": "digits", "trainer": curve, "trials": 20, "seed": 1},
            objectives={"val_accuracy": "maximize"},
            fidelity={"rule": "asha", "min": 1, "max": 9},
            hyperparameters={"learning_rate": [0.1]},
            cluster={"executor": "simulated", "max_devices": 3},
        )
        return (Path(folder) / FILE).read_bytes()


def folder_with(folder, content):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_bytes(content)
    return folder


def state(study):
    """All of a study that can be asked."""
    return [
        (trial.number, trial.state, trial.outcome, repr(trial.rungs), trial.device_seconds, trial.leg, trial.reason)
        for trial in study.trials()
    ], (study.launched, study.rejected, study.duplicates, study.seconds, study.closed, study.device_seconds)


# Reading


@given(st.data())
def test_any_prefix_of_bytes_is_a_prefix_of_the_study(data):
    content = whole_log()
    cut = data.draw(st.integers(0, len(content)))
    with TemporaryDirectory() as folder:
        records = list(read(folder_with(folder, content[:cut])))
        assert records == [orjson.loads(line) for line in content.splitlines()[: content[:cut].count(b"\n")]]
        again = fold(Path(folder), records)
        writer = EventLog(Path(folder))
        writer.close()
        assert (Path(folder) / FILE).read_bytes() == content[: content.rfind(b"\n", 0, cut) + 1]
        assert state(fold(Path(folder), read(Path(folder)))) == state(again)


def test_a_study_read_back_is_the_study_that_was_searched(tmp_path):
    assert state(nas.load(folder_with(tmp_path, whole_log()))) == state(
        fold(tmp_path, [orjson.loads(line) for line in whole_log().splitlines()])
    )
    assert {record["event"] for record in read(tmp_path)} == {
        *("study", "opened", "proposed", "launched", "reported", "finished", "failed", "promoted", "closed")
    }


@pytest.mark.parametrize("bad", [b"{", b"", b"[]", b"3", b'{"at": 1}', b"\x00\x00", b'{"event": NaN}', b"\xff"])
@pytest.mark.parametrize("place", [1, 5, -1])
def test_a_bad_line_that_is_whole_is_an_error_with_its_number(tmp_path, bad, place):
    lines = whole_log().splitlines()
    place %= len(lines)
    lines[place] = bad
    folder_with(tmp_path, b"\n".join(lines) + b"\n")
    with pytest.raises(StudyError, match=rf"line {place + 1}\b"):
        nas.load(tmp_path)


@pytest.mark.parametrize(
    "tail", [b"{", b'{"event":"closed"', b"\xff\xfe", b"x" * 200_000, b'{"event": "whole", "at": 1}']
)
def test_a_last_line_without_its_end_is_dropped_with_a_warning_by_the_writer_only(tmp_path, caplog, tail):
    folder_with(tmp_path, whole_log() + tail)
    assert len(list(read(tmp_path))) == len(whole_log().splitlines())
    assert (tmp_path / FILE).read_bytes().endswith(tail)
    with caplog.at_level(logging.WARNING):
        EventLog(tmp_path).close()
    assert str(len(tail)) in caplog.text
    assert (tmp_path / FILE).read_bytes() == whole_log()


def test_a_log_that_was_cut_before_its_first_line_ended_is_no_study(tmp_path):
    with pytest.raises(StudyError, match="no header"):
        nas.load(folder_with(tmp_path, whole_log()[:50]))


def test_records_of_a_kind_not_known_are_left_out(tmp_path):
    lines = whole_log().splitlines(keepends=True)
    folder_with(tmp_path, b"".join([*lines[:9], b'{"event":"cooled","at":0,"trial":0}\n', *lines[9:]]))
    assert state(nas.load(tmp_path)) == state(fold(tmp_path, map(orjson.loads, lines)))


def test_a_log_of_a_newer_schema_is_refused(tmp_path):
    folder_with(tmp_path, whole_log().replace(b'"schema":1', b'"schema":2', 1))
    with pytest.raises(StudyError, match=r"schema 2.*upgrade"):
        nas.load(tmp_path)


# Writing


def test_a_turn_is_one_write_and_nothing_is_written_before_its_flush(tmp_path, monkeypatch):
    log = EventLog(tmp_path)
    writes = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: writes.append(bytes(data)) or real(file, data))
    log.append({"event": "a"})
    log.append({"event": "b"})
    assert not writes
    log.flush()
    log.flush()
    assert writes == [b'{"event":"a"}\n{"event":"b"}\n']
    log.abandon()


def test_abandoning_keeps_what_was_flushed_and_drops_the_rest(tmp_path):
    log = EventLog(tmp_path)
    log.append({"event": "kept"})
    log.flush()
    log.append({"event": "dropped"})
    log.abandon()
    log.abandon()
    assert [record["event"] for record in read(tmp_path)] == ["kept"]
    assert owner(tmp_path) is None


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_full_disk_leaves_the_file_as_before_and_names_folder_and_bytes(tmp_path, monkeypatch, room):
    log = EventLog(tmp_path)
    log.append({"event": "kept"})
    log.flush()
    before = log.path.read_bytes()
    real, left = os.write, [room]

    def write(file, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(file, bytes(data)[: left[0]])
        left[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    log.append({"event": "lost", "why": "there is no room for it"})
    with pytest.raises(StorageError, match=rf"{tmp_path}.* \d+ bytes .*No space left") as caught:
        log.flush()
    assert caught.value.exit_code == 4
    assert log.path.read_bytes() == before
    log.abandon()


def test_a_write_that_is_taken_bit_by_bit_is_whole(tmp_path, monkeypatch):
    log = EventLog(tmp_path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data)[:3]))
    log.append({"event": "long", "text": "x" * 40})
    log.flush()
    monkeypatch.undo()
    log.close()
    assert [record["event"] for record in read(tmp_path)] == ["long"]


@pytest.mark.parametrize(("fsync", "least", "most"), [("always", 5, 6), ("batch", 1, 2)])
def test_fsync_is_each_turn_or_now_and_then_and_at_the_end(tmp_path, monkeypatch, fsync, least, most):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(file) or real(file))
    now = [0.0]
    monkeypatch.setattr(event_log, "monotonic", lambda: now[0])
    log = EventLog(tmp_path, fsync)
    for _ in range(5):
        now[0] += 0.01
        log.append({"event": "turn"})
        log.flush()
    log.close()
    assert least <= len(synced) <= most
    assert synced


def test_batched_fsync_comes_after_a_tenth_of_a_second(tmp_path, monkeypatch):
    synced, now = [], [0.0]
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(now[0]))
    monkeypatch.setattr(event_log, "monotonic", lambda: now[0])
    log = EventLog(tmp_path)
    for tick in range(1, 31):
        now[0] = tick / 50
        log.append({"event": "turn"})
        log.flush()
    assert all(0.1 - 1e-9 <= b - a < 0.13 for a, b in zip([0.0, *synced], synced, strict=False))
    log.abandon()


def test_a_disk_that_fails_to_sync_is_a_storage_error(tmp_path, monkeypatch):
    log = EventLog(tmp_path, "always")

    def fsync(file):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    log.append({"event": "kept"})
    with pytest.raises(StorageError, match=str(tmp_path)):
        log.flush()
    log.abandon()


def test_a_folder_that_is_removed_meanwhile_is_a_storage_error(tmp_path):
    folder = tmp_path / "study"
    log = EventLog(folder)
    shutil.rmtree(folder)
    assert not log.lock.verify()
    log.append({"event": "lost"})
    with pytest.raises(StorageError, match="gone"):
        log.flush()
    log.abandon()


# The lock


def lock_of(folder, **changes):
    """Write a lock as another process would."""
    mine = {"host": os.uname().nodename, "pid": os.getpid(), "started": process_start(os.getpid()), "token": "other"}
    (folder / "lock").write_bytes(orjson.dumps({**mine, **changes}))
    return folder / "lock"


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path):
    log = EventLog(tmp_path)
    with pytest.raises(StudyError, match=f"process {os.getpid()} on"):
        EventLog(tmp_path)
    found = owner(tmp_path)
    assert found is not None
    assert found["pid"] == os.getpid()
    log.append({"event": "mine"})
    log.close()
    EventLog(tmp_path).close()
    assert [record["event"] for record in read(tmp_path)] == ["mine"]


def test_of_many_takers_of_a_dead_owners_study_one_wins(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    lock_of(tmp_path, started="1")

    def take(_):
        try:
            return Lock(tmp_path)
        except StudyError:
            return None

    with ThreadPoolExecutor(8) as pool:
        taken = [lock for lock in pool.map(take, range(8)) if lock]
    assert len(taken) == 1
    assert taken[0].verify()
    taken[0].release()


def test_a_dead_owner_on_this_host_is_taken_over_at_once(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    lock_of(tmp_path, pid=child.pid, started="12345")
    assert owner(tmp_path) is None
    EventLog(tmp_path).close()


def test_an_owner_whose_number_another_process_has_now_is_dead(tmp_path):
    lock_of(tmp_path, started="1")
    EventLog(tmp_path).close()


def test_a_killed_process_leaves_a_study_that_can_be_taken_over(tmp_path):
    code = (
        "import os, pathlib, sys; from nas.event_log import EventLog; "
        "log = EventLog(pathlib.Path(sys.argv[1])); log.append({'event': 'kept'}); log.flush(); "
        "log.append({'event': 'lost'}); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert (tmp_path / "lock").exists()
    EventLog(tmp_path).close()
    assert [record["event"] for record in read(tmp_path)] == ["kept"]


def test_an_owner_on_another_host_is_waited_for_a_minute(tmp_path):
    path = lock_of(tmp_path, host="elsewhere")
    age(path, 50)
    with pytest.raises(StudyError, match="on elsewhere"):
        EventLog(tmp_path)
    age(path, 61)
    EventLog(tmp_path).close()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"pid": 1}', b"\x00" * 80])
def test_a_lock_that_says_nothing_is_no_lock(tmp_path, content):
    (tmp_path / "lock").write_bytes(content)
    EventLog(tmp_path).close()


def test_an_owner_that_finds_another_token_stops_writing_and_leaves_the_lock(tmp_path):
    log = EventLog(tmp_path)
    log.append({"event": "mine"})
    log.flush()
    path = lock_of(tmp_path, host="elsewhere")
    assert not log.lock.verify()
    log.append({"event": "too late"})
    with pytest.raises(StudyError, match="took the study over"):
        log.flush()
    log.abandon()
    assert [record["event"] for record in read(tmp_path)] == ["mine"]
    assert orjson.loads(path.read_bytes())["host"] == "elsewhere"


def test_an_owner_whose_lock_is_gone_stops_writing(tmp_path):
    log = EventLog(tmp_path)
    (tmp_path / "lock").unlink()
    assert not log.lock.verify()
    log.append({"event": "too late"})
    with pytest.raises(StudyError):
        log.close()
    assert list(read(tmp_path)) == []


def test_the_owner_touches_its_lock(tmp_path):
    lock = Lock(tmp_path, touch_seconds=0.001)
    path = tmp_path / "lock"
    age(path, 1000)
    deadline = time.monotonic() + 10
    while time.time() - path.stat().st_mtime > 500:
        assert time.monotonic() < deadline, "the lock was not touched"
        time.sleep(0.001)
    lock.release()
    assert not path.exists()


def test_a_lock_file_that_was_removed_before_it_was_taken_is_made_anew(tmp_path, monkeypatch):
    """Between opening the file and locking it the last owner may remove it; its successor must not hold a ghost."""
    import fcntl

    real, raced = fcntl.flock, []

    def flock(file, how):
        if not raced:
            raced.append(True)
            (tmp_path / "lock").unlink()
        return real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = Lock(tmp_path)
    assert lock.verify()
    with pytest.raises(StudyError):
        Lock(tmp_path)
    lock.release()


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        nas.search(
            folder=tmp_path / "file" / "study",
            search={"space": "mlp", "task": "digits", "trainer": curve, "trials": 1},
            objectives={"val_accuracy": "maximize"},
            fidelity={"rule": "none", "max": 9},
            hyperparameters={"learning_rate": [0.1]},
            cluster={"executor": "simulated"},
        )

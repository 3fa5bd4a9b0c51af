import errno
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainers import CheckpointFolder, Measurement, StateError, StorageError

STATE = {"weights": torch.arange(6.0).view(2, 3), "step": 7, "name": "x", "deep": [1, (2.5, None)], "flag": True}


def measurement(fidelity: float = 3) -> Measurement:
    return Measurement(fidelity, {"val_accuracy": 0.5, "loss": float("nan"), "parameters": 12}, 1.25)


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoints")


def test_round_trip(folder: CheckpointFolder) -> None:
    folder.save(measurement(), STATE)
    found = folder.newest(3)
    assert found is not None
    assert (found.fidelity, found.measurement.seconds, found.threads, found.world_size) == (3, 1.25, 1, 1)
    assert np.isnan(found.measurement.metrics["loss"])
    assert type(found.measurement.metrics["parameters"]) is int
    assert torch.equal(found.state["weights"], STATE["weights"])
    assert {name: found.state[name] for name in ("step", "name", "deep", "flag")} == {
        name: STATE[name] for name in ("step", "name", "deep", "flag")
    }


@given(fidelity=st.one_of(st.integers(1, 10**6), st.floats(1e-6, 1e6)))
def test_any_fidelity_is_found_exactly(tmp_path_factory: pytest.TempPathFactory, fidelity: float) -> None:
    folder = CheckpointFolder(tmp_path_factory.mktemp("any") / "c")
    folder.save(measurement(fidelity), {})
    assert folder.fidelities() == [fidelity]
    found = folder.newest(fidelity)
    assert found is not None
    assert found.fidelity == fidelity
    assert folder.newest(np.nextafter(fidelity, 0)) is None


def test_newest_is_the_highest_up_to_until(folder: CheckpointFolder) -> None:
    for fidelity in (1, 3, 9):
        folder.save(measurement(fidelity), {})
    assert [found.fidelity if (found := folder.newest(until)) else None for until in (0.5, 1, 8, 9, 27)] == [
        None,
        1,
        3,
        9,
        9,
    ]


def test_only_rank_0_writes(folder: CheckpointFolder) -> None:
    folder.save(measurement(), STATE, rank=1)
    assert folder.newest(3) is None


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "text"])
def test_damaged_file_falls_back_with_a_warning(
    folder: CheckpointFolder, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder.save(measurement(1), {"step": 1})
    folder.save(measurement(3), STATE)
    path = folder.path / "3.ckpt"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-40] ^= 1
    path.write_bytes({"torn": whole[:-9], "flipped": bytes(flipped), "empty": b"", "text": b"hello\nyou"}[damage])
    with caplog.at_level(logging.WARNING):
        found = folder.newest(3)
    assert found is not None
    assert found.state["step"] == 1
    assert "3.ckpt is damaged" in caplog.text


def test_temporary_files_are_no_checkpoints(folder: CheckpointFolder) -> None:
    folder.save(measurement(1), {})
    (folder.path / ".3.ckpt.abc.tmp").write_bytes(b"half")
    assert folder.fidelities() == [1]


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_full_disk_names_folder_and_bytes_and_leaves_nothing(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(StorageError, match=r"checkpoints: [\d,]+ bytes are needed, [\d,]+ bytes are free \(No space"):
        folder.save(measurement(), STATE)
    assert list(folder.path.iterdir()) == []


def test_folder_that_has_gone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        CheckpointFolder(tmp_path / "gone" / "checkpoints").save(measurement(), {})


def test_state_of_a_deleted_checkpoint(folder: CheckpointFolder) -> None:
    folder.save(measurement(), STATE)
    found = folder.newest(3)
    assert found is not None
    folder.prune(0)
    with pytest.raises(StorageError, match="cannot be read"):
        _ = found.state


def test_prune_keeps_the_newest_and_the_spared(folder: CheckpointFolder) -> None:
    for fidelity in (1, 2, 3, 4, 5):
        folder.save(measurement(fidelity), {})
    folder.prune(2, spare=[1])
    assert folder.fidelities() == [1, 4, 5]


def test_numpy_becomes_tensors(folder: CheckpointFolder) -> None:
    folder.save(measurement(), {"array": np.arange(4), "number": np.float64(2.5)})
    found = folder.newest(3)
    assert found is not None
    assert torch.equal(found.state["array"], torch.arange(4))
    assert found.state["number"] == 2.5


def test_a_view_does_not_take_its_storage_along(folder: CheckpointFolder) -> None:
    folder.save(measurement(), {"row": torch.zeros(1000, 1000)[0]})
    assert (folder.path / "3.ckpt").stat().st_size < 10_000


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {"b": [1, object()]}}, r"state\['a'\]\['b'\]\[1\] is a object"),
        ({"net": torch.nn.Linear(1, 1)}, r"state\['net'\] is a Linear.*its state_dict\(\)"),
        ({"rows": np.array([object()])}, r"state\['rows'\] is an array of object"),
        ({(1, 2): 3}, r"has the key \(1, 2\)"),
        ({"f": len}, r"state\['f'\] is a builtin_function"),
    ],
)
def test_what_cannot_be_kept_is_named(folder: CheckpointFolder, state: dict[Any, Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        folder.save(measurement(), state)
    assert folder.newest(3) is None

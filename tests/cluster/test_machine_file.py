"""Rates on disk: found again by their key alone, whole or not at all, and a damaged file is told."""

import json
from dataclasses import replace

import pytest

from cluster import known_machine as known
from cluster.calibration import Calibration
from cluster.machine_file import FORM, DamagedError, Key, cache_folder, load, save
from tests.trainers.parallelism.priced_samples import machine

KEY = Key("A processor, 3.0 GHz", "2.13.0+cpu", "float32", 1)


def test_what_was_saved_is_loaded(tmp_path):
    path = save(machine(), KEY, tmp_path / "new" / "folder")
    assert load(KEY, tmp_path / "new" / "folder") == machine()
    assert [entry.name for entry in path.parent.iterdir()] == [KEY.file]


@pytest.mark.parametrize(
    "other",
    [{"device": "A processor 3.0 GHz"}, {"torch": "2.14.0"}, {"dtype": "bfloat16"}, {"threads": 2}, {"form": FORM + 1}],
)
def test_another_key_is_another_file(tmp_path, other):
    save(machine(), KEY, tmp_path)
    assert load(replace(KEY, **other), tmp_path) is None


def test_a_key_names_the_present_machine():
    key = Key.here(threads=2)
    assert key == Key.here(threads=2)
    assert key.device
    assert key.threads == 2
    assert "/" not in key.file


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": {}}', "null"])
def test_a_damaged_file_is_told_with_its_remedy(tmp_path, damage):
    path = save(machine(), KEY, tmp_path)
    path.write_text(damage)
    with pytest.raises(DamagedError, match=r"no rates of this machine .*measure them again by: nas calibrate"):
        load(KEY, tmp_path)


def test_a_file_that_was_renamed_is_not_believed(tmp_path):
    path = save(machine(), KEY, tmp_path)
    other = replace(KEY, threads=4)
    path.rename(tmp_path / other.file)
    with pytest.raises(DamagedError, match="'threads': 1"):
        load(other, tmp_path)


def test_rates_out_of_range_are_damage(tmp_path):
    path = save(machine(), KEY, tmp_path)
    values = json.loads(path.read_text())
    values["machine"]["device"]["operators"]["other"]["flops_per_second"] = -1
    path.write_text(json.dumps(values))
    with pytest.raises(DamagedError, match="flops_per_second"):
        load(KEY, tmp_path)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NAS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / "home" / ".cache" / "ray-nas"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "ray-nas"
    monkeypatch.setenv("NAS_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


class TestKnownMachine:
    @pytest.fixture(autouse=True)
    def _measured(self, monkeypatch, tmp_path):
        monkeypatch.setenv("NAS_CACHE", str(tmp_path / "cache"))
        self.calls = []

        def calibrate(device, threads, dtype, seconds, devices):
            self.calls.append(seconds)
            return Calibration(
                Key.here(device, threads, dtype), machine(flops_per_second=7.0), 8, 100, 3.0, ("no link",)
            )

        monkeypatch.setattr(known, "calibrate", calibrate)

    def test_without_rates_a_short_calibration_runs_and_says_so(self, tmp_path):
        said = []
        found = known.known_machine(say=said.append)
        assert found == machine(flops_per_second=7.0)
        assert self.calls == [known.SHORT]
        assert known.SHORT <= 5
        assert "nas calibrate" in said[0]
        assert said[1:] == ["no link"]
        assert not (tmp_path / "cache").exists()

    def test_what_the_users_cache_holds_is_not_measured(self, tmp_path):
        save(machine(flops_per_second=3.0), Key.here(), tmp_path / "cache")
        assert known.known_machine() == machine(flops_per_second=3.0)
        assert not self.calls

    def test_a_damaged_file_is_told_and_measured_anew(self, tmp_path):
        save(machine(), Key.here(), tmp_path / "cache").write_text("{")
        said = []
        assert known.known_machine(say=said.append) == machine(flops_per_second=7.0)
        assert "holds no rates" in said[0]

    def test_a_core_trains_with_one_thread_in_float32(self):
        assert known.as_trained("cpu") == (1, "float32")

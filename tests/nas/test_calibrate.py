"""`nas calibrate`: what it answers and keeps, and what it refuses."""

import json

import pytest

from cluster import calibration
from cluster.calibration import Calibration
from cluster.machine_file import Key, load
from nas import calibrating
from nas.errors import ConfigError, StorageError
from tests.nas.test_cli import nas  # noqa: F401 - a fixture
from tests.trainers.parallelism.priced_samples import machine
from trainers.parallelism.rates import Link

KEYS = {
    "form", "file", "device", "torch", "dtype", "threads", "seconds", "networks", "calls", "log_error", "memory_bytes",
    "context_bytes", "host_seconds", "optimizer_bytes_per_second", "tensor_seconds", "step_seconds", "rates", "links",
    "failures",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NAS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def _measured(monkeypatch):
    def calibrate(device, threads, dtype, seconds, say):
        say(f"measuring {device}")
        return Calibration(
            Key.here(device, threads, dtype), machine(), 8, 100, seconds, ("link of 2 devices: refused",)
        )

    monkeypatch.setattr(calibrating, "calibrate", calibrate)


def test_a_real_one_is_kept_and_answered(nas, tmp_path, monkeypatch):  # noqa: F811
    link = Link(2, 1, 1e-4, 1e-9, ((1024.0, 2e-4), (4096.0, 3e-4)), 5e-5, 2e-9)
    monkeypatch.setattr(calibration, "measure_links", lambda *_: ([link], ["link of 4 devices: too slow"]))
    code, out, _ = nas("calibrate", "--device", "cpu", "--seconds", "0.2", "--json", tmp_path / "answer.json")
    assert code == 0
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert set(answer) == KEYS
    kept = load(Key.here(), tmp_path / "cache")
    assert kept.device.rate("matmul").flops_per_second == answer["rates"]["matmul"]["flops_per_second"]
    assert answer["file"] in out
    assert kept.links == (link,)
    assert answer["links"][0]["send_seconds_per_byte"] == 2e-9
    assert answer["failures"] == ["link of 4 devices: too slow"]


@pytest.mark.usefixtures("_measured")
def test_what_failed_is_told():
    said = []
    found = calibrating.calibrate_here("cpu", 1.0, said.append)
    assert said == ["measuring cpu"]
    assert ("failed", "link of 2 devices: refused") in found.lines()
    assert found.plain()["failures"] == ["link of 2 devices: refused"]


@pytest.mark.usefixtures("_measured")
def test_a_cache_that_cannot_be_written_is_told_with_the_remedy(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NAS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(StorageError, match="name another folder by NAS_CACHE"):
        calibrating.calibrate_here("cpu", 1.0, print)


@pytest.mark.parametrize(("device", "seconds"), [("tpu", 1.0), ("cpu", 0.0), ("cpu", -1.0), ("cpu", 1e9)])
def test_what_makes_no_sense_is_refused(device, seconds):
    with pytest.raises(ConfigError, match="--device tpu|--seconds"):
        calibrating.calibrate_here(device, seconds, print)

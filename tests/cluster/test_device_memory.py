"""Memory of a device: the machine's, or what a container is allowed, shared by the cores."""

import pytest

from cluster import device_memory


@pytest.mark.parametrize(("told", "bytes_of_all"), [("max", None), ("8000000", 8e6), ("9223372036854771712", None)])
def test_a_containers_limit_counts(monkeypatch, tmp_path, told, bytes_of_all):
    monkeypatch.setattr(device_memory, "LIMITS", (tmp_path / "no such file", tmp_path / "gone"))
    free = device_memory.memory_bytes("cpu")
    (tmp_path / "limit").write_text(f"{told}\n")
    monkeypatch.setattr(device_memory, "LIMITS", (tmp_path / "limit", tmp_path / "gone"))
    cores = device_memory.local_devices("cpu")
    assert device_memory.memory_bytes("cpu") == (free if bytes_of_all is None else bytes_of_all / cores)
    assert free * cores > 1e8


def test_a_rank_holds_memory_before_it_has_a_network():
    assert device_memory.context_bytes("cpu") > 1e7

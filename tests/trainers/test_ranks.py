"""One process and two ranks, over gloo."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trainers import rank_cases

pytestmark = pytest.mark.slow

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each of two ranks found in all cases."""
    folder = tmp_path_factory.mktemp("ranks")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-W", "error", "-m", "tests.trainers.rank_cases"]
    started = [
        subprocess.Popen([*command, str(rank), str(folder)], cwd=root, stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    try:
        errors = [process.communicate(timeout=120)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], "\n".join(errors)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("plain", 1e-5), ("adamw", 1e-5), ("idle", 1e-5), ("tiny", 1e-5), ("global", 1e-4), ("idle-global", 1e-4)],
)
def test_loss_parity(ranks: Found, tmp_path: Path, name: str, tolerance: float) -> None:
    alone, two = rank_cases.alone(tmp_path, name), ranks[0][name]
    assert isinstance(two, list), two
    assert len(two) == rank_cases.EPOCHS
    for one, both in zip(alone, two, strict=True):
        for loss in ("train_loss", "val_loss"):
            assert both[loss] == pytest.approx(one[loss], rel=tolerance)
        assert both["val_accuracy"] == one["val_accuracy"]
    if name in ("plain", "adamw", "global"):
        assert alone[-1]["train_loss"] < 0.7 * alone[0]["train_loss"]


def test_local_statistics_train_with_idle_ranks(ranks: Found) -> None:
    trained = ranks[0]["idle-local"]
    assert trained[-1]["train_loss"] < trained[0]["train_loss"]


def test_going_on_is_bit_identical(ranks: Found) -> None:
    assert ranks[0]["live"] == ranks[0]["unbroken"]
    assert ranks[0]["reloaded"] == ranks[0]["unbroken"]


def test_only_rank_0_reports(ranks: Found) -> None:
    assert all(ranks[1][name] == [] for name in (*rank_cases.CASES, "live", "unbroken"))


def test_all_ranks_halt_when_rank_0_is_told(ranks: Found) -> None:
    assert [found["halt0"] for found in ranks] == ["cancelled", "cancelled"]
    assert [found["halt1"] for found in ranks] == [None, None]


def test_ranks_with_different_networks_are_refused(ranks: Found) -> None:
    for found in ranks:
        assert found["other"]["kind"] == "error"
        assert "ranks [1] built another network than rank 0" in found["other"]["message"]


def test_ranks_that_do_not_share_storage_are_told_so(ranks: Found) -> None:
    for found in ranks:
        assert found["apart"]["kind"] == "storage"
        assert "storage that all nodes share" in found["apart"]["message"]

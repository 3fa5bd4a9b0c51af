"""One process, and two or four ranks over gloo."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trainers import rank_cases
from trainers import Runner

pytestmark = pytest.mark.slow

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each of two ranks found in all cases."""
    return found_by(2, tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each of four ranks found in their cases."""
    return found_by(4, tmp_path_factory.mktemp("four"))


def found_by(count: int, folder: Path) -> Found:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-W", "error", "-m", "tests.trainers.rank_cases"]
    started = [
        subprocess.Popen([*command, str(rank), str(count), str(folder)], cwd=root, stderr=subprocess.PIPE, text=True)
        for rank in range(count)
    ]
    try:
        errors = [process.communicate(timeout=120)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * count, "\n".join(errors)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(count)]


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("plain", 1e-5), ("adamw", 1e-5), ("idle", 1e-5), ("tiny", 1e-5), ("global", 1e-4), ("idle-global", 1e-4)],
)
def test_loss_parity(ranks: Found, tmp_path: Path, name: str, tolerance: float) -> None:
    check_parity(ranks, tmp_path, name, tolerance, falls=name in ("plain", "adamw", "global"))


@pytest.mark.parametrize("name", ["piped", "piped-tiny", "piped-smooth"])
def test_loss_parity_of_a_pipeline(ranks: Found, tmp_path: Path, name: str) -> None:
    check_parity(ranks, tmp_path, name, 1e-5, falls=name != "piped-tiny")


@pytest.mark.parametrize("name", ["piped-4", "data-piped", "data-piped-idle"])
def test_loss_parity_of_four_ranks(four_ranks: Found, tmp_path: Path, name: str) -> None:
    check_parity(four_ranks, tmp_path, name, 1e-4, falls=True)


def check_parity(ranks: Found, folder: Path, name: str, tolerance: float, falls: bool) -> None:
    """The losses of several ranks are those of one, on a run whose loss ``falls`` by 30 % and more."""
    alone, several = rank_cases.alone(folder, name), ranks[0][name]
    assert isinstance(several, list), several
    assert len(several) == rank_cases.EPOCHS
    for one, shared in zip(alone, several, strict=True):
        for loss in ("train_loss", "val_loss"):
            assert shared[loss] == pytest.approx(one[loss], rel=tolerance)
        assert shared["val_accuracy"] == one["val_accuracy"]
        assert shared["parameters"] == one["parameters"]
    if falls:
        assert alone[-1]["train_loss"] < 0.7 * alone[0]["train_loss"]


@pytest.mark.parametrize("name", ["piped-bfloat16", "piped-norm"])
def test_pipelines_train_in_bfloat16_and_with_statistics_of_micro_batches(ranks: Found, name: str) -> None:
    trained = ranks[0][name]
    assert isinstance(trained, list), trained
    assert trained[-1]["train_loss"] < 0.7 * trained[0]["train_loss"]


def test_a_trial_goes_on_under_another_plan(ranks: Found, tmp_path: Path) -> None:
    runner = Runner(rank_cases.recipe(tmp_path, "digits", maximum=4))
    alone, failure = rank_cases.run(runner, rank_cases.RESHARDED, 4)
    assert failure is None
    several = ranks[0]["resharded"]
    for one, shared in zip(rank_cases.losses(alone), several, strict=True):
        assert shared["train_loss"] == pytest.approx(one["train_loss"], rel=1e-4)
        assert shared["val_loss"] == pytest.approx(one["val_loss"], rel=1e-4)
    assert several[-1]["train_loss"] < 0.7 * several[0]["train_loss"]


def test_a_network_without_enough_layers_is_infeasible_on_all_ranks(ranks: Found) -> None:
    for found in ranks:
        assert found["uncut"]["kind"] == "infeasible"
        assert "cannot be cut into 2 pipeline stages: it has 0 places" in found["uncut"]["message"]


def test_local_statistics_train_with_idle_ranks(ranks: Found) -> None:
    trained = ranks[0]["idle-local"]
    assert trained[-1]["train_loss"] < trained[0]["train_loss"]


def test_going_on_is_bit_identical(ranks: Found) -> None:
    assert ranks[0]["live"] == ranks[0]["unbroken"]
    assert ranks[0]["reloaded"] == ranks[0]["unbroken"]


def test_only_rank_0_reports(ranks: Found) -> None:
    assert all(ranks[1][name] == [] for name in (*rank_cases.CASES, *rank_cases.PIPED[2], "live", "unbroken"))


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

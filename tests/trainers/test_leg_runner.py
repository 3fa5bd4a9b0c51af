import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from search_spaces import Bound, Candidate
from tests.trainers.trainer_samples import Bars, candidate, counting, recipe, run
from trainers import Context, Diverged, FailureKind, Runner, StorageError


class BrokenError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(first)

    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(make: Callable[[], BaseException]) -> Callable[[Candidate, Context], None]:
    def train(what: Candidate, context: Context) -> None:
        raise make()

    return train


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: ValueError("bad"), FailureKind.ERROR, "bad"),
        (lambda: SystemExit(3), FailureKind.ERROR, "3"),
        (lambda: BrokenError(1, 2), FailureKind.ERROR, "cannot be made"),
        (lambda: ValueError("\udcff"), FailureKind.ERROR, "?"),
        (lambda: Diverged(41), FailureKind.DIVERGED, "step 41"),
        (lambda: MemoryError("much"), FailureKind.OUT_OF_MEMORY, "much"),
        (lambda: __import__("torch").OutOfMemoryError("CUDA"), FailureKind.OUT_OF_MEMORY, "CUDA"),
        (lambda: OSError(errno.ENOSPC, "full"), FailureKind.STORAGE, "full"),
        (lambda: StorageError("gone"), FailureKind.STORAGE, "gone"),
    ],
)
def test_exceptions_are_sorted(tmp_path: Path, make: Callable[[], BaseException], kind: FailureKind, text: str) -> None:
    _, failure = run(Runner(recipe(tmp_path, trainer=raising(make))), candidate(), 3)
    assert failure is not None
    assert failure.kind is kind
    assert text in failure.message
    assert failure.message.encode()


def test_a_keyboard_interrupt_passes(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Runner(recipe(tmp_path, trainer=raising(KeyboardInterrupt))), candidate(), 3)


def test_memory_that_the_host_refuses(tmp_path: Path) -> None:
    import torch

    def train(what: Candidate, context: Context) -> None:
        torch.empty(2**60, dtype=torch.uint8)

    _, failure = run(Runner(recipe(tmp_path, trainer=train)), candidate(), 3)
    assert failure is not None
    assert failure.kind is FailureKind.OUT_OF_MEMORY


@pytest.mark.parametrize(("width", "kind"), [(0, FailureKind.INFEASIBLE), (-1, FailureKind.ERROR)])
def test_stage_build(tmp_path: Path, width: int, kind: FailureKind) -> None:
    _, failure = run(Runner(recipe(tmp_path)), candidate(width=width), 3)
    assert failure is not None
    assert (failure.kind, failure.stage) == (kind, "build")


def test_stage_load(tmp_path: Path) -> None:
    class Unreadable(Bars):
        def load(self) -> Any:
            raise FileNotFoundError("no data here")

    _, failure = run(Runner(recipe(tmp_path, task=Unreadable)), candidate(), 3)
    assert failure is not None
    assert (failure.kind, failure.stage) == (FailureKind.ERROR, "load")


def test_stage_checkpoint(tmp_path: Path) -> None:
    def train(what: Candidate, context: Context) -> None:
        context.report(context.until, {}, state={"net": object()})

    _, failure = run(Runner(recipe(tmp_path, trainer=train)), candidate(), 3)
    assert failure is not None
    assert (failure.kind, failure.stage, failure.error) == (FailureKind.ERROR, "checkpoint", "StateError")


@pytest.mark.parametrize("trainer", ["no_such_module:train", 7])
def test_a_trainer_that_is_none(tmp_path: Path, trainer: Any) -> None:
    _, failure = run(Runner(recipe(tmp_path, trainer=trainer)), candidate(), 3)
    assert failure is not None
    assert failure.kind is FailureKind.ERROR


def test_a_trainer_that_stops_short_is_told(tmp_path: Path) -> None:
    def train(what: Candidate, context: Context) -> None:
        context.report(1, {})

    _, failure = run(Runner(recipe(tmp_path, trainer=train)), candidate(), 3)
    assert failure is not None
    assert "without having reported fidelity 3" in failure.message
    assert "last report: 1" in failure.message


def test_full_disk_is_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    _, failure = run(Runner(recipe(tmp_path, trainer=counting)), candidate(), 3)
    assert failure is not None
    assert failure.kind is FailureKind.STORAGE
    assert str(tmp_path) in failure.message


def test_a_study_folder_that_has_gone_is_storage(tmp_path: Path) -> None:
    there = recipe(tmp_path / "study", trainer=counting)
    there.folder.rmdir()
    _, failure = run(Runner(there), candidate(), 3)
    assert failure is not None
    assert failure.kind is FailureKind.STORAGE
    assert not there.folder.exists()


def test_a_finished_leg_is_answered_not_trained(tmp_path: Path) -> None:
    first, _ = run(Runner(recipe(tmp_path, trainer=counting)), candidate(), 3)
    again, failure = run(Runner(recipe(tmp_path, trainer=raising(ValueError))), candidate(), 3)
    assert failure is None
    assert again == first[-1:]


def test_other_ranks_say_nothing(tmp_path: Path) -> None:
    seen, failure = run(Runner(recipe(tmp_path, trainer=counting)), candidate(), 3, rank=1)
    assert (seen, failure) == ([], None)
    run(Runner(recipe(tmp_path, trainer=counting)), candidate(), 3)
    assert run(Runner(recipe(tmp_path, trainer=counting)), candidate(), 3, rank=1) == ([], None)


def test_going_on_from_another_trial(tmp_path: Path) -> None:
    runner = Runner(recipe(tmp_path, trainer=counting))
    run(runner, candidate(), 3, trial=4)
    seen, failure = run(runner, candidate(), 5, trial=6, source=(4, 3))
    assert failure is None
    assert [(m.fidelity, m.metrics["total"]) for m in seen] == [(4, 10), (5, 15)]
    own, _ = run(runner, candidate(), 6, trial=6, source=(4, 3))
    assert [m.fidelity for m in own] == [6]


def test_a_source_that_is_not_below_is_refused(tmp_path: Path) -> None:
    runner = Runner(recipe(tmp_path, trainer=counting))
    run(runner, candidate(), 3, trial=4)
    _, failure = run(runner, candidate(), 3, trial=6, source=(4, 3))
    assert failure is not None
    assert "cannot go on from there" in failure.message


def test_damaged_checkpoint_costs_one_leg_not_the_trial(tmp_path: Path) -> None:
    runner = Runner(recipe(tmp_path, trainer=counting))
    for until in (2, 4):
        run(runner, candidate(), until)
    (runner.checkpoints(0).path / "4.ckpt").write_bytes(b"torn")
    seen, failure = run(runner, candidate(), 5)
    assert failure is None
    assert [m.fidelity for m in seen] == [3, 4, 5]
    assert seen[-1].metrics == {"total": 15}


def test_virtual_legs_touch_no_disk_and_no_clock(tmp_path: Path) -> None:
    runner = Runner(recipe(tmp_path, trainer="synthetic", settings={"every": 1}))
    seen, failure = run(runner, candidate(), 5, start=3, virtual=True)
    assert failure is None
    assert [m.fidelity for m in seen] == [4, 5]
    assert seen[1].seconds == pytest.approx(2 * seen[0].seconds)
    assert list(tmp_path.iterdir()) == []


def test_a_virtual_clock_wants_seconds(tmp_path: Path) -> None:
    _, failure = run(Runner(recipe(tmp_path, trainer=counting)), candidate(), 2, virtual=True)
    assert failure is not None
    assert "without seconds" in failure.message


def test_task_is_loaded_once(tmp_path: Path) -> None:
    class Counted(Bars):
        loads = 0

        def load(self) -> Any:
            type(self).loads += 1
            return super().load()

    runner = Runner(recipe(tmp_path, task=Counted))
    for trial in range(3):
        run(runner, candidate(), 1, trial=trial)
    assert Counted.loads == 1


def test_bounds_are_judged_before_training(tmp_path: Path) -> None:
    bounds = (Bound.parse("parameters", "<= 100"),)
    seen, failure = run(Runner(recipe(tmp_path, bounds=bounds)), candidate(), 3)
    assert failure is not None
    assert (seen, failure.kind) == ([], FailureKind.INFEASIBLE)
    assert failure.message == "parameters is 170, the constraint is parameters <= 100"

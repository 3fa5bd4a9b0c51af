"""Replicates of a leg: trained apart under seeds of their own, measured as one."""

from dataclasses import replace
from math import isfinite, isnan, nan, sqrt
from pathlib import Path
from typing import Any

import pytest

from search_spaces import Candidate
from tests.trainers.trainer_samples import candidate, recipe
from trainers import Context, Failure, FailureKind, Measurement, Runner
from trainers.replicates import mean_of, replicate_seed, standard_error_name


def of(value: float, **others: float) -> Measurement:
    return Measurement(3, {"accuracy": value, **others}, 2.0)


def test_mean_and_standard_error() -> None:
    mean = mean_of([of(1.0), of(2.0), of(6.0)])
    assert mean.metrics["accuracy"] == pytest.approx(3.0)
    assert mean.metrics["accuracy_standard_error"] == pytest.approx(sqrt((4 + 1 + 9) / 2 / 3))
    assert (mean.fidelity, mean.seconds) == (3, 6.0)


def test_equal_values_have_no_error_and_counts_none_at_all() -> None:
    mean = mean_of([of(0.1, parameters=7), of(0.1, parameters=7), of(0.1, parameters=7)])
    assert mean.metrics == {"accuracy": 0.1, "accuracy_standard_error": 0.0, "parameters": 7}


def test_a_metric_that_one_replicate_lacks_has_no_mean() -> None:
    assert mean_of([of(1.0, rare=1.0), of(1.0)]).metrics.keys() == {"accuracy", "accuracy_standard_error"}


@pytest.mark.parametrize("values", [(1.0, nan), (float("inf"), float("-inf")), (float("inf"), 1.0)])
def test_what_is_not_finite_in_one_is_not_finite_in_the_mean(values: tuple[float, ...]) -> None:
    metrics = mean_of([of(value) for value in values]).metrics
    assert not isfinite(metrics["accuracy"])
    assert isnan(metrics["accuracy_standard_error"])


def test_seeds_of_replicates_differ_and_the_first_is_the_trials_own() -> None:
    seeds = [replicate_seed(seed, replicate) for seed in (5, 6) for replicate in range(100)]
    assert len(set(seeds)) == 200
    assert (seeds[0], seeds[100]) == (5, 6)
    assert all(0 <= seed < 2**31 for seed in seeds)


class Noted:
    """A trainer that counts epochs, and notes which replicate trained which with what seed."""

    def __init__(self, fails_in: int = -1) -> None:
        self.epochs: list[tuple[int, float, int]] = []
        self.fails_in = fails_in

    def __call__(self, what: Candidate, context: Context) -> None:
        value = context.checkpoint.state["value"] if context.checkpoint else 0
        for epoch in range(int(context.start) + 1, int(context.until) + 1):
            if context.replicate == self.fails_in:
                raise RuntimeError("this one fails")
            value += 1 + context.replicate
            self.epochs.append((context.replicate, epoch, context.seed))
            context.report(epoch, {"value": value}, state={"value": value})


def run(runner: Runner, until: float, **arguments: Any) -> tuple[list[Measurement], Failure | None]:
    emitted: list[Measurement] = []
    failure = runner.run(candidate(), trial=4, until=until, seed=11, emit=emitted.append, **arguments)
    return emitted, failure


def test_each_goes_on_from_its_own_checkpoint_and_the_means_come_once(tmp_path: Path) -> None:
    trainer = Noted()
    runner = Runner(replace(recipe(tmp_path, trainer=trainer), replicates=3))
    emitted, failure = run(runner, 2)
    assert failure is None
    assert [(m.fidelity, m.metrics["value"]) for m in emitted] == [(1, 1), (2, 4.0)]  # 2, 4, 6
    assert emitted[-1].metrics[standard_error_name("value")] == pytest.approx(2 / sqrt(3))
    emitted, failure = run(runner, 3)
    assert [(m.fidelity, m.metrics["value"]) for m in emitted] == [(3, 6.0)]
    assert [epoch[:2] for epoch in trainer.epochs] == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)] + [
        (0, 3),
        (1, 3),
        (2, 3),
    ]
    assert {(replicate, seed) for replicate, _, seed in trainer.epochs} == {
        (replicate, replicate_seed(11, replicate)) for replicate in range(3)
    }
    trial = tmp_path / "trials" / "00004"
    assert sorted(path.parent.relative_to(trial).as_posix() for path in trial.rglob("3.ckpt")) == [
        "checkpoints",
        "replicate-1/checkpoints",
        "replicate-2/checkpoints",
    ]


def test_one_replicate_is_the_plain_run(tmp_path: Path) -> None:
    emitted, _ = run(Runner(recipe(tmp_path, trainer=Noted())), 2)
    assert [m.metrics for m in emitted] == [{"value": 1}, {"value": 2}]


def test_what_is_halted_goes_on_where_it_was(tmp_path: Path) -> None:
    trainer = Noted()
    runner = Runner(replace(recipe(tmp_path, trainer=trainer), replicates=3))
    _, failure = run(runner, 2, halted=lambda: len(trainer.epochs) == 3)
    assert failure is not None
    assert failure.kind is FailureKind.CANCELLED
    emitted, failure = run(runner, 2)
    assert failure is None
    assert [epoch[:2] for epoch in trainer.epochs] == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert emitted[-1].metrics["value"] == 4.0


def test_one_that_fails_fails_the_leg(tmp_path: Path) -> None:
    trainer = Noted(fails_in=1)
    emitted, failure = run(Runner(replace(recipe(tmp_path, trainer=trainer), replicates=3)), 2)
    assert failure is not None
    assert failure.message == "this one fails"
    assert [m.fidelity for m in emitted] == [1]  # progress of the first, and no result
    assert {replicate for replicate, *_ in trainer.epochs} == {0}


def test_the_global_random_state_is_set_for_each(tmp_path: Path) -> None:
    seeds: list[int] = []
    run(Runner(replace(recipe(tmp_path, trainer=Noted()), replicates=3)), 1, reseed=seeds.append)
    assert seeds == [replicate_seed(11, replicate) for replicate in range(3)]


def test_means_of_real_training_are_those_of_runs_apart(tmp_path: Path) -> None:
    together, apart = tmp_path / "together", tmp_path / "apart"
    together.mkdir()
    runner = Runner(replace(recipe(together), replicates=2))
    metrics = []
    for until in (1, 3):
        emitted, failure = run(runner, until)
        assert failure is None
        metrics.append(emitted[-1].metrics)
    alone = []
    for replicate in range(2):
        folder = apart / str(replicate)
        folder.mkdir(parents=True)
        found: list[Measurement] = []
        Runner(recipe(folder)).run(candidate(), trial=4, until=3, seed=replicate_seed(11, replicate), emit=found.append)
        alone.append(found[-1].metrics)
    for name in ("val_loss", "train_loss"):
        assert metrics[-1][name] == pytest.approx(sum(one[name] for one in alone) / 2, abs=1e-12)
    assert alone[0]["val_loss"] != alone[1]["val_loss"]
    assert metrics[-1]["parameters"] == alone[0]["parameters"]

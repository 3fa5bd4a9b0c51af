"""The contracts of a trainer and of a task, as checks that their authors run; no test library is needed.

    for finding in run_task(MyTask()):
        print(finding)

A check raises AssertionError where the contract is broken; whatever else a plug-in raises is a finding too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from search_spaces import Candidate
from search_spaces.conformance import Check, Finding, judge
from trainers.context import Recipe
from trainers.failure import Failure, FailureKind
from trainers.measurement import Fidelity, Measurement
from trainers.runner import Runner
from trainers.task import Split, Task

_ROWS = 8
_SEED = 11


def trainer_checks(recipe: Recipe, candidate: Candidate, fidelities: tuple[Fidelity, ...] = (1, 2, 3)) -> list[Check]:
    """All checks of ``recipe.trainer``, each in a folder of its own; ``fidelities`` are three rising rungs."""
    return _checks(_TrainerSuite(recipe, candidate, fidelities))


def task_checks(task: Task) -> list[Check]:
    """All checks of a task, by name."""
    return _checks(_TaskSuite(task))


def run_trainer(recipe: Recipe, candidate: Candidate, fidelities: tuple[Fidelity, ...] = (1, 2, 3)) -> list[Finding]:
    """Run all checks of a trainer; an empty list when it keeps the contract."""
    return _run(trainer_checks(recipe, candidate, fidelities))


def run_task(task: Task) -> list[Finding]:
    """Run all checks of a task; an empty list when it keeps the contract."""
    return _run(task_checks(task))


def _checks(suite: object) -> list[Check]:
    return [(name, getattr(suite, name)) for name in vars(type(suite)) if not name.startswith("_")]


def _run(checks: list[Check]) -> list[Finding]:
    return [finding for name, check in checks for finding in judge(name, check)]


@dataclass(frozen=True)
class _Leg:
    measurements: list[Measurement]
    failure: Failure | None

    @property
    def metrics(self) -> dict[str, float]:
        assert self.failure is None, f"the leg failed: {self.failure}"
        assert self.measurements, "the leg reported nothing"
        return dict(self.measurements[-1].metrics)


def _leg(runner: Runner, candidate: Candidate, until: Fidelity, halted: Callable[[], bool] = lambda: False) -> _Leg:
    measurements: list[Measurement] = []
    failure = runner.run(candidate, trial=0, until=until, seed=_SEED, emit=measurements.append, halted=halted)
    return _Leg(measurements, failure)


class _TrainerSuite:
    def __init__(self, recipe: Recipe, candidate: Candidate, fidelities: tuple[Fidelity, ...]) -> None:
        self._recipe = recipe
        self._candidate = candidate
        self._low, self._middle, self._high = fidelities

    def fidelities_increase_and_end_at_until(self) -> None:
        """Reported fidelities increase strictly, and the last one is context.until.

        Call context.report(fidelity, metrics) from above context.start up to context.until.
        """
        with TemporaryDirectory() as folder:
            leg = _leg(self._runner(folder), self._candidate, self._high)
        reported = [measurement.fidelity for measurement in leg.measurements]
        assert leg.failure is None, f"the leg failed: {leg.failure}"
        assert reported == sorted(set(reported)), f"fidelities do not increase strictly: {reported}"
        assert reported[-1] == self._high, f"the last report is at {reported[-1]}, not at {self._high}"

    def same_seed_gives_same_numbers(self) -> None:
        """Two trainings of one candidate under one seed measure the same.

        Seed every generator by context.seed; torch's own by torch.manual_seed(context.seed).
        """
        first, second = self._unbroken(), self._unbroken()
        assert first == second, f"two runs of one seed measure {first} and {second}"

    def going_on_elsewhere_equals_the_unbroken_run(self) -> None:
        """Training in legs, from checkpoints in new processes, equals training at a stretch.

        Put weights, optimiser, schedule and random state into context.report(..., state=...), and take them
        from context.checkpoint.state.
        """
        with TemporaryDirectory() as folder:
            for until in (self._low, self._middle):
                _leg(self._runner(folder), self._candidate, until).metrics  # noqa: B018 - asserts that it went well
            broken = _leg(self._runner(folder), self._candidate, self._high).metrics
        assert broken == self._unbroken(), f"in legs: {broken}; at a stretch: {self._unbroken()}"

    def going_on_in_the_same_worker_equals_the_unbroken_run(self) -> None:
        """A leg that goes on in the same process equals training at a stretch.

        Begin from context.checkpoint; what is kept in the process must equal it.
        """
        with TemporaryDirectory() as folder:
            runner = self._runner(folder)
            metrics = [_leg(runner, self._candidate, until).metrics for until in (self._low, self._middle, self._high)]
        assert metrics[-1] == self._unbroken(), f"in legs: {metrics[-1]}; at a stretch: {self._unbroken()}"

    def halting_cancels_and_the_trial_goes_on(self) -> None:
        """A halted leg ends as cancelled, and the trial later goes on as if it never was.

        Let Halted, which context.report raises, pass through; catch Exception, never BaseException.
        """
        with TemporaryDirectory() as folder:
            halted = _leg(self._runner(folder), self._candidate, self._high, halted=lambda: True)
            assert halted.failure is not None, "a halted leg must not end well: let Halted pass through"
            assert halted.failure.kind is FailureKind.CANCELLED, f"a halted leg ended as {halted.failure}"
            after = _leg(self._runner(folder), self._candidate, self._high).metrics
        assert after == self._unbroken(), f"after a halt: {after}; at a stretch: {self._unbroken()}"

    def unknown_settings_are_refused(self) -> None:
        """A key of [trainer] that the trainer does not know is refused, not ignored.

        Compare context.recipe.settings with the keys that you read, and raise ValueError naming the others.
        """
        with TemporaryDirectory() as folder:
            recipe = replace(self._recipe, folder=Path(folder), settings={**self._recipe.settings, "no_such": 1})
            failure = _leg(Runner(recipe), self._candidate, self._low).failure
        assert failure is not None, "the setting 'no_such' was taken and ignored"
        assert "no_such" in failure.message, f"the message does not name the unknown setting: {failure.message}"

    def _runner(self, folder: str) -> Runner:
        return Runner(replace(self._recipe, folder=Path(folder)))

    def _unbroken(self) -> dict[str, float]:
        with TemporaryDirectory() as folder:
            return _leg(self._runner(folder), self._candidate, self._high).metrics


class _TaskSuite:
    def __init__(self, task: Task) -> None:
        self._task = task

    def samples_fit_the_signature(self) -> None:
        """All splits hold finite samples of the shape that the signature says.

        Correct signature, or reshape and clean what load() gives.
        """
        expected = self._task.signature.input.shape
        for name, split in self._splits().items():
            assert len(split.inputs) > 0, f"{name} has no samples"
            assert len(split.inputs) == len(split.targets), f"{name}: inputs and targets differ in number"
            shape = split.inputs.shape[1:]
            assert shape == expected, f"{name}: samples have the shape {shape}, the signature says {expected}"
            assert np.isfinite(split.inputs).all(), f"{name}: inputs hold NaN or infinities"

    def loading_twice_gives_the_same(self) -> None:
        """load() gives the same splits each time: every worker loads its own.

        Fix the split by a seed of the task's own.
        """
        for (name, first), second in zip(self._splits().items(), self._splits().values(), strict=True):
            same = np.array_equal(first.inputs, second.inputs) and np.array_equal(first.targets, second.targets)
            assert same, f"{name} changes between two loads; fix the split by a seed of the task's own"

    def splits_are_apart(self) -> None:
        """Validation and test samples are not those of train.

        Split before anything is repeated or augmented; remove duplicates.
        """
        rows = {name: [row.tobytes() for row in split.inputs] for name, split in self._splits().items()}
        known = set(rows["train"])
        for name in ("validation", "test"):
            seen = sum(row in known for row in rows[name]) / len(rows[name])
            assert seen < 0.5, f"{seen:.0%} of {name} is in train too"

    def loss_is_a_finite_mean(self) -> None:
        """loss() is a finite scalar with a gradient, the mean over the samples of a batch.

        Average over samples (reduction="mean"), so that batches and ranks can be joined.
        """
        outputs, targets = self._outputs(), self._targets()
        whole = self._task.loss(outputs, targets)
        assert whole.ndim == 0, f"loss has the shape {tuple(whole.shape)}; it is a scalar"
        assert bool(whole.isfinite()), f"loss is {whole.item()} for random outputs"
        half = _ROWS // 2
        halves = (self._task.loss(outputs[:half], targets[:half]) + self._task.loss(outputs[half:], targets[half:])) / 2
        apart, size = abs((whole - halves).item()), abs(whole.item())
        assert apart < 1e-4 * max(1, size), "loss is no mean over the samples"
        whole.backward()  # type: ignore[no-untyped-call]
        assert outputs.grad is not None, "loss has no gradient"

    def metrics_are_numbers(self) -> None:
        """metrics() gives finite numbers by plain names.

        Return floats, as {'accuracy': 0.98}; the trainer adds val_ and test_.
        """
        metrics = self._task.metrics(self._outputs().detach(), self._targets())
        assert metrics, "metrics() gives none"
        for name, value in metrics.items():
            assert np.isfinite(value), f"metric {name} is {value} for random outputs"
            assert not name.startswith(("val_", "test_")), f"metric {name}: the trainer adds the split's prefix"

    def augmentation_is_a_function_of_its_generator(self) -> None:
        """augment() leaves its argument, its shape and dtype, and draws from its generator alone.

        Work on a copy and pass generator=generator to every random function.
        """
        import torch

        inputs = torch.from_numpy(self._task.load().train.inputs[:_ROWS].copy())
        before = inputs.clone()
        first, second = (self._task.augment(inputs, torch.Generator().manual_seed(3)) for _ in range(2))
        assert torch.equal(inputs, before), "augment() changes its argument; give a new tensor back"
        assert torch.equal(first, second), "augment() draws from elsewhere than its generator"
        assert first.shape == inputs.shape, f"augment() changes the shape to {tuple(first.shape)}"
        assert first.dtype == inputs.dtype, f"augment() changes the dtype to {first.dtype}"

    def _splits(self) -> dict[str, Split]:
        data = self._task.load()
        return {"train": data.train, "validation": data.validation, "test": data.test}

    def _outputs(self) -> Any:
        import torch

        shape = (_ROWS, *self._task.signature.output.shape)
        return torch.randn(shape, generator=torch.Generator().manual_seed(5)).requires_grad_()

    def _targets(self) -> Any:
        from trainers.batches import tensors

        return tensors(self._task.load().train, self._task.signature.input.dtype, "cpu").targets[:_ROWS]

import numpy as np
import pytest
import torch

from tests.trainers.trainer_samples import Bars
from trainers import TASKS
from trainers.conformance import run_task, task_checks
from trainers.tasks.classification import split

TASKS_UNDER_TEST = {**{name: TASKS.load(name) for name in TASKS.builtin}, "bars": Bars}


@pytest.mark.parametrize(
    ("task", "check"), [(name, check) for name in TASKS_UNDER_TEST for check, _ in task_checks(Bars())]
)
def test_conforms(task: str, check: str) -> None:
    dict(task_checks(TASKS_UNDER_TEST[task]()))[check]()


def test_the_suite_finds_what_is_wrong() -> None:
    class Wrong(Bars):
        def augment(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
            return inputs + torch.rand(inputs.shape)

        def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return outputs.square().sum()

        def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
            return {"val_error": 1.0}

    assert [finding.check for finding in run_task(Wrong())] == [
        "loss_is_a_finite_mean",
        "metrics_are_numbers",
        "augmentation_is_a_function_of_its_generator",
    ]


def test_digits() -> None:
    data = TASKS.load("digits")().load()
    sizes = [len(part.inputs) for part in (data.train, data.validation, data.test)]
    assert sum(sizes) == 1797
    assert sizes[1] == sizes[2] == 360 - 1  # a fifth of each class, rounded
    pixels = np.concatenate([part.inputs for part in (data.train, data.validation, data.test)])
    assert abs(pixels.mean()) < 0.01
    assert abs(pixels.std() - 1) < 0.01
    for part in (data.validation, data.test):
        assert np.bincount(part.targets).tolist() == np.bincount(data.test.targets).tolist()


def test_digits_move_by_whole_pixels_within_one() -> None:
    digits = TASKS.load("digits")(moved=0.5)
    images = torch.zeros(4000, 1, 8, 8)
    images[:, 0, 4, 4] = 100
    moved = digits.augment(images, torch.Generator().manual_seed(0))
    place = (moved[:, 0] == 100).nonzero()[:, 1:]
    assert len(place) == 4000
    assert place.min() == 3
    assert place.max() == 5
    share = (place != 4).any(1).float().mean().item()
    assert share == pytest.approx(0.5 * 8 / 9, abs=0.03)


def test_split_is_stratified_and_seeded() -> None:
    inputs, targets = np.arange(100), np.repeat([0, 1, 2], [60, 30, 10])
    data = split(inputs, targets, seed=4)
    rows = [part.inputs for part in (data.train, data.validation, data.test)]
    assert sorted(np.concatenate(rows)) == list(range(100))
    assert [np.bincount(part.targets).tolist() for part in (data.train, data.validation, data.test)] == [
        [36, 18, 6],
        [12, 6, 2],
        [12, 6, 2],
    ]
    assert np.array_equal(split(inputs, targets, seed=4).test.inputs, data.test.inputs)
    assert not np.array_equal(split(inputs, targets, seed=5).test.inputs, data.test.inputs)


@pytest.mark.parametrize(
    ("targets", "shares", "words"),
    [
        ([0, 1], {}, "3 inputs and 2 targets"),
        ([0, 0, 0], {"validation": 0.5, "test": 0.5}, "together below 1"),
        ([0, 0, 1], {}, "has 2 samples"),
    ],
)
def test_split_refuses(targets: list[int], shares: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        split(np.arange(3), np.array(targets), 0, **shares)

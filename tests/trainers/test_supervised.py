import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from search_spaces import Architecture, Signature
from tests.trainers.trainer_samples import Bars, Nets, candidate, recipe, run
from trainers import FailureKind, Runner
from trainers.batches import Batch, tensors
from trainers.learner import Learner
from trainers.optimizers import make_optimizer
from trainers.settings import Settings
from trainers.tasks.classification import Classification


def bits(runner: Runner, fidelity: float) -> dict[str, Any]:
    found = runner.checkpoints(0).newest(fidelity)
    assert found is not None
    assert found.fidelity == fidelity
    flat: dict[str, Any] = dict(found.state["model"])
    for number, moments in found.state["optimizer"]["state"].items():
        flat |= {f"{number}.{name}": value for name, value in moments.items()}
    return flat


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "reloaded"])
@pytest.mark.parametrize("kind", ["norm", "drop"])
def test_going_on_is_bit_identical(tmp_path: Path, kind: str, live: bool, optimizer: str) -> None:
    what = candidate(kind, optimizer=optimizer, batch_size=16, label_smoothing=0.1)
    unbroken = Runner(recipe(tmp_path / "a"))
    expected, failure = run(unbroken, what, 9)
    assert failure is None
    legs = Runner(recipe(tmp_path / "b"))
    seen = []
    for until in (1, 3, 9):
        legs = legs if live else Runner(recipe(tmp_path / "b"))
        measurements, failure = run(legs, what, until)
        assert failure is None
        seen += measurements
    assert [(m.fidelity, m.metrics) for m in seen] == [(m.fidelity, m.metrics) for m in expected]
    assert same(bits(legs, 9), bits(unbroken, 9))


def test_the_live_learner_is_used_by_its_own_trial_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    build = Nets.build
    monkeypatch.setattr(Nets, "build", lambda *what: built.append(1) or build(*what))
    runner = Runner(recipe(tmp_path))
    for trial, until in ((0, 1), (0, 2), (1, 1), (0, 3), (0, 4)):
        _, failure = run(runner, candidate(), until, trial=trial)
        assert failure is None
    assert len(built) == 3  # not for the legs 1-2 and 3-4 of trial 0


def test_process_wide_state_is_left_as_it_was(tmp_path: Path) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    run(Runner(recipe(tmp_path)), candidate("drop"), 2)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()


def test_it_learns_and_reports(tmp_path: Path) -> None:
    seen, failure = run(Runner(recipe(tmp_path, task="digits")), candidate(width=8), 9)
    assert failure is None
    assert [m.fidelity for m in seen] == list(range(1, 10))
    assert set(seen[-1].metrics) == {"val_accuracy", "val_loss", "train_loss", "parameters"}
    assert seen[-1].metrics["parameters"] == 8 * 10 + 10 * 129
    assert seen[-1].metrics["val_accuracy"] > 0.9
    assert seen[-1].metrics["train_loss"] < 0.5 * seen[0].metrics["train_loss"]
    assert seen[-1].seconds > seen[0].seconds > 0


def test_retraining_learns_from_validation_and_reports_test(tmp_path: Path) -> None:
    seen, failure = run(Runner(recipe(tmp_path, test=True)), candidate(), 2)
    assert failure is None
    assert set(seen[-1].metrics) == {"test_accuracy", "test_loss", "train_loss", "parameters"}
    learnt_from: list[int] = []

    class Watched(Bars):
        def augment(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
            learnt_from.append(len(inputs))
            return inputs

    for test, folder in ((False, "search"), (True, "retrain")):
        run(Runner(recipe(tmp_path / folder, task=Watched, test=test)), candidate(), 1)
    assert learnt_from == [36, 48]


def test_divergence_names_its_step(tmp_path: Path) -> None:
    class Steep(Bars):
        def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return cross_entropy(outputs, targets) + (outputs**8).mean()

    seen, failure = run(
        Runner(recipe(tmp_path, task=Steep, settings={"gradient_norm": 1e8, "warm_up_epochs": 0})),
        candidate(learning_rate=999.0, batch_size=4),
        9,
    )
    assert failure is not None
    assert failure.kind is FailureKind.DIVERGED
    assert "at step" in failure.message
    assert len(seen) < 9


def test_divergence_step_is_exact(tmp_path: Path) -> None:
    class Poisoned(Bars):
        calls = 0

        def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            if outputs.requires_grad:
                type(self).calls += 1
            return cross_entropy(outputs, targets) * (float("inf") if self.calls == 8 else 1.0)

    _, failure = run(Runner(recipe(tmp_path, task=Poisoned)), candidate(batch_size=8), 9)
    assert failure is not None
    assert failure.message == "the loss became inf at step 7"


def test_fractional_epochs_are_refused(tmp_path: Path) -> None:
    _, failure = run(Runner(recipe(tmp_path)), candidate(), 1.5)
    assert failure is not None
    assert "whole epochs" in failure.message


@pytest.mark.parametrize(
    ("hyperparameters", "settings", "words"),
    [
        ({"learning_rat": 0.1}, {}, "did you mean 'learning_rate'.*weight_decay"),
        ({"precision": "float32"}, {}, "hyperparameters.precision"),
        ({}, {"batchnorm": "global"}, "did you mean 'batch_norm'"),
        ({"learning_rate": 0.0}, {}, "learning_rate = 0.0: use a number above 0"),
        ({"learning_rate": float("nan")}, {}, "learning_rate = nan"),
        ({"momentum": 1.0}, {}, "below 1"),
        ({"batch_size": 2.0}, {}, "batch_size = 2.0: use an integer"),
        ({"batch_size": True}, {}, "batch_size = True"),
        ({"optimizer": "lamb"}, {}, "use one of sgd, adamw"),
        ({}, {"batch_norm": "sync"}, "use one of local, global"),
    ],
)
def test_mistakes_are_named(hyperparameters: dict[str, Any], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Settings.parse(settings, hyperparameters)


def test_float16_is_not_for_cpus() -> None:
    with pytest.raises(ValueError, match="a CPU trains in float32 or bfloat16"):
        Learner(nn.Linear(1, 1), Settings(precision="float16"), seed=0, epochs=1)


def test_hyperparameters_stand_above_settings() -> None:
    settings = Settings.parse({"learning_rate": 0.5, "momentum": 0.5}, {"learning_rate": 0.25})
    assert (settings.learning_rate, settings.momentum) == (0.25, 0.5)


def test_label_smoothing_is_torchs_own() -> None:
    torch.manual_seed(0)
    network, task = nn.Linear(5, 3), Classification()
    inputs, targets = torch.randn(7, 5), torch.randint(3, (7,))
    learner = Learner(network, Settings(label_smoothing=0.2), seed=0, epochs=1)
    loss = learner._loss(Batch(inputs, targets, 7, inputs[:1]), task)
    assert loss.item() == pytest.approx(cross_entropy(network(inputs), targets, label_smoothing=0.2).item(), rel=1e-6)


def test_label_smoothing_wants_classes(tmp_path: Path) -> None:
    class Regression(Bars):
        def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return (outputs - targets[:, None]).square().mean()

        def load(self) -> Any:
            data = super().load()
            for split in (data.train, data.validation, data.test):
                object.__setattr__(split, "targets", split.targets.astype("float64"))
            return data

        def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
            return {"error": 1.0}

    _, failure = run(Runner(recipe(tmp_path, task=Regression)), candidate(label_smoothing=0.1), 1)
    assert failure is not None
    assert "leave label_smoothing out" in failure.message
    seen, failure = run(Runner(recipe(tmp_path, task=Regression)), candidate(), 1)
    assert failure is None
    assert seen[0].metrics["val_error"] == 1.0


def test_weight_decay_is_not_for_biases_and_norms() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LayerNorm([2, 6, 6]), nn.Linear(6, 2))
    groups = make_optimizer(network, Settings(weight_decay=0.1)).param_groups
    assert [(group["weight_decay"], len(group["params"])) for group in groups] == [(0.1, 2), (0.0, 6)]


def test_tied_weights_are_optimised_once() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    network[1].weight = network[0].weight
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = make_optimizer(network, Settings()).param_groups
    assert sum(len(group["params"]) for group in groups) == 3


def test_bfloat16_trains_on_the_cpu(tmp_path: Path) -> None:
    seen, failure = run(Runner(recipe(tmp_path, settings={"precision": "bfloat16"})), candidate(batch_size=8), 9)
    assert failure is None
    assert seen[-1].metrics["train_loss"] < 0.7 * seen[0].metrics["train_loss"]


def test_integer_targets_of_any_width_and_float64_inputs() -> None:
    data = Bars().load()
    object.__setattr__(data.train, "targets", data.train.targets.astype("uint8"))
    object.__setattr__(data.train, "inputs", data.train.inputs.astype("float64"))
    made = tensors(data.train, "float32", "cpu")
    assert (made.inputs.dtype, made.targets.dtype) == (torch.float32, torch.int64)
    assert np.array_equal(made.targets.numpy(), data.train.targets)


def test_a_build_that_is_no_module(tmp_path: Path) -> None:
    class Wrong:
        def build(self, architecture: Architecture, signature: Signature) -> int:
            return 3

    from dataclasses import replace

    from search_spaces import Reference

    _, failure = run(Runner(replace(recipe(tmp_path), space=Reference(Wrong))), candidate(), 1)
    assert failure is not None
    assert (failure.stage, failure.message) == (
        "build",
        "the space's build() returned a int, not a torch.nn.Module",
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_weights_that_get_a_gradient_in_some_steps_only_are_optimised(optimizer: str) -> None:
    """As under stochastic depth: torch's fused SGD alone fails where some get their first one later than others."""
    layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    before = layers[1].weight.detach().clone()
    learning = make_optimizer(layers, Settings(optimizer=optimizer))
    for used in (1, 2, 1):
        learning.zero_grad()
        values = torch.ones(2, 4)
        for layer in list(layers)[:used]:
            values = layer(values)
        values.square().sum().backward()
        learning.step()
    assert not torch.equal(layers[1].weight, before)


def test_momentum_begins_with_the_first_gradient() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.load_state_dict(first.state_dict())
    settings = Settings()
    plain = torch.optim.SGD(
        [{"params": [second.weight], "weight_decay": settings.weight_decay}, {"params": [second.bias]}],
        lr=settings.learning_rate,
        momentum=settings.momentum,
        nesterov=True,
    )
    for network, optimizer in ((first, make_optimizer(first, settings)), (second, plain)):
        for _ in range(3):
            optimizer.zero_grad()
            network(torch.ones(2, 4)).square().sum().backward()
            optimizer.step()
    assert torch.allclose(first.weight, second.weight, rtol=1e-6)

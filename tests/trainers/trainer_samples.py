"""Small spaces, tasks and training functions for the tests of trainers; spawned ranks import it too."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from search_spaces import Architecture, Bound, Candidate, Infeasible, Reference, Signature, TensorType, Values
from trainers import Context, Failure, Measurement, Recipe, Runner
from trainers.task import Data
from trainers.tasks.classification import Classification, split


class Nets:
    """``kind``: plain (no batch statistics), norm (with), drop (dropout), deep (layers that skip others),
    short (one layer)."""

    def build(self, architecture: Architecture, signature: Signature) -> nn.Module:
        width, kind = architecture["width"], architecture["kind"]
        channels, classes = signature.input.shape[0], signature.output.shape[0]
        if width == 0:
            raise Infeasible("a width of 0 is no network")
        if width < 0:
            raise ZeroDivisionError("this build is broken")
        if kind == "deep":
            return Deep(channels, width, classes)
        if kind == "short":
            return nn.Sequential(nn.Flatten(), nn.Linear(signature.input.elements, classes))
        return nn.Sequential(
            nn.Conv2d(channels, width, 3, 2, 1),
            nn.BatchNorm2d(width) if kind == "norm" else nn.Identity(),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3) if kind == "drop" else nn.Identity(),
            Masked(width * 16),
            nn.Linear(width * 16, classes),
        )


class Deep(nn.Module):
    """Residual layers, the first of which also reaches the last; what is given is changed in place."""

    def __init__(self, channels: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, 2, 1).to(memory_format=torch.channels_last)
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(4))
        self.shift = nn.Parameter(torch.zeros(width, 1, 1))
        self.head = nn.Linear(width * 16, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = features = self.stem(images)
        for layer in self.layers:
            features = features + layer(features.relu())
        features += first
        features += self.shift
        logits: torch.Tensor = self.head(features.flatten(1))
        return logits


class Masked(nn.Module):
    """A module with a buffer of truth values."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(features, dtype=torch.bool))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * self.mask


@dataclass
class Bars(Classification):
    """``samples`` images of 8 x 8, a horizontal or vertical bar in noise."""

    samples: int = 60
    signature: Signature = Signature(TensorType((1, 8, 8)), TensorType((2,)))

    def load(self) -> Data:
        rng = np.random.default_rng(7)
        images = rng.normal(0, 0.5, (self.samples, 1, 8, 8)).astype("float32")
        labels = np.arange(self.samples) % 2
        for image, label, place in zip(images, labels, rng.integers(8, size=self.samples), strict=True):
            image[(0, place) if label else (0, slice(None), place)] += 2
        return split(images, labels, seed=1)


def candidate(kind: str = "plain", width: int = 4, **hyperparameters: Any) -> Candidate:
    return Candidate(Architecture({"kind": kind, "width": width}), Values(hyperparameters))


def recipe(
    folder: Path,
    task: Any = Bars,
    trainer: Any = "supervised",
    maximum: float = 9,
    settings: dict[str, Any] | None = None,
    bounds: tuple[Bound, ...] = (),
    test: bool = False,
) -> Recipe:
    folder.mkdir(parents=True, exist_ok=True)
    return Recipe(
        space=Reference(Nets),
        task=Reference(task),
        trainer=Reference(trainer),
        maximum=maximum,
        folder=folder,
        settings=settings or {},
        bounds=bounds,
        test=test,
    )


def run(runner: Runner, what: Candidate, until: float, **options: Any) -> tuple[list[Measurement], Failure | None]:
    seen: list[Measurement] = []
    failure = runner.run(what, **{"trial": 0, "seed": 5, "until": until, "emit": seen.append, **options})
    return seen, failure


def counting(what: Candidate, context: Context) -> None:
    """A training function of one's own: its state is a count."""
    total = context.checkpoint.state["total"] if context.checkpoint else 0
    for epoch in range(int(context.start), int(context.until)):
        total += epoch + 1
        context.report(epoch + 1, {"total": total}, state={"total": total})

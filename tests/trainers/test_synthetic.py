from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from search_spaces import Architecture, Candidate, Values
from tests.trainers.trainer_samples import recipe, run
from trainers import Runner
from trainers.synthetic import Curve


def some(rng: np.random.Generator) -> Candidate:
    architecture = Architecture({f"layer_{n}": str(rng.integers(8)) for n in range(6)})
    return Candidate(architecture, Values({"learning_rate": float(10 ** rng.uniform(-3, -1))}))


def test_curves_rise_and_differ() -> None:
    rng = np.random.default_rng(0)
    curves = [Curve.of(some(rng)) for _ in range(300)]
    ends = [curve.at(27, 27)["val_accuracy"] for curve in curves]
    for curve in curves:
        accuracies = [curve.at(fidelity, 27)["val_accuracy"] for fidelity in (1, 3, 9, 27)]
        assert accuracies == sorted(accuracies)
        assert 0.1 < accuracies[0] < accuracies[-1] < 1
    assert np.std(ends) > 0.01
    early = [curve.at(3, 27)["val_accuracy"] for curve in curves]
    assert 0.3 < np.corrcoef(early, ends)[0, 1] < 0.999  # an early rung tells something, not all


def test_neighbours_are_alike() -> None:
    rng = np.random.default_rng(1)
    near, far = [], []
    for _ in range(300):
        one = some(rng)
        mutant = Candidate(Architecture({**one.architecture, "layer_0": str(rng.integers(8))}), one.hyperparameters)
        ends = [Curve.of(what).at(27, 27)["val_accuracy"] for what in (one, mutant, some(rng))]
        near.append(abs(ends[0] - ends[1]))
        far.append(abs(ends[0] - ends[2]))
    assert np.mean(near) < 0.6 * np.mean(far)


def test_seconds_are_proportional_and_legs_add_up(tmp_path: Path) -> None:
    runner = Runner(recipe(tmp_path, trainer="synthetic", settings={"seconds": 10.0}))
    what = some(np.random.default_rng(2))
    legs = [run(runner, what, until, start=start, virtual=True)[0][-1] for start, until in ((0, 9), (0, 3), (3, 9))]
    assert legs[0].seconds == pytest.approx(legs[1].seconds + legs[2].seconds)
    assert legs[0].metrics == legs[2].metrics


@pytest.mark.clock
def test_a_report_is_cheap(tmp_path: Path) -> None:
    runner = Runner(recipe(tmp_path, trainer="synthetic", maximum=10_000, settings={"every": 1}))
    what = some(np.random.default_rng(3))
    best = 1.0
    for _ in range(5):
        began = perf_counter()
        run(runner, what, 2000, virtual=True)
        best = min(best, (perf_counter() - began) / 2000)
    assert best < 20e-6  # 10 on an idle core

"""What benchmarks judge by: closed form of random search, exact fronts, Optuna alone, paired differences."""

import json
import os
from itertools import combinations
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from benchmarks import bare_optuna, cifar10
from benchmarks.search_quality import Case, compare, run, summary
from benchmarks.tables import Table


@pytest.fixture
def path(tmp_path):
    """3 x 3 codes, one without a row; score to be maximised, bytes to be small."""
    codes = np.array([(a, b) for a in range(3) for b in range(3) if (a, b) != (2, 2)])
    spec = {
        "objective": "score",
        "direction": "maximize",
        "decisions": [
            {"name": "a", "options": ["x", "y", "z"]},
            {"name": "b", "options": [1, 2, 4], "ordered": True},
        ],
    }
    score = np.array([1.0, 2.0, 5.0, 4.0, 3.0, 9.0, 8.0, 6.0])
    arrays = {"codes": codes, "fidelities": np.array([1]), "metric:score": score[:, None], "cost:bytes": codes.sum(1)}
    np.savez(tmp_path / "tiny.npz", spec=np.array(json.dumps(spec)), **arrays)
    return tmp_path / "tiny.npz"


@pytest.mark.parametrize("queries", [1, 2, 4, 9])
def test_the_closed_form_of_random_search_is_the_mean_over_all_draws(path, queries):
    values = [1.0, 2.0, 5.0, 4.0, 3.0, 9.0, 8.0, 6.0, 1.0]  # the code without a row counts as the worst
    brute = mean(max(drawn) for drawn in combinations(values, queries))
    assert Table(path).expected_best(queries) == pytest.approx(brute)


def test_the_exact_front_and_what_covers_it(path):
    table = Table(path, ["bytes"])
    # bytes are 0 1 2 / 1 2 3 / 2 3: the best of each sum, as long as it grows
    assert table.front == {(-1.0, 0.0), (-4.0, 1.0), (-8.0, 2.0), (-9.0, 3.0)}
    assert table.optimum == 9.0
    assert table.covered(sorted(table.front)) == 1.0
    assert table.covered([]) == 0.0
    # normalised, below (1.1, 1.1): the front is (1, 0), (5/8, 1/3), (1/8, 2/3), (0, 1)
    whole = 0.1 * 1.1 + 3 / 8 * (1.1 - 1 / 3) + 1 / 2 * (1.1 - 2 / 3) + 1 / 8 * 0.1
    assert table.covered([(-4.0, 1.0)]) == pytest.approx((1.1 - 5 / 8) * (1.1 - 1 / 3) / whole)
    assert Table(path, ["score"]).covered([(-9.0, 9.0)]) > 0


@pytest.mark.parametrize("sampler", ["optuna-random", "optuna-tpe", "optuna-nsga2"])
def test_optuna_alone_asks_for_each_code_once(path, sampler):
    queried = bare_optuna.queries(Table(path, ["bytes"]), sampler, 0, 6)
    assert len(queried) == 6
    known = [tuple(metrics.items()) for metrics in queried if metrics]
    assert len(set(known)) == len(known) >= 5


def test_a_front_s_row_is_that_of_a_search_of_all(path):
    for strategy in ("random", "optuna-random"):
        row = run(Case(path, strategy, 0, 9, {}, ("bytes",)))
        assert row["front"] == row["volume"] == {}  # no checkpoint is reached
    assert summary([row], 9)["seeds"] == 1


@pytest.mark.parametrize("strategy", ["random", "optuna-random"])
def test_a_search_that_ends_before_a_checkpoint_keeps_what_it_had(path, strategy):
    row = run(Case(path, strategy, 0, 60, {}, ("bytes",)))  # there are nine codes
    assert row["front"] == {50: 1.0}
    assert row["volume"] == {50: pytest.approx(1.0)}
    assert summary([row], 60)["front50"] == [1.0, 0.0]


def test_strategies_are_compared_by_pairs():
    def row(strategy, seed, value):
        return {"table": "t", "strategy": strategy, "seed": seed, "trace": [(1, 0.0), (40, value), (90, 99.0)]}

    rows = [row("a", seed, 2.0 + seed) for seed in range(3)] + [row("b", seed, 1.0 * seed) for seed in range(4)]
    (line,) = compare(rows, "a", "b", 50)
    assert (line["difference"], line["interval"], line["seeds"]) == (2.0, 0.0, 3)


DATA = Path(os.environ.get("NAS_BENCHMARK_DATA", "../shared/data"))


@pytest.mark.skipif(
    not (DATA / "real" / "cifar10_jpeg.npz").is_file(), reason=f"{DATA}/real/cifar10_jpeg.npz is missing"
)
def test_images_of_cifar10_are_whitened_and_split_by_class():
    import torch

    task = cifar10.Cifar10(cifar10.path(None), images=600)
    data = task.load()
    sizes = [len(part.inputs) for part in (data.train, data.validation, data.test)]
    assert sum(sizes) == 600
    assert sizes == pytest.approx([360, 120, 120], abs=10)
    assert data.train.inputs.shape[1:] == task.signature.input.shape == (3, 32, 32)
    assert abs(data.train.inputs.mean()) < 0.1
    assert abs(data.train.inputs.std() - 1) < 0.1
    assert set(data.train.targets) == set(range(10))
    batch = torch.as_tensor(data.train.inputs[:64])
    mirrored = task.augment(batch, torch.Generator().manual_seed(0))
    kept = (mirrored == batch).flatten(1).all(1)
    assert 20 < kept.sum() < 44
    assert (mirrored[~kept] == batch[~kept].flip(-1)).all()

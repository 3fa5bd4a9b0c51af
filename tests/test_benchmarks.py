"""What benchmarks judge by: closed form of random search, exact fronts, Optuna alone, paired differences."""

import json
from itertools import combinations
from statistics import mean

import numpy as np
import pytest

from benchmarks import bare_optuna
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
    # normalised: (5/8, 1/3) alone of the front (5/8, 1/3), (1/8, 2/3): 3/8 * 2/3 of 3/8 * 2/3 + 1/2 * 1/3
    assert table.covered([(-4.0, 1.0)]) == pytest.approx(0.25 / (0.25 + 0.5 / 3))


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


def test_strategies_are_compared_by_pairs():
    def row(strategy, seed, value):
        return {"table": "t", "strategy": strategy, "seed": seed, "trace": [(1, 0.0), (40, value), (90, 99.0)]}

    rows = [row("a", seed, 2.0 + seed) for seed in range(3)] + [row("b", seed, 1.0 * seed) for seed in range(4)]
    (line,) = compare(rows, "a", "b", 50)
    assert (line["difference"], line["interval"], line["seeds"]) == (2.0, 0.0, 3)

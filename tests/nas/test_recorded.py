"""Tables of recorded results as tasks, and the benchmark that searches them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import nas
from benchmarks.search_quality import Case, run
from benchmarks.tables import find, relabelled
from nas.errors import ConfigError
from trainers.tasks.recorded import Recorded

DATA = Path(os.environ.get("NAS_BENCHMARK_DATA", "../shared/data")) / "tables"


@pytest.fixture
def table(tmp_path):
    """3 x 4 codes, one without a row, one that diverged; fidelities 1, 3, 9, resumable."""
    codes = np.array([(a, b) for a in range(3) for b in range(4) if (a, b) != (2, 3)])
    fidelities = np.array([1, 3, 9])
    value = codes[:, :1] * 10.0 + codes[:, 1:] + np.array([0.1, 0.2, 0.3])
    value[0] = np.nan
    spec = {
        "name": "tiny", "objective": "score", "direction": "maximize", "test_metric": "test", "resumable": True,
        "validation_seconds": 0.5, "space": None,
        "decisions": [
            {"name": "1<-0", "options": ["x", "y", "z"]},
            {"name": "size", "options": [1, 2, 4, 8], "ordered": True},
        ],
    }  # fmt: skip
    arrays = {"codes": codes.astype(np.int16), "fidelities": fidelities, "metric:score": value}
    arrays |= {"metric:test": value + 1, "seconds": np.ones((11, 1)) * fidelities, "cost:bytes": codes.sum(1) * 1.0}
    np.savez(tmp_path / "tiny.npz", spec=np.array(json.dumps(spec)), **arrays)
    return tmp_path / "tiny.npz"


def search(table, folder, **tables):
    chosen = {"task": f"table:{table}", "strategy": "exhaustive", "trials": 12} | tables.pop("search", {})
    return nas.search(folder=folder, search=chosen, **tables)


def test_a_table_says_all_that_is_left_out(table, tmp_path):
    study = search(table, tmp_path / "s", cluster={"max_devices": 1})
    assert study.counts() == {"completed": 10, "diverged": 1, "infeasible": 1}
    best = study.best()
    assert best.metrics == {"score": 22.3, "test": 23.3, "bytes": 4.0}
    assert str(best.proposal.candidate.architecture) == '1<-0="z", size=4'
    assert nas.load(tmp_path / "s").best().number == best.number


def test_going_on_pays_the_difference_and_each_validation(table, tmp_path):
    study = search(
        table,
        tmp_path / "s",
        search={"trials": 1, "strategy": "random", "seed": 1},
        fidelity={"rule": "asha-stop", "eta": 3},
        cluster={"max_devices": 1},
    )
    (trial,) = study.trials()
    assert [trial.rungs[level].seconds for level in (1, 3, 9)] == [1.5, 2.5, 6.5]
    assert study.seconds == 10.5


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"no")
    with pytest.raises(ConfigError, match=r"search\.task = 'table:.*this is no table"):
        search(tmp_path / "x.npz", tmp_path / "s")
    with pytest.raises(ConfigError, match="no such file"):
        search(tmp_path / "y.npz", tmp_path / "s")


def test_a_rung_that_was_not_recorded_is_told(table, tmp_path):
    with pytest.raises(nas.errors.AllFailedError, match="records 1, 3, 9"):
        search(table, tmp_path / "s", fidelity={"rule": "none", "max": 5})


def test_a_relabelled_table_says_the_same(table, tmp_path):
    other = Recorded(str(relabelled(table, 3, tmp_path)))
    same = Recorded(str(table))
    scores = [np.sort(table._arrays["metric:score"][:, -1]) for table in (other, same)]
    np.testing.assert_array_equal(*scores)
    options = {frozenset(decision["options"]) for decision in other.spec["decisions"]}
    assert options == {frozenset({"o0", "o1", "o2"}), frozenset({"o0", "o1", "o2", "o3"})}


def test_random_search_agrees_with_the_closed_form(table):
    """Expected best of 4 codes of 12 drawn without replacement, codes without a result the worst."""
    values = np.sort(np.concatenate([[-np.inf] * 2, np.load(table)["metric:score"][1:, -1]]))
    chances = [np.prod([(at - k) / (11 - k) for k in range(3)]) * 4 / 12 for at in range(12)]
    expected = sum(chance * value for chance, value in zip(chances, values, strict=True) if chance > 0)
    found = [run(Case(table, "random", seed, 4, {}))["trace"][-1][1] for seed in range(60)]
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - expected) < 3 * error


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the recorded tables are not at {DATA}")
def test_the_predictor_finds_the_optimum_of_a_real_table_soon():
    """Regularised evolution takes 246 queries in the mean (30/10, 100 seeds)."""
    found = [run(Case(find("nats-size-cifar10", None), "auto", seed, 300, {}))["found_at"] for seed in range(3)]
    assert np.mean(found) < 150

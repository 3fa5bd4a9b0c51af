"""Tables of recorded results as tasks, and the benchmark that searches them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import nas
from benchmarks.search_quality import Case, compare, markdown, run, summary
from benchmarks.tables import find, relabelled
from nas.config_text import load_config
from nas.errors import ConfigError
from nas.objective import Direction
from nas.strategies.random import RandomSearch
from search_spaces import Choice, Integer, SearchSpace, When
from search_spaces.recorded import RecordedSpace
from tests.nas.test_cli import nas as command  # noqa: F401 - a fixture
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


class Heeding(RandomSearch):
    told = 0

    def heed_time(self):
        Heeding.told += 1


@pytest.mark.parametrize(("limits", "times"), [({"trials": 3}, 0), ({"hours": 1.0}, 1), ({"device_hours": 1.0}, 1)])
def test_a_strategy_that_heeds_time_is_told_where_it_is_limited(table, tmp_path, limits, times):
    Heeding.told = 0
    search(table, tmp_path / "s", search={"strategy": Heeding, "trials": None, **limits})
    assert Heeding.told == times


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


def test_a_table_as_setting_takes_the_place_of_the_main_jobs_space(table):
    assert load_config(None, [f"search.task=table:{table}"]).search.space == "search_spaces.recorded:RecordedSpace"
    chosen = load_config(None, ["search.space=mlp", "search.trainer=synthetic"])
    assert chosen.search.space == "mlp"


OPTIONS = {"1<-0": Choice("x", "y", "z"), "size": Choice(1, 2, 4, 8, ordered=True)}


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ({"depth": Choice(1, 2)}, r"Own decides depth, the table 1<-0, size; leave search\.space"),
        ({**OPTIONS, "more": Choice(1, 2)}, r"Own decides 1<-0, size, more, the table 1<-0, size;"),
        (
            {**OPTIONS, "1<-0": Choice("x", "w")},
            r'Own decides 1<-0 as one of "x", "w", the table as one of "x", "y", "z";',
        ),
        ({**OPTIONS, "size": Integer(1, 10**12)}, r"Own decides size as .*, the table as .*8"),
        ({**OPTIONS, "size": Choice(1.0, 2.0)}, r"Own decides size as .*, the table as .*8"),
        (
            {**OPTIONS, "size": Choice(1, 2, when=When("1<-0", "x"))},
            "Own decides size under a condition, the table always",
        ),
    ],
)
def test_a_space_that_the_table_does_not_hold_is_refused_before_a_trial(table, tmp_path, decisions, told):
    class Own(SearchSpace):
        pass

    Own.decisions = decisions
    with pytest.raises(ConfigError, match=told):
        search(table, tmp_path / "s", search={"space": Own, "strategy": "random"})
    assert not (tmp_path / "s").exists()


def test_a_part_of_what_was_recorded_may_be_searched(table, tmp_path):
    class Own(SearchSpace):
        decisions = {"size": Integer(1, 2), "1<-0": Choice("y", "z")}  # noqa: RUF012

    assert search(table, tmp_path / "s", search={"space": Own}).counts() == {"completed": 4}


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"no")
    with pytest.raises(ConfigError, match=r"search\.task = 'table:.*this is no table"):
        search(tmp_path / "x.npz", tmp_path / "s")
    with pytest.raises(ConfigError, match="no such file"):
        search(tmp_path / "y.npz", tmp_path / "s")


def test_a_fidelity_that_was_not_recorded_is_told(table):
    task = Recorded(str(table))
    with pytest.raises(ValueError, match="records 1, 3, 9"):
        task.measure(RecordedSpace(str(table)).parse('1<-0="z", size=4'), 5)


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


# Faults are told before anything runs


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"fidelities": np.array([9, 1, 3])}, "fidelities are .*increase"),
        ({"codes": np.zeros((11, 2), int)}, "10 of its 11 codes are repeated"),
        (
            {"codes": np.arange(22).reshape(11, 2)},
            r"codes\[2\] says 4 for decision .1<-0., .* from 0 to 2",
        ),
        ({"codes": np.ones((11, 2))}, "codes are float64"),
        ({"codes": np.ones((11, 3), int)}, "2 columns, one for each decision"),
        ({"metric:score": np.ones((5, 3))}, r"metric:score is float64 of shape \[5, 3\]; .*\[11, 3\]"),
        ({"metric:other": np.full((11, 3), "x")}, "metric:other is <U1"),
        ({"seconds": np.full((11, 3), np.nan)}, r"seconds\[0, 0\] is nan"),
        ({"cost:bytes": np.ones((11, 3))}, "cost:bytes"),
        ({"spec": np.array("7")}, "its spec is 7"),
        ({"spec": np.array("{")}, "this is no table of results"),
        ({"spec": np.array('{"objective": "a", "direction": "up", "decisions": []}')}, "say maximize or minimize"),
        ({"spec": np.array('{"objective": "a", "direction": "minimize", "decisions": 3}')}, "a list of objects"),
    ],
)
def test_a_damaged_table_is_refused_with_what_is_wrong(table, tmp_path, damage, message):
    with np.load(table) as good:
        arrays = dict(good) | damage
    np.savez(tmp_path / "damaged.npz", **arrays)
    with pytest.raises(ConfigError, match=rf"search\.task = .*damaged.*{message}"):
        search(tmp_path / "damaged.npz", tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"objectives": {"speed": "maximize"}}, r"objectives\.speed: the table records bytes, score, test"),
        ({"constraints": {"speed": "<= 1"}}, r"constraints\.speed: the table records bytes, score, test"),
        ({"fidelity": {"rule": "none", "max": 27}}, r"fidelity: rungs would be 27, .* not record 27; .*1, 3, 9"),
        ({"fidelity": {"rule": "asha", "min": 2, "max": 9}}, r"rungs would be 2, 6, 9, .*not record 2, 6"),
        ({"search": {"replicates": 2}}, r"search\.replicates: the results are recorded"),
    ],
)
def test_what_a_table_does_not_hold_is_refused(table, tmp_path, tables, message):
    with pytest.raises(ConfigError, match=message):
        search(table, tmp_path / "s", **tables)
    assert not (tmp_path / "s").exists()


def test_a_table_may_be_set_on_top_of_a_configuration(table):
    config = load_config(None, [f"search.task=table:{table}"])
    assert config.task["path"] == str(table)
    assert config.objectives == {"score": Direction.MAXIMIZE}


# After the search


def rewrite(table, change):
    with np.load(table) as good:
        arrays = dict(good)
    arrays["metric:score"] = arrays["metric:score"] + change
    np.savez(table, **arrays)


def test_a_table_that_changed_between_sessions_is_refused(table, tmp_path):
    search(table, tmp_path / "s", search={"trials": 3})
    before = nas.load(tmp_path / "s").header["table"]
    log = (tmp_path / "s" / "events.jsonl").read_bytes()
    rewrite(table, 1.0)
    with pytest.raises(
        ConfigError, match=rf"tiny\.npz changed .*was {before}, is [0-9a-f]{{32}}\. .*restore that file"
    ):
        nas.resume(tmp_path / "s", search={"trials": 6})
    assert (tmp_path / "s" / "events.jsonl").read_bytes() == log
    with pytest.raises(ConfigError, match=r"search\.from: the table .*changed"):
        search(table, tmp_path / "t", search={"from": str(tmp_path / "s")})
    assert not (tmp_path / "t").exists()
    rewrite(table, -1.0)
    with pytest.raises(ConfigError, match="changed"):  # 0.1 + 1 - 1 is not 0.1
        nas.resume(tmp_path / "s", search={"trials": 6})


def test_a_table_that_is_the_same_goes_on(table, tmp_path):
    search(table, tmp_path / "s", search={"trials": 3})
    os.utime(table, (0, 0))
    assert nas.resume(tmp_path / "s", search={"trials": 6}).launched == 6
    assert search(table, tmp_path / "t", search={"from": str(tmp_path / "s"), "trials": 2}).launched == 2


def test_of_recorded_results_nothing_is_retrained_or_exported(table, tmp_path, command):  # noqa: F811
    folder = tmp_path / "s"
    (tmp_path / "search.toml").write_text(f"[search]\ntask = 'table:{table}'\nstrategy = 'exhaustive'\ntrials = 4\n")
    code, out, err = command("search", tmp_path / "search.toml", "--dir", folder)
    assert code == 0, out + err
    assert "retrain" not in out
    assert "export" not in out
    assert f"nas best {folder}" in out
    for name in ("retrain", "export"):
        code, out, err = command(name, folder)
        assert code == 2
        assert out == ""
        assert f'this search read recorded results (search.task = "table:{table}")' in err
        assert f"nas best {folder}" in err
    assert not (folder / "retrain").exists()
    assert not (folder / "export").exists()


def test_rows_that_were_searched_otherwise_are_never_paired():
    rows = [
        {"table": "t", "strategy": strategy, "seed": seed, "how": how, "trace": [[1, value + seed]]}
        for how, ahead in (({}, 1.0), ({"relabel": 1}, -5.0))
        for strategy, value in (("auto", 10.0 + ahead), ("evolution", 10.0))
        for seed in range(3)
    ]
    lines = compare(rows, "auto", "evolution", 1)
    found = {len(line["how"]): (line["difference"], line["seeds"]) for line in lines}
    assert found == {0: (1.0, 3), 1: (-5.0, 3)}


def test_tables_of_measures_are_set_apart_by_how_they_were_searched(table):
    cases = [Case(table, "random", 0, 200, {}), Case(table, "random", 0, 200, {}, relabel=1)]
    text = markdown([summary([run(case)], 200) for case in cases])
    first, second = text.split('{"relabel": 1}')
    for part in (first, second):
        assert "| mean queries to the optimum (found) | tiny |" in part
        assert "| random | 22.3 (0) |" in part

"""Known candidates come first, once each, whatever becomes of the process."""

import pytest

import nas
from nas.config import SearchConfig
from nas.config_check import check
from nas.config_text import complete, parse
from nas.errors import ConfigError
from nas.known import known_candidates
from search_spaces import CandidateSpace, Choice, Integer, Repeat, SearchSpace, hyperparameter_domain
from tests.nas.scripted import records, search, tables, value
from tests.nas.test_resume import comparable, curve, events
from tests.nas.test_resume import tables as curves


class Layers(SearchSpace):
    decisions = {
        "depth": Integer(1, 3),
        "layer": Repeat("depth", {"width": Choice(8, 16)}),
        "norm": Choice(None, "batch"),
    }


SPACE = CandidateSpace(Layers(), hyperparameter_domain({"rate": {"low": 1e-3, "high": 1e-1}}))


def start(*values):
    return [{"architecture": {"x": x}} for x in values]


def test_they_are_proposed_first_in_order_and_the_strategy_learns_from_them(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: value(leg), search={"trials": 5, "start": start(70, 30, 50)})
    trials = ending.study.trials()
    assert [trial.proposal.candidate.architecture["x"] for trial in trials[:3]] == [70, 30, 50]
    assert [trial.proposal.operator for trial in trials] == ["start"] * 3 + ["sample"] * 2
    assert trials[3].proposal.candidate.architecture["x"] == 3  # `Told` counts what it was told of
    assert ending.study.launched == 5
    assert ending.study.best().number == 0


def test_one_that_is_given_twice_is_a_duplicate_and_counted_beside(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: value(leg), search={"trials": 3, "start": start(7, 7)})
    assert ending.study.duplicates == 1
    assert ending.study.launched == 3
    assert [record["operator"] for record in records(tmp_path) if record["event"] == "proposed"][:2] == ["start"] * 2


def test_the_budget_counts_them(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: value(leg), search={"trials": 2, "start": start(1, 2, 3)})
    assert [trial.proposal.candidate.architecture["x"] for trial in ending.study.trials()] == [1, 2]


def test_killed_after_every_event(tmp_path):
    """The record tells which were proposed; those that were not come with a larger budget."""
    known = ['activation="relu", norm="none", dropout=0.1, depth=1, layer.0.width=16', None, None]
    config = curves("asha", "evolution", "simulated", trials=6)
    sampled = nas.search(folder=tmp_path / "sampled", **config).trials()
    texts = [known[0], *(str(trial.proposal.candidate.architecture) for trial in sampled[3:5])]
    entries = [{"architecture": text, "hyperparameters": {"learning_rate": 0.01}} for text in texts]
    config["search"]["start"] = entries
    whole = tmp_path / "whole"
    study = nas.search(folder=whole, **config)
    assert [str(trial.proposal.candidate.architecture) for trial in study.trials()[:3]] == texts
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(2, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        nas.resume(folder, code={"trainer": curve})
        assert comparable(events(folder)) == comparable(events(whole)), f"killed after line {count}"


def test_parts_are_tables_with_plain_or_nested_names_or_texts():
    document = parse(
        b"""
        [[start]]
        architecture = { depth = 2, layer.0.width = 8, layer.1.width = 16, norm = "batch" }
        hyperparameters = { rate = 0.01 }
        [[start]]
        architecture = 'depth=2, layer.0.width=8, layer.1.width=16, norm="batch"'
        hyperparameters = "rate=0.01"
        [[start]]
        architecture = { depth = 2, "layer.0.width" = 8, "layer.1.width" = 16, norm = "batch" }
        hyperparameters.rate = 0.01
        [[start]]
        architecture = 'depth=1, layer.0.width=8, norm=null'
        hyperparameters.rate = 0.1
        """
    )
    first, second, third, last = known_candidates(SPACE, document["start"])
    assert first == second == third
    assert first.architecture["layer.1.width"] == 16
    assert last.architecture["norm"] is None


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"architecture": {"x": 100}}, ["entry 2", "x", "100"]),
        ({"architecture": {"y": 1}}, ["entry 2", "y"]),
        ({"architecture": {}}, ["entry 2", "x"]),
        ({"architecture": "x="}, ["entry 2", "x"]),
        ({"architecture": {"x": 1}, "hyperparameters": {"rate": 1}}, ["entry 2", "rate"]),
        ({"architecture": {"x": 1}, "other": {}}, ["entry 2", "other"]),
    ],
)
def test_what_is_no_candidate_is_refused_with_its_entry(entry, said):
    config = SearchConfig.from_plain(complete(tables(search={"start": [*start(1), entry]})))
    with pytest.raises(ConfigError) as refused:
        check(config)
    assert str(refused.value).startswith("search.start, ")
    assert all(word in str(refused.value) for word in said)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("wrong", [{"architecture": {"x": 1}}, "x=1", [1], [{"architecture": 1}]])
def test_what_is_no_list_of_tables_is_refused_with_an_example(wrong):
    with pytest.raises(ConfigError, match=r"search\.start = .*for example start = \[\{ architecture"):
        SearchConfig.from_plain(complete(tables(search={"start": wrong})))


def test_they_are_fixed_for_the_life_of_a_study(tmp_path):
    config = curves("none", "random", "simulated", trials=2)
    nas.search(folder=tmp_path / "s", **config)
    entry = {"architecture": "depth=1", "hyperparameters": {}}
    with pytest.raises(ConfigError, match=r"search\.start"):
        nas.resume(tmp_path / "s", code={"trainer": curve}, search={"start": [entry]})

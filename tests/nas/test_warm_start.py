"""A warm start tells the strategy what an older study measured, and counts none of it."""

import shutil
from collections import Counter
from math import isnan, nan
from pathlib import Path

import pytest

import nas
from nas.answers import study_answer
from nas.errors import ConfigError
from nas.study import load
from nas.tables import headline
from nas.trial import Outcome
from tests.nas.test_resume import comparable, curve, events, tables


def older(tmp_path, rule="asha", **changes):
    config = tables(rule, "random", "simulated", trials=12)
    config["search"] |= {"seed": 9}
    nas.search(folder=tmp_path / "older", **{**config, **changes})
    return load(tmp_path / "older")


def younger(tmp_path, trials=8, strategy="evolution", **changes):
    config = tables("asha", strategy, "simulated", trials=trials)
    config["search"] |= {"from": tmp_path / "older"}
    for name, table in changes.items():
        config[name] = {**config.get(name, {}), **table} if name != "objectives" else table
    return config


def frail(candidate, context):
    """At one learning rate it raises, at another it diverges."""
    rate = candidate.hyperparameters["learning_rate"]
    if rate == 0.001:
        raise RuntimeError("too slow")
    context.report(context.until, {"val_accuracy": nan if rate == 0.1 else 0.5}, seconds=1.0)


frail.builds = False


class Listener:
    """A strategy that keeps what it is told before it is asked."""

    told: list = []

    def __init__(self, space, objectives):
        self.space = space
        Listener.told, self.asked = [], False

    def ask(self, pending, rng):
        self.asked = True
        from nas.proposal import Proposal

        return Proposal(self.space.sample(rng))

    def tell(self, trial, measurement, ended):
        if not self.asked:
            Listener.told.append((trial, measurement, ended))


def test_the_strategy_is_told_every_rung_and_end_before_it_is_asked(tmp_path):
    old = older(tmp_path)
    nas.search(folder=tmp_path / "new", **younger(tmp_path, strategy=Listener))
    measured = [trial for trial in old.trials() if trial.rungs and not (trial.outcome and trial.outcome.failed)]
    assert len(measured) > 5
    expected = [
        (trial.proposal.candidate, fidelity, ended)
        for trial in measured
        for fidelity, ended in [*((rung, None) for rung in trial.rungs), (trial.fidelity, trial.outcome)]
    ]
    assert [(t.proposal.candidate, m.fidelity, ended) for t, m, ended in Listener.told] == expected
    assert {trial.number for trial, *_ in Listener.told} == {-1 - at for at in range(len(measured))}
    assert {trial.proposal.operator for trial, *_ in Listener.told} == {"inherited"}
    for trial, measurement, _ in Listener.told:
        old_trial = measured[-1 - trial.number]
        assert measurement.metrics == old_trial.rungs[measurement.fidelity].metrics


def test_nothing_of_it_is_launched_counted_or_answered(tmp_path):
    old = older(tmp_path, rule="none")
    assert old.highest() == 9
    study = nas.search(folder=tmp_path / "new", **younger(tmp_path, trials=3))
    assert len(study.inherited) > 5
    assert study.launched == 3
    assert sum(study.counts().values()) == 3
    assert all(trial.number >= 0 for trial in [*study.trials(), study.best(), *study.front()])
    answer = study_answer(study)
    assert (answer["launched"], answer["duplicates"], answer["rejected"]) == (3, 0, 0)
    assert f"{len(study.inherited)} trials of {tmp_path / 'older'} known" in str(headline(study))


def test_evolution_goes_on_with_the_older_population(tmp_path):
    older(tmp_path)
    study = nas.search(folder=tmp_path / "new", **younger(tmp_path))
    first = study[0].proposal
    assert first.operator == "mutate"
    (parent,) = first.parents
    assert parent < 0
    assert study[parent].proposal.operator == "inherited"


def test_a_candidate_of_the_older_study_may_be_tried_again(tmp_path):
    old = older(tmp_path, rule="none")
    again = old.best().proposal.candidate
    entry = {"architecture": again.architecture.plain(), "hyperparameters": again.hyperparameters.plain()}
    study = nas.search(folder=tmp_path / "new", **younger(tmp_path, trials=1, search={"start": [entry]}))
    assert (study.launched, study.duplicates) == (1, 0)
    assert study[0].key == old.best().key


def test_killed_after_every_event_it_goes_on_without_the_older_folder(tmp_path):
    older(tmp_path)
    whole = tmp_path / "whole"
    nas.search(folder=whole, **younger(tmp_path))
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert [record["event"] for record in events(whole)][:3] == ["study", "inherited", "opened"]
    shutil.move(tmp_path / "older", tmp_path / "elsewhere")
    for count in range(2, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        nas.resume(folder, code={"trainer": curve})
        assert comparable(events(folder)) == comparable(events(whole)), f"killed after line {count}"
    shutil.move(tmp_path / "elsewhere", tmp_path / "older")
    header = tmp_path / "header"
    header.mkdir()
    (header / "events.jsonl").write_bytes(lines[0] + lines[1][:50])  # torn: nothing was asked yet, so it is read again
    nas.resume(header, code={"trainer": curve})
    assert comparable(events(header)) == comparable(events(whole))


def test_a_chain_of_studies_hands_down_all_of_them(tmp_path):
    first = older(tmp_path)
    second = nas.search(folder=tmp_path / "second", **younger(tmp_path))
    config = younger(tmp_path, trials=1, search={"from": str(tmp_path / "second")})
    third = nas.search(folder=tmp_path / "third", **config)
    measured = [trial for trial in [*first.trials(), *second.trials()] if trial.rungs]
    failed = [trial for trial in measured if trial.outcome and trial.outcome.failed]
    assert len(third.inherited) == len(measured) - len(failed)


def test_a_diverged_trial_is_handed_down_as_such_and_a_failed_one_is_not(tmp_path):
    config = tables("none", "random", "simulated", trials=30)
    config["search"] |= {"trainer": frail, "max_same_errors": 30}
    old = nas.search(folder=tmp_path / "older", **config)
    assert old.counts().keys() == {"completed", "diverged", "error"}
    study = nas.search(folder=tmp_path / "new", **younger(tmp_path, trials=1, search={"trainer": frail}))
    assert Counter(trial.outcome for trial in study.inherited) == {
        Outcome.COMPLETED: old.counts()["completed"],
        Outcome.DIVERGED: old.counts()["diverged"],
    }
    diverged = next(trial for trial in study.inherited if trial.outcome is Outcome.DIVERGED)
    assert isnan(diverged.metrics["val_accuracy"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"search": {"from": "nowhere/at/all"}}, ["nowhere/at/all", "no study here"]),
        ({"search": {"from": ""}}, ["search.from", "older study"]),
        ({"search": {"from": 3}}, ["search.from = 3", "older study"]),
        ({"space": {"widths": [16, 32]}}, ["another space", "width"]),
        ({"hyperparameters": {"learning_rate": [0.1, 0.2]}}, ["another space", "learning_rate"]),
        ({"task": {"split_seed": 7}}, ["[task]", "split_seed"]),
        ({"fidelity": {"max": 27}}, ["fidelity.max = 9", "27", "search.start"]),
        ({"fidelity": {"unit": "step"}}, ["fidelity.unit", "'step'"]),
        ({"search": {"trainer": "synthetic"}}, ["search.trainer", "synthetic"]),
        ({"objectives": {"speed": "maximize", "val_accuracy": "maximize"}}, ["speed", "val_accuracy"]),
        ({"constraints": {"memory": "<= 5"}}, ["memory"]),
    ],
)
def test_a_study_that_is_no_measure_here_is_refused_before_anything_is_written(tmp_path, changes, said):
    older(tmp_path)
    with pytest.raises(ConfigError) as refused:
        nas.search(folder=tmp_path / "new", **younger(tmp_path, **changes))
    assert "search.from" in str(refused.value)
    assert all(word in str(refused.value) for word in said), str(refused.value)
    assert not (tmp_path / "new").exists()


def test_a_study_without_a_measurement_is_refused(tmp_path):
    older(tmp_path)
    lines = (tmp_path / "older" / "events.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "older" / "events.jsonl").write_bytes(b"".join(lines[:2]))
    with pytest.raises(ConfigError, match="has measured no trial yet"):
        nas.search(folder=tmp_path / "new", **younger(tmp_path))


def test_a_path_is_recorded_as_text(tmp_path):
    older(tmp_path)
    study = nas.search(folder=tmp_path / "new", **younger(tmp_path, trials=1))
    assert study.header["config"]["search"]["from"] == str(Path(tmp_path / "older")) == study.inherited_from

"""A search that is killed after any of its events and resumed leaves the log of an unbroken one."""

import math
from pathlib import Path

import orjson
import pytest

import nas

VIRTUAL = {"executor": "simulated", "max_devices": 3}
SEARCH = {"space": "mlp", "task": "digits", "seed": 5}
FIDELITY = {"min": 1, "max": 9, "eta": 3, "unit": "epoch"}


def curve(candidate, context):
    """A learning curve by formula that takes virtual time; some candidates fail."""
    depth, dropout = candidate.architecture["depth"], candidate.architecture["dropout"]
    if depth == 4 and dropout == 0.3:
        raise RuntimeError("this corner fails")
    level = math.sin(depth * 7 + dropout * 31) + math.log(candidate.hyperparameters["learning_rate"])
    seconds = (context.until - context.start) * (1 + depth)
    accuracy = level - 1 / context.until if dropout < 0.3 or depth > 1 else math.nan
    context.report(context.until, {"val_accuracy": accuracy}, seconds=seconds)


curve.builds = False


SMALL = {"evolution": {"population": 6, "sample": 3}, "nsga2": {"population": 4}, "predictor": {"initial": 4}}


def tables(rule, strategy, executor, trials=14):
    return {
        "search": {**SEARCH, "trainer": curve, "strategy": strategy, "trials": trials},
        "strategy": SMALL.get(strategy, {}),
        "objectives": {"val_accuracy": "maximize"},
        "hyperparameters": {"learning_rate": [0.001, 0.01, 0.1]},
        "fidelity": {**FIDELITY, "rule": rule},
        "cluster": VIRTUAL if executor == "simulated" else {"executor": executor},
    }


def events(folder):
    return [orjson.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]


def comparable(records, times=True):
    """Records without attempts; a leg's repeated launch and report count once, sessions not at all."""
    seen, kept = set(), []
    for record in records:
        if record["event"] in ("study", "opened", "closed"):
            continue
        record = {name: value for name, value in record.items() if name not in ("attempt", "since")}
        if not times:
            record = {name: value for name, value in record.items() if name not in ("at", "seconds", "busy")}
        if record["event"] == "launched":
            if (record["trial"], record["leg"]) in seen:
                continue
            seen.add((record["trial"], record["leg"]))
        if record["event"] == "failed":
            record["failure"] = {name: record["failure"][name] for name in ("kind", "message")}
        kept.append(record)
    return kept


@pytest.mark.parametrize("executor", ["simulated", "inline"])
@pytest.mark.parametrize(
    ("rule", "strategy"),
    [
        ("asha", "evolution"),
        ("asha", "tpe"),
        ("asha", "local"),
        ("asha", "nsga2"),
        ("none", "exhaustive"),
        ("asha", "predictor"),
        ("asha-stop", "random"),
        ("none", "evolution"),
        ("median", "evolution"),
        ("sha", "random"),
        ("hyperband", "evolution"),
    ],
)
def test_killed_after_every_event(tmp_path, rule, strategy, executor):
    whole = tmp_path / "whole"
    trainer = curve if executor == "simulated" else untimed
    config = tables(rule, strategy, executor)
    config["search"]["trainer"] = trainer
    nas.search(folder=whole, **config)
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    expected = comparable(events(whole), times=executor == "simulated")
    assert len(expected) > 40
    for count in range(2, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        torn = lines[count][: len(lines[count]) // 2] if count % 2 else b""
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]) + torn)
        nas.resume(folder, code={"trainer": trainer})
        assert comparable(events(folder), times=executor == "simulated") == expected, f"killed after line {count}"


def test_killed_after_every_event_where_time_is_limited(tmp_path):
    """What candidates take is learnt from the record alone."""
    config = tables("asha", "auto", "simulated", trials=None)
    config["search"]["hours"] = 60 / 3600
    whole = nas.search(folder=tmp_path / "whole", **config)
    assert any(trial.proposal.operator == "improve-per-second" for trial in whole.trials())
    lines = (tmp_path / "whole" / "events.jsonl").read_bytes().splitlines(keepends=True)
    expected = comparable(events(tmp_path / "whole"))
    assert len(expected) > 40
    for count in range(2, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        nas.resume(folder, code={"trainer": curve})
        assert comparable(events(folder)) == expected, f"killed after line {count}"


def untimed(candidate, context):
    """`curve` on a real clock."""
    clocked = context.report
    context.report = lambda fidelity, metrics, seconds: clocked(fidelity, metrics)
    curve(candidate, context)


untimed.builds = False


def test_killed_twice_in_one_leg_keeps_the_virtual_time_of_its_first_launch(tmp_path):
    whole = tmp_path / "whole"
    nas.search(folder=whole, **tables("asha", "random", "simulated"))
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "twice"
    folder.mkdir()
    cut = next(at for at, line in enumerate(lines) if b'"finished"' in line)
    (folder / "events.jsonl").write_bytes(b"".join(lines[:cut]))
    nas.resume(folder, code={"trainer": curve})
    again = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    opened = max(at for at, line in enumerate(again) if b'"opened"' in line)
    relaunched = max(at for at, line in enumerate(again) if b'"since"' in line)
    for kept in range(opened + 1, relaunched + 2):
        (folder / "events.jsonl").write_bytes(b"".join(again[:kept]))
        nas.resume(folder, code={"trainer": curve})
        assert comparable(events(folder)) == comparable(events(whole))


def test_a_finished_study_goes_on_with_a_larger_budget(tmp_path):
    study = nas.search(folder=tmp_path / "s", **tables("asha", "evolution", "simulated", trials=6))
    assert study.launched == 6
    held = [trial.number for trial in study.trials() if trial.outcome is nas.Outcome.STOPPED]
    assert held
    study = nas.resume(tmp_path / "s", code={"trainer": curve}, search={"trials": 30})
    assert study.launched == 30
    assert [trial.number for trial in study.trials()] == list(range(len(study)))
    assert study.closed == "30 trials"
    assert nas.load(tmp_path / "s").counts() == study.counts()


def test_resume_without_the_code_that_a_study_was_given_says_what_to_do(tmp_path):
    nas.search(folder=tmp_path / "s", **tables("none", "random", "simulated", trials=2))
    lines = (tmp_path / "s" / "events.jsonl").read_text().replace("test_resume:curve", "__main__:curve")
    (tmp_path / "s" / "events.jsonl").write_text(lines)
    with pytest.raises(nas.ConfigError, match="search.trainer"):
        nas.resume(tmp_path / "s", search={"trials": 3})


def test_a_second_writer_is_refused(tmp_path):
    from nas.event_log import EventLog

    nas.search(folder=tmp_path / "s", **tables("none", "random", "simulated", trials=2))
    log = EventLog(tmp_path / "s")
    try:
        with pytest.raises(nas.StudyError, match="being written by process"):
            nas.resume(tmp_path / "s", code={"trainer": curve}, search={"trials": 3})
    finally:
        log.close()


def test_search_in_a_folder_with_a_study_names_resume(tmp_path):
    nas.search(folder=tmp_path / "s", **tables("none", "random", "simulated", trials=2))
    with pytest.raises(nas.StudyError, match="nas resume"):
        nas.search(folder=tmp_path / "s", **tables("none", "random", "simulated", trials=2))


def test_what_is_frozen_cannot_change_on_resume(tmp_path):
    nas.search(folder=tmp_path / "s", **tables("none", "random", "simulated", trials=2))
    with pytest.raises(nas.ConfigError, match=r"search\.seed"):
        nas.resume(tmp_path / "s", code={"trainer": curve}, search={"seed": 6})


def test_a_space_that_changed_is_refused_with_what_changed(tmp_path):
    nas.search(folder=tmp_path / "s", **tables("none", "random", "simulated", trials=2))
    lines = (tmp_path / "s" / "events.jsonl").read_text()
    (tmp_path / "s" / "events.jsonl").write_text(lines.replace('"low":1,"high":4', '"low":1,"high":9'))
    with pytest.raises(nas.ConfigError, match=r"made with: depth: high was 9, is 4\. Restore that version"):
        nas.resume(tmp_path / "s", code={"trainer": curve}, search={"trials": 3})


def test_a_folder_without_a_study_is_named(tmp_path):
    with pytest.raises(nas.StudyError, match="no study here"):
        nas.load(Path(tmp_path))


def steady(candidate, context):
    """A unit of fidelity takes 20 s; the deeper the better."""
    seconds = 20 * (context.until - context.start)
    context.report(context.until, {"val_accuracy": candidate.architecture["depth"]}, seconds=seconds)


steady.builds = False


@pytest.mark.parametrize("rule", ["asha-stop", "median", "sha", "hyperband"])
def test_a_time_budget_holds_trials_that_would_go_on_and_a_larger_one_takes_them_up(tmp_path, rule):
    config = tables(rule, "random", "simulated", trials=50)
    config["search"] |= {"trainer": steady, "hours": 0.01}
    study = nas.search(folder=tmp_path / "s", **config)
    assert study.closed == "0.01 hours"
    assert study.seconds <= 36 + 40
    assert all(trial.fidelity < 9 for trial in study.trials())
    study = nas.resume(tmp_path / "s", code={"trainer": steady}, search={"hours": 2, "trials": study.launched})
    assert any(trial.outcome is nas.Outcome.COMPLETED for trial in study.trials())


def test_a_record_that_does_not_fit_is_named_with_its_number(tmp_path):
    nas.search(folder=tmp_path / "s", **tables("none", "random", "simulated", trials=2))
    log = tmp_path / "s" / "events.jsonl"
    log.write_bytes(log.read_bytes() + b'{"event":"finished","at":9.0,"trial":7}\n')
    count = len(log.read_bytes().splitlines())
    with pytest.raises(nas.StudyError, match=rf"record {count} \(finished\)"):
        nas.load(tmp_path / "s")


def test_keys_tell_tasks_with_other_arguments_apart():
    from nas.keys import KeyMaker
    from search_spaces import SPACES, Candidate, Reference

    space = Reference("mlp").make(SPACES)
    candidate = Candidate(space.parse('activation="relu", norm="none", dropout=0.1, depth=1, layer.0.width=16'))
    one, same, other = (
        KeyMaker(space, (Reference("mlp"), Reference("digits", {"split_seed": seed}))).key(candidate)
        for seed in (1, 1, 2)
    )
    assert one == same != other


class Picky:
    """`mlp`, but no network of rectifiers can be built."""

    def __new__(cls):
        from search_spaces import Infeasible
        from search_spaces.mlp import MLP

        class PickyMLP(MLP):
            def build(self, architecture, signature):
                if architecture["activation"] == "relu":
                    raise Infeasible("no rectifiers")
                return super().build(architecture, signature)

        return PickyMLP()


def test_what_the_space_calls_infeasible_is_refused_before_it_runs(tmp_path):
    config = tables("none", "random", "simulated", trials=8)
    config["search"] |= {"space": Picky(), "trainer": lambda candidate, context: curve(candidate, context)}
    study = nas.search(folder=tmp_path / "s", **config)
    refused = [trial for trial in study.trials() if trial.outcome is nas.Outcome.INFEASIBLE]
    assert refused
    assert study.rejected == len(refused)
    for trial in refused:
        assert trial.proposal.candidate.architecture["activation"] == "relu"
        assert trial.reason == "no rectifiers"
        assert trial.launches == 0
    assert all(
        trial.proposal.candidate.architecture["activation"] != "relu" for trial in study.trials() if trial.launches
    )

"""A search whose candidates are trained several times: means, errors, keys, folders, and what a kill leaves."""

from io import StringIO
from math import nan
from pathlib import Path
from random import Random
from statistics import fmean, stdev

import pytest
from rich.console import Console

import nas
from nas.config import SearchConfig
from nas.config_text import complete
from nas.controller import trial_seed
from nas.errors import ConfigError
from nas.report.page import page
from nas.retention import Retention
from nas.tables import front
from nas.trial import Outcome
from tests.nas.scripted import tables
from tests.nas.test_resume import comparable, events
from trainers.replicates import replicate_seed


def noise(seed):
    return Random(seed).random()


def noisy(candidate, context):
    """Takes a second an epoch; its accuracy depends on the candidate and on the seed."""
    level = candidate.architecture["x"] + noise(context.seed) - 1 / context.until
    context.report(context.until, {"a": level}, state={}, seconds=float(context.until - context.start))


noisy.builds = False


def unsteady(candidate, context):
    """The second replicate of every odd candidate diverges."""
    context.report(
        context.until, {"a": nan if candidate.architecture["x"] % 2 and context.replicate else 1.0}, seconds=1
    )


unsteady.builds = False


def launched(study):
    return [trial for trial in study.trials() if trial.launches]


def searched(folder, trainer=noisy, **search):
    config = tables(
        search={"trainer": trainer, "strategy": "random", "trials": 5, "replicates": 3, **search},
        fidelity={"rule": "asha", "min": 1, "max": 3, "eta": 3},
    )
    return nas.search(folder=folder, **config)


def test_objectives_are_means_of_the_replicates(tmp_path):
    study = searched(tmp_path / "s")
    for trial in launched(study):
        seeds = [replicate_seed(trial_seed(0, trial.number), replicate) for replicate in range(3)]
        values = [trial.proposal.candidate.architecture["x"] + noise(seed) - 1 / trial.fidelity for seed in seeds]
        assert trial.metrics["a"] == pytest.approx(fmean(values))
        assert trial.metrics["a_standard_error"] == pytest.approx(stdev(values) / 3**0.5)
    assert study.launched == 5  # the budget counts candidates


def test_a_leg_takes_the_time_of_all_its_replicates(tmp_path):
    study = searched(tmp_path / "s", trials=1)
    assert study[0].rungs[1].seconds == 3.0
    assert study.seconds == 3.0


def test_one_replicate_that_diverges_makes_the_trial_diverge(tmp_path):
    study = searched(tmp_path / "s", trainer=unsteady, trials=12)
    for trial in launched(study):
        odd = trial.proposal.candidate.architecture["x"] % 2
        assert (trial.outcome is Outcome.DIVERGED) == bool(odd)


def test_tables_and_report_show_the_standard_error(tmp_path):
    study = searched(tmp_path / "s")
    console = Console(width=120, file=StringIO())
    console.print(*front(study))
    error = f"+- {study.best().metrics['a_standard_error']:.4f}"
    assert error in console.file.getvalue()
    assert error in page(study, [])


def test_the_key_tells_how_many_there_are(tmp_path):
    one, same, three = (
        searched(tmp_path / str(at), trials=1, replicates=replicates)[0].key for at, replicates in enumerate((1, 1, 3))
    )
    assert one == same != three


@pytest.mark.parametrize("executor", ["simulated", "inline"])
def test_killed_after_every_event(tmp_path, executor):
    whole = tmp_path / "whole"
    trainer = noisy if executor == "simulated" else untimed
    config = tables(
        search={"trainer": trainer, "strategy": "random", "trials": 5, "replicates": 2},
        fidelity={"rule": "asha", "min": 1, "max": 3, "eta": 3},
        cluster={"executor": executor},
    )
    nas.search(folder=whole, **config)
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    code = {"trainer": trainer, "space": config["search"]["space"]}
    for count in range(2, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        nas.resume(folder, code=code)
        times = executor == "simulated"
        assert comparable(events(folder), times) == comparable(events(whole), times), f"killed after line {count}"


def untimed(candidate, context):
    """`noisy` on a real clock."""
    clocked = context.report
    context.report = lambda fidelity, metrics, state, seconds: clocked(fidelity, metrics, state)
    noisy(candidate, context)


untimed.builds = False


def test_retention_counts_and_removes_the_checkpoints_of_all(tmp_path):
    study = searched(tmp_path / "s")
    spared = {trial.number for trial in study.front()}
    files = []
    for trial in launched(study):
        folder = study.folder / "trials" / f"{trial.number:05d}"
        for place in (folder, folder / "replicate-1", folder / "replicate-2"):
            (place / "checkpoints").mkdir(parents=True)
            (place / "checkpoints" / "1.ckpt").write_bytes(b"x" * 100)
            files.append((trial.number, place / "checkpoints" / "1.ckpt"))
    Retention(study.folder, 1500, 3).look(study, study[0])
    assert all(path.exists() for _, path in files)
    Retention(study.folder, 1499, 3).look(study, study[0])
    kept = {number for number, path in files if path.exists()}
    assert spared <= kept
    assert len(kept) == 4
    assert all(path.exists() == (number in kept) for number, path in files)


def examined(candidate, context):
    """Reports what a study and its retraining ask for; a retrained seed is trained once."""
    assert not (context.recipe.test and context.replicate)
    name = "test_accuracy" if context.recipe.test else "a"
    context.report(context.until, {name: noise(context.seed)}, state={})


examined.builds = False


def test_retraining_has_seeds_and_no_replicates(tmp_path):
    from nas.retrain import retrain

    config = tables(search={"trainer": examined, "space": "mlp", "strategy": "random", "trials": 2, "replicates": 2})
    study = nas.search(folder=tmp_path / "s", **{**config, "cluster": {"executor": "inline"}})
    result = retrain(Path(study.folder), seeds=2)
    assert len({metrics["test_accuracy"] for metrics in result.metrics}) == 2
    assert not list((tmp_path / "s" / "retrain").rglob("replicate-*"))


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "3", True, 1001])
def test_what_is_no_number_of_replicates_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"search\.replicates = .*whole number of at least 1"):
        SearchConfig.from_plain(complete(tables(search={"replicates": wrong})))

"""Metrics and constraints before a device is used: who is refused, by whom, and what a user's own metric may do."""

import pytest

import nas
from nas.answers import study_answer
from nas.errors import AllFailedError
from nas.refusals import FAILED, INFEASIBLE, barren, refusals
from nas.report.history import replay
from nas.report.page import page
from search_spaces import Choice, Infeasible, SearchSpace


class Widths(SearchSpace):
    """A linear network whose parameters are 64 width + width + 10 width + 10."""

    decisions = {"width": Choice(*range(1, 41)), "kind": Choice("a", "b")}

    def build(self, architecture, signature):
        from torch import nn

        width = architecture["width"]
        return nn.Sequential(nn.Flatten(), nn.Linear(signature.input.elements, width), nn.Linear(width, 10))


def train(candidate, context):
    context.report(context.until, {"val_accuracy": candidate.architecture["width"] / 40}, seconds=1.0)


def layers(candidate, network, signature):
    assert all(parameter.is_meta for parameter in network.parameters())
    return {"layers": len(network), "area": candidate.architecture["width"] * signature.input.elements}


def picky(candidate, network, signature):
    if candidate.architecture["kind"] == "b":
        raise Infeasible("b is out of fashion")
    return {}


def broken(candidate, network, signature):
    return {"ratio": 1 / (candidate.architecture["width"] - candidate.architecture["width"])}


def twice(candidate, network, signature):
    return {"parameters": 1}


def search(folder, static=(), space=Widths, trainer=train, trials=10, **tables):
    return nas.search(
        folder=folder,
        **{
            "search": {
                "space": space,
                "trainer": trainer,
                "strategy": "random",
                "trials": trials,
                **({"static_metrics": list(static)} if static else {}),
            },
            "objectives": {"val_accuracy": "maximize"},
            "fidelity": {"rule": "none", "max": 1},
            "cluster": {"executor": "simulated"},
            **tables,
        },
    )


def refused(study):
    return [trial for trial in study.trials() if not trial.launches and trial.duplicate_of is None]


def test_a_static_metric_is_known_before_the_trial_runs_and_may_be_an_objective(tmp_path):
    study = search(tmp_path / "s", [layers], objectives={"val_accuracy": "maximize", "area": "minimize"}, trials=6)
    for trial in study.trials():
        assert trial.static["layers"] == 3
        assert trial.static["area"] == 64 * trial.proposal.candidate.architecture["width"]
    assert len(study.front()) == study.launched == 6  # the wider, the better and the larger


def test_who_breaks_a_constraint_on_a_static_metric_never_runs_and_is_counted(tmp_path):
    study = search(tmp_path / "s", [layers], constraints={"area": "<= 640", "parameters": ">= 400"}, trials=4)
    widths = [trial.proposal.candidate.architecture["width"] for trial in study.trials() if trial.launches]
    assert set(widths) <= set(range(6, 11))
    wide = [trial for trial in refused(study) if trial.static["area"] > 640]
    thin = [trial for trial in refused(study) if trial.static["parameters"] < 400]
    assert len(wide) + len(thin) == study.rejected
    by = {refusal.by: refusal for refusal in refusals(study)}
    assert by["area <= 640"].count == len(wide)
    assert by["area <= 640"].nearest == min(trial.static["area"] for trial in wide)
    if thin:
        assert by["parameters >= 400"].nearest == max(trial.static["parameters"] for trial in thin)


def test_counts_are_in_the_summary_and_in_the_report_and_add_up_on_replay(tmp_path):
    study = search(tmp_path / "s", [picky], constraints={"parameters": "<= 2000"}, trials=5)
    answer = study_answer(nas.load(tmp_path / "s"))
    assert answer == study_answer(study)
    both = [trial for trial in refused(study) if trial.reason and "parameters" in trial.reason]
    counts = {entry["by"]: entry["count"] for entry in answer["refused"]}
    assert counts.get("parameters <= 2000", 0) == len(both)
    assert sum(counts.values()) == answer["rejected"]
    said = [entry["reason"] for entry in answer["refused"] if entry["by"] == INFEASIBLE]
    assert said == ["b is out of fashion"]
    text = page(*replay(tmp_path / "s"))
    assert "What was refused" in text
    assert "b is out of fashion" in text


def test_a_constraint_that_nobody_meets_ends_the_search_with_the_explanation(tmp_path):
    study = search(tmp_path / "s", constraints={"parameters": "<= 84"}, trials=5)
    assert (study.exit_code, study.launched) == (0, 0)
    assert "1,000 proposals in a row came to nothing" in study.closed
    assert f"{study.rejected} refused by parameters <= 84, the nearest value seen is 85" in study.closed
    assert f"{study.duplicates} duplicates" in study.closed
    assert "loosen the constraint" in study.closed
    assert study.rejected + study.duplicates == 1000


def test_an_error_in_a_static_metric_is_the_users_and_ends_the_search_after_three(tmp_path):
    with pytest.raises(AllFailedError) as caught:
        search(tmp_path / "s", [broken])
    for part in (
        "3 trials in a row",
        "ZeroDivisionError",
        "test_static_stage:broken",
        "test_static_stage.py:",
        "broken",
    ):
        assert part in str(caught.value)
    study = nas.load(tmp_path / "s")
    assert (study.exit_code, study.launched, study.rejected) == (3, 0, 3)
    assert all(trial.outcome is nas.Outcome.ERROR and trial.failures[0].traceback for trial in study.trials())
    assert [(refusal.by, refusal.count) for refusal in refusals(study)] == [(FAILED, 3)]


def test_a_repaired_static_metric_goes_on_after_a_resume(tmp_path):
    with pytest.raises(AllFailedError):
        search(tmp_path / "s", [broken], trials=2)
    study = nas.resume(tmp_path / "s", code={"space": Widths, "trainer": train, "static_metrics": [layers]})
    assert (study.exit_code, study.launched) == (0, 2)


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (twice, "the metric 'parameters' is given by another static metric too"),
        (lambda candidate, network, signature: 5, "it returned 5; give metrics by name"),
        (lambda candidate, network, signature: {"a": "b"}, "the metric 'a' = 'b' is no number"),
        (lambda candidate, network, signature: {1: 2}, "the name of a metric is text, not 1"),
    ],
)
def test_what_is_no_metric_is_told(tmp_path, metric, told):
    with pytest.raises(AllFailedError, match="static metric") as caught:
        search(tmp_path / "s", [metric], constraints={"parameters": "<= 1e9"})
    assert told in str(caught.value)


class Unbuildable(Widths):
    def build(self, architecture, signature):
        import torch

        torch.zeros(1).item()
        return super().build(architecture, signature)


def without(candidate, network, signature):
    return {"known": network is not None, "wide": candidate.architecture["width"] > 20}


def test_without_a_network_on_the_meta_device_the_candidate_is_still_measured(tmp_path):
    study = search(tmp_path / "s", [without], space=Unbuildable, constraints={"wide": ">= 1"}, trials=3)
    assert {trial.static["known"] for trial in study.trials()} == {0}
    assert all(trial.proposal.candidate.architecture["width"] > 20 for trial in study.trials() if trial.launches)


def test_an_unknown_static_metric_is_refused_at_once(tmp_path):
    with pytest.raises(nas.ConfigError, match=r"search\.static_metrics.*no_such"):
        search(tmp_path / "s", ["no_such"])
    with pytest.raises(nas.ConfigError, match=r"search\.static_metrics.*a static metric is a function"):
        search(tmp_path / "s", ["math:pi"])


def test_a_search_that_only_repeats_says_so(tmp_path):
    class One(Widths):
        decisions = {"width": Choice(3), "kind": Choice("a")}

    study = search(tmp_path / "s", space=One, trials=5)
    assert study.launched == 1
    assert "1,000 duplicates; the space may have been searched through" in study.closed
    assert barren(study, 1000) in study.closed
    assert refusals(study) == []

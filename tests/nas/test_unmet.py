"""Constraints that no measured trial met are told with the nearest value, wherever a search is looked at."""

import re

import orjson
import pytest

from nas.answers import study_answer
from nas.choosing import choose
from nas.errors import StudyError
from nas.refusals import refusals
from nas.report import write_report
from nas.unmet import explained, unmet
from tests.nas import recorded
from tests.nas.test_cli import nas  # noqa: F401 - a fixture


def study(folder, *constraints):
    settings = [f"constraints.{name}={bound}" for name, bound in constraints]
    return recorded.write(folder, recorded.small(constraints=settings))


def test_a_measured_constraint_that_nobody_met_is_told_with_the_nearest(tmp_path):
    found = study(tmp_path, ("val_accuracy", ">= 0.99999"))
    assert found.best() is None
    (one,) = unmet(found)
    # Of the trials that came to 27 epochs, 0 has an accuracy of 0.97 and 1 of 0.95.
    assert (one.by, one.met, one.of, one.nearest, one.trial) == ("val_accuracy >= 0.99999", 0, 2, 0.97, 0)
    assert explained(found) == [
        "No trial met this constraint at 27 epochs:",
        "val_accuracy >= 0.99999: met by 0 of the 2 trials that reached 27 epochs; the nearest is 0.9700 (trial 0)",
    ]
    assert refusals(found)[0].by == "Infeasible"
    with pytest.raises(StudyError, match=r"no best trial\. No trial met .* the nearest is 0\.9700 \(trial 0\)"):
        choose(found)


def test_constraints_that_are_met_one_by_one_but_never_together(tmp_path):
    found = study(tmp_path, ("val_accuracy", ">= 0.96"), ("parameters", "<= 800"))
    assert [(one.met, one.of) for one in unmet(found)] == [(1, 2), (1, 2)]
    first, *middle, last = explained(found)
    assert first == "No trial met all constraints together at 27 epochs:"
    assert middle == [
        "val_accuracy >= 0.96: met by 1 of the 2 trials that reached 27 epochs",
        "parameters <= 800: met by 1 of the 2 trials that reached 27 epochs",
    ]
    assert last == "the nearest to all is trial 1: val_accuracy is 0.95, the constraint is val_accuracy >= 0.96"


def test_a_trial_that_met_it_at_a_lower_fidelity_is_named(tmp_path):
    # Trial 2 stayed at 3 epochs, where its accuracy was 0.6; trial 0 had 0.8 and 0.9 on its way to 0.97 at 27.
    assert explained(study(tmp_path / "paused", ("val_accuracy", "<= 0.65")))[1] == (
        "val_accuracy <= 0.65: met by 0 of the 2 trials that reached 27 epochs; the nearest is 0.9500 (trial 1); "
        "trial 2 met it at 3 epochs"
    )
    assert explained(study(tmp_path / "on its way", ("val_accuracy", "<= 0.9")))[1].endswith(
        "; trial 0 met it at 9 epochs"
    )
    together = explained(study(tmp_path / "both", ("val_accuracy", "<= 0.96"), ("parameters", ">= 1600")))
    assert together[-1].endswith("; trial 0 met all at 9 epochs")


def test_where_a_trial_met_them_nothing_is_told(tmp_path):
    assert explained(study(tmp_path / "a", ("val_accuracy", ">= 0.96"))) == []
    assert explained(study(tmp_path / "b")) == []
    begun = recorded.small(constraints=["constraints.val_accuracy=>= 0.99"])[:4]
    assert explained(recorded.write(tmp_path / "c", begun)) == []


def test_a_value_that_is_no_number_is_not_the_nearest(tmp_path):
    records = recorded.small(constraints=["constraints.train_loss=<= 0.001"])
    for record in records:
        if record["event"] == "reported" and record["fidelity"] == 27:
            record["metrics"]["train_loss"] = "nan"
    (one,) = unmet(recorded.write(tmp_path, records))
    assert (one.met, one.nearest, one.trial) == (0, None, None)
    assert explained(recorded.write(tmp_path, records))[1] == (
        "train_loss <= 0.001: met by 0 of the 2 trials that reached 27 epochs, and measured as no number"
    )
    assert study_answer(recorded.write(tmp_path, records))["unmet"][0]["nearest"] is None


def test_every_answer_tells(tmp_path, nas):  # noqa: F811
    folder = tmp_path / "study"
    dry = ["--set", "cluster.executor=simulated", "--set", "search.trainer=synthetic", "--trials", "8"]
    code, out, _ = nas("search", *dry, "--set", "constraints.val_loss=<= 1e-9", "--dir", folder)
    assert code == 0
    said = re.compile(
        r"val_loss <= 1e-09: met by 0 of the \d+ trials? that reached \d+ epochs?; the nearest is [\d.]+ \(trial \d+\)"
    )
    assert "No trial met this constraint at " in out
    assert said.search(out)
    summary = orjson.loads((folder / "summary.json").read_bytes())
    (one,) = summary["unmet"]
    assert summary["best"] is None
    assert (one["by"], one["met"]) == ("val_loss <= 1e-09", 0)
    assert one["nearest"] > 0
    code, _, err = nas("best", folder)
    assert code == 2
    assert said.search(err)
    assert said.search(nas("status", folder)[1])
    page = write_report(folder).read_text()
    assert said.search(page.replace("&lt;", "<"))

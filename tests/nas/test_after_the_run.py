"""From a finished search to weights that are loaded back: retrain and export, and what they say when they cannot."""

import orjson
import pytest

from nas.api import search
from nas.errors import AllFailedError, ConfigError, StudyError
from nas.exporting import export_trial
from nas.retrain import retrain

TABLES = {
    "search": {"space": "mlp", "task": "digits", "strategy": "random", "trials": 2},
    "objectives": {"val_accuracy": "maximize"},
    "fidelity": {"rule": "none", "max": 2},
    "cluster": {"executor": "inline"},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return search(folder=tmp_path_factory.mktemp("runs") / "study", **TABLES)


@pytest.mark.slow
def test_the_best_is_exported_then_retrained_then_exported_anew(study, tmp_path):
    from trainers import export

    best = study.best()
    exported = export_trial(study.folder, out=tmp_path / "first")
    assert (exported.trial, exported.retrained) == (best.number, False)
    assert exported.parameters == best.metrics["parameters"]

    result = retrain(study.folder, seeds=2)
    assert result.trial == best.number
    accuracies = [metrics["test_accuracy"] for metrics in result.metrics]
    assert result.mean["test_accuracy"] == pytest.approx(sum(accuracies) / 2)
    assert result.metrics[0]["train_loss"] != result.metrics[1]["train_loss"]
    assert min(accuracies) > 0.5

    anew = export_trial(study.folder)
    assert anew.retrained
    assert anew.folder == study.folder / "export"
    first, second = (export.load(folder).state_dict() for folder in (exported.folder, anew.folder))
    assert first.keys() == second.keys()
    assert any((first[name] != second[name]).any() for name in first)
    notes = orjson.loads((anew.folder / export.DESCRIPTION).read_bytes())["notes"]
    assert notes["candidate"] == str(best.proposal.candidate)


@pytest.mark.slow
def test_what_cannot_be_done_is_said(study):
    with pytest.raises(StudyError, match="has trials 0 to 1"):
        export_trial(study.folder, 7)
    with pytest.raises(ConfigError, match="AXIS=DEGREE"):
        retrain(study.folder, plan="wide")


def no_weights(candidate, context):
    """Report, with a state that holds no network."""
    context.report(context.until, {"val_accuracy": 0.5, "test_accuracy": 0.5}, state={"note": 1})


def only_validates(candidate, context):
    """Fail where it is asked for more than a search asks for."""
    if context.recipe.test:
        raise ValueError("there is no test split")
    context.report(context.until, {"val_accuracy": 0.5})


def own(folder, trainer):
    tables = {**TABLES, "search": {**TABLES["search"], "trainer": f"{__name__}:{trainer}"}}
    return search(folder=folder, **tables)


@pytest.mark.slow
def test_own_code_without_weights_is_told_how_to_give_them(tmp_path):
    with pytest.raises(StudyError, match=r"state=\{\"model\": network.state_dict\(\)\}"):
        export_trial(own(tmp_path / "study", "no_weights").folder)
    study = own(tmp_path / "other", "only_validates")
    with pytest.raises(StudyError, match=r"no checkpoint of it is left; train it anew by: nas retrain"):
        export_trial(study.folder)
    with pytest.raises(AllFailedError, match="there is no test split"):
        retrain(study.folder)

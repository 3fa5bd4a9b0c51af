"""Plans that trials cannot be trained under are refused before anything runs."""

import pytest

from nas.api import search
from nas.config import SearchConfig
from nas.errors import ConfigError
from nas.plan_check import check_plan
from nas.retrain import retrain
from trainers import Plan


def config(plan="auto", code="supervised", **tables):
    return SearchConfig.from_plain(
        {
            "search": {"space": "mlp", "task": "digits", "trainer": code, "strategy": "random", "trials": 1},
            "objectives": {"val_accuracy": "maximize"},
            "fidelity": {"rule": "none", "max": 1},
            "trial": {"plan": plan},
            **tables,
        }
    )


@pytest.mark.parametrize("plan", ["data=2", "pipeline=2", "data=2,pipeline=2,micro_batches=8"])
def test_the_supervised_trainer_applies_data_and_pipeline(plan):
    given = config(plan)
    check_plan(given, given.plan)


@pytest.mark.parametrize("plan", ["tensor=2", "shard=2", "pipeline=2,recompute", "data=2,micro_batches=2"])
def test_other_plans_are_refused_by_the_configuration(plan):
    with pytest.raises(ConfigError, match="trial.plan = "):
        config(plan)


def test_a_pipeline_needs_a_process_for_each_stage():
    with pytest.raises(ConfigError, match='plan = "pipeline=2,micro_batches=4" takes 2 processes'):
        config("pipeline=2", cluster={"executor": "inline"})


@pytest.mark.parametrize("key", ["batch_norm", "precision"])
def test_settings_that_no_pipeline_has(key):
    given = config("pipeline=2", trainer={key: {"batch_norm": "global", "precision": "float16"}[key]})
    with pytest.raises(ConfigError, match=rf"trainer.{key} = .* does not go with .*; set .* or use a"):
        check_plan(given, given.plan)
    check_plan(given, Plan(data=2))


def own(candidate, context):
    """Train for itself."""


def staged(candidate, context):
    """Train stages for itself."""


staged.axes = ("data", "pipeline")


def test_own_training_code_says_which_axes_it_applies():
    check_plan(config("data=2", own), Plan(data=2))
    with pytest.raises(ConfigError, match=r"'.*own' applies data and not pipeline; use data=2"):
        check_plan(config("pipeline=2", own), Plan(pipeline=2))
    check_plan(config("pipeline=2", staged), Plan(pipeline=2))


@pytest.mark.slow
def test_networks_that_cannot_be_cut_are_refused_before_they_train(tmp_path):
    tables = {
        "search": {"space": "mlp", "task": "digits", "strategy": "random", "trials": 1},
        "space": {"depth": [0, 0]},
        "objectives": {"val_accuracy": "maximize"},
        "fidelity": {"rule": "none", "max": 1},
        "cluster": {"executor": "inline"},
    }
    study = search(folder=tmp_path / "study", **tables)
    with pytest.raises(ConfigError, match=r'plan = "pipeline=2.*": this network cannot be cut into 2 pipeline stages'):
        retrain(study.folder, plan="pipeline=2")

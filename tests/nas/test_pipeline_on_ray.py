"""A search whose trials are pipelines of two ranks, on Ray: the study of one process, and failures that end."""

import pytest

import nas
from nas.errors import AllFailedError
from nas.retrain import retrain
from trainers.tasks.digits import Digits

TABLES = {
    "search": {"space": "mlp", "task": "digits", "strategy": "random", "trials": 2},
    "space": {"depth": [1, 2], "widths": [16], "dropouts": [0.0]},
    "objectives": {"val_accuracy": "maximize"},
    "fidelity": {"rule": "none", "max": 2},
}
PIPED = {"trial": {"plan": "pipeline=2"}, "cluster": {"executor": "ray", "address": "auto"}}

pytestmark = [pytest.mark.ray, pytest.mark.slow]


class Failing(Digits):
    """Its loss, which only the last stage computes, fails."""

    def loss(self, outputs, targets):
        raise ZeroDivisionError("this loss is broken")


def test_a_search_of_pipelines_finds_what_one_process_finds(tmp_path, local_ray):
    alone = nas.search(folder=tmp_path / "alone", cluster={"executor": "inline"}, **TABLES)
    piped = nas.search(folder=tmp_path / "piped", **PIPED, **TABLES)
    for one, several in zip(alone.trials(), piped.trials(), strict=True):
        assert several.metrics == pytest.approx(one.metrics, rel=1e-4)
    result = retrain(piped.folder)
    assert result.mean["test_accuracy"] > 0.5


def test_one_rank_that_fails_ends_the_trial_and_is_named(tmp_path, local_ray):
    tables = {**TABLES, "search": {**TABLES["search"], "task": Failing, "trials": 1}}
    with pytest.raises(AllFailedError, match="ZeroDivisionError: rank 1: this loss is broken"):
        nas.search(folder=tmp_path / "failing", **PIPED, **tables)

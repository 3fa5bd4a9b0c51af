"""One search, on each executor: the same controller, scheduler, log and resume, so the same study."""

import pytest

import nas

TABLES = {
    "search": {"space": "mlp", "trainer": "synthetic", "strategy": "evolution", "trials": 12, "seed": 4},
    "strategy": {"population": 5, "sample": 2},
    "objectives": {"val_accuracy": "maximize", "parameters": "minimize"},
    "constraints": {"val_loss": "<= 5"},
    "hyperparameters": {"learning_rate": {"low": 1e-3, "high": 1e-1, "log": True}},
    "fidelity": {"rule": "asha", "min": 1, "max": 9, "eta": 3},
}
CLUSTERS = {
    "inline": {"executor": "inline"},
    "simulated": {"executor": "simulated", "max_devices": 1},
    "ray": {"executor": "ray", "address": "auto", "max_concurrent": 1},
}


def told(study):
    """All of a study that does not depend on a clock."""
    return [
        (trial.number, trial.key, trial.outcome, {fidelity: rung.metrics for fidelity, rung in trial.rungs.items()})
        for trial in study.trials()
    ]


@pytest.mark.ray
@pytest.mark.slow
def test_one_search_is_the_same_study_on_each_executor(tmp_path, local_ray):
    studies = {}
    for name, cluster in CLUSTERS.items():
        folder = tmp_path / name
        half = {**TABLES, "search": {**TABLES["search"], "trials": 6}}
        nas.search(folder=folder, cluster=cluster, **half)
        studies[name] = nas.resume(folder, search={"trials": 12})
        assert studies[name].launched == 12
        assert told(nas.load(folder)) == told(studies[name])
        assert studies[name].best() is not None
    assert told(studies["inline"]) == told(studies["simulated"]) == told(studies["ray"])

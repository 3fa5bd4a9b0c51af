"""Metrics of the operator graph in a search: one trace serves all, nobody pays for what is not asked."""

import json

import numpy as np
import pytest

import nas
from nas import graph_metrics, present_machine
from nas.errors import AllFailedError
from nas.graph_metrics import NAMES, GraphMetrics, StepSize
from nas.static_stage import StaticStage
from search_spaces import Bound, Candidate, Choice, SearchSpace, Signature, TensorType, tracing, values
from search_spaces.memory import step_memory
from search_spaces.work_depth import work_depth
from tests.trainers.parallelism.priced_samples import machine

SIGNATURE = Signature(TensorType((1, 8, 8)), TensorType((10,)))


class Linear(SearchSpace):
    """Multiply-accumulates of a sample: 64 width + 10 width."""

    decisions = {"width": Choice(*range(1, 41))}

    def build(self, architecture, signature):
        from torch import nn

        width = architecture["width"]
        return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


class Masked(Linear):
    """A network whose shapes depend on its data."""

    def build(self, architecture, signature):
        from torch import nn

        class Positive(nn.Module):
            def forward(self, batch):
                return batch[batch > batch.mean().item()].sum().reshape(1, 1)

        return nn.Sequential(super().build(architecture, signature), Positive())


class Unbuildable(Linear):
    def build(self, architecture, signature):
        import torch

        torch.zeros(1).item()
        return super().build(architecture, signature)


def train(candidate, context):
    context.report(context.until, {"val_accuracy": candidate.architecture["width"] / 40}, seconds=1.0)


def own_flops(candidate, network, signature):
    return {"flops": 7}


def launched(study):
    return [trial for trial in study.trials() if trial.launches]


@pytest.fixture
def traced(monkeypatch):
    """Batches that networks are traced at, in order."""
    batches = []
    trace = tracing.trace

    def noted(network, inputs, batch, *rest):
        batches.append(batch)
        return trace(network, inputs, batch, *rest)

    monkeypatch.setattr(tracing, "trace", noted)
    return batches


def search(folder, space=Linear, trials=4, **tables):
    own = tables.pop("search", {})
    return nas.search(
        folder=folder,
        **{
            "search": {"space": space, "trainer": train, "strategy": "random", "trials": trials, **own},
            "objectives": {"val_accuracy": "maximize"},
            "fidelity": {"rule": "none", "max": 1},
            "cluster": {"executor": "simulated"},
            **tables,
        },
    )


def test_one_trace_serves_all_metrics_that_a_search_asks_for(tmp_path, traced, monkeypatch):
    monkeypatch.setattr(present_machine, "known_machine", lambda device, **_: machine())
    objectives = {"val_accuracy": "maximize", **dict.fromkeys(NAMES, "minimize")}
    study = search(tmp_path / "s", objectives=objectives)
    assert traced == [64] * (study.launched + study.rejected) == [64] * 4
    for trial in launched(study):
        width = trial.proposal.candidate.architecture["width"]
        assert trial.static["macs"] == 74 * width
        assert trial.static["flops"] == 148 * width
        assert trial.static["parallelism"] == trial.static["work"] / trial.static["depth"]
        assert set(NAMES) <= set(trial.metrics)


def test_nothing_is_traced_where_nobody_asks(tmp_path, traced):
    search(tmp_path / "s", objectives={"val_accuracy": "maximize", "parameters": "minimize"})
    assert traced == []


def test_a_constraint_on_flops_refuses_before_anything_runs(tmp_path):
    study = search(tmp_path / "s", constraints={"flops": "<= 1480"})
    ran = [trial.proposal.candidate.architecture["width"] for trial in launched(study)]
    refused = [trial for trial in study.trials() if not trial.launches and trial.duplicate_of is None]
    assert len(ran) == 4
    assert max(ran) <= 10
    assert refused
    assert all(trial.static["flops"] > 1480 and "flops" in trial.reason for trial in refused)


def test_who_breaks_a_cheap_bound_is_not_traced(tmp_path, traced):
    study = search(tmp_path / "s", constraints={"parameters": "<= 760", "flops": "<= 1e9"})
    assert len(traced) == study.launched == 4
    assert study.rejected > 0


def test_numbers_are_those_of_the_graph_at_the_batch_of_the_candidate():
    batch_size, names = 32, ("work", "depth", "memory_bytes", "flops")
    candidate = Candidate(Linear().parse("width=8"), values.Values({"batch_size": batch_size, "optimizer": "adamw"}))
    network = Linear().build(candidate.architecture, SIGNATURE).to("meta")
    found = GraphMetrics(names, {"batch_size": 128, "momentum": 0.5})(candidate, network, SIGNATURE)
    graph = tracing.trace(network, SIGNATURE, batch_size)
    concurrency = work_depth(graph)
    assert found == {
        "work": concurrency.work,
        "depth": concurrency.depth,
        "memory_bytes": step_memory(graph, 2).peak_bytes,
        "flops": 148 * 8,
    }


@pytest.mark.parametrize(
    ("settings", "hyperparameters", "size"),
    [
        ({}, {}, (64, 1)),
        ({"batch_size": 16, "momentum": 0.0}, {}, (16, 0)),
        ({"batch_size": 16}, {"batch_size": 8, "optimizer": "adamw"}, (8, 2)),
        ({"optimizer": "adamw"}, {"optimizer": "sgd"}, (64, 1)),
        ({"optimizer": "adam", "momentum": 0.0}, {}, (64, 2)),
        ({"optimizer": {"name": "adamw"}}, {"batch_size": "large"}, (64, 1)),
    ],
)
def test_the_size_of_a_step_is_the_candidates_then_the_trainers(settings, hyperparameters, size):
    found = StepSize.of(settings, hyperparameters)
    assert (found.batch, found.optimizer_states) == size


def test_a_function_of_the_user_takes_the_place_of_a_metric_of_the_graph(tmp_path, traced):
    study = search(tmp_path / "s", search={"static_metrics": [own_flops]}, constraints={"flops": "<= 8"})
    assert {trial.static["flops"] for trial in launched(study)} == {7}
    assert traced == []


def test_metrics_of_the_graph_are_recorded_where_they_are_named(tmp_path):
    study = search(tmp_path / "s", search={"static_metrics": ["macs", "depth"]}, trials=2)
    assert all({"macs", "depth"} <= set(trial.static) for trial in launched(study))


@pytest.mark.parametrize(
    ("space", "told"), [(Masked, "tracing on the meta device failed"), (Unbuildable, "building on the meta device")]
)
def test_an_unknown_graph_is_told_with_the_reason_and_the_remedy(tmp_path, space, told):
    with pytest.raises(AllFailedError) as caught:
        search(tmp_path / "s", space, constraints={"flops": "<= 1e9"})
    for part in ("flops: the graph of this network is unknown", told, "search.static_metrics", "leave it out"):
        assert part in str(caught.value)
    study = nas.load(tmp_path / "s")
    assert (study.exit_code, study.launched, study.rejected) == (3, 0, 3)


def test_an_unknown_graph_disturbs_no_search_that_does_not_ask(tmp_path):
    assert search(tmp_path / "s", Masked, constraints={"parameters": "<= 1e9"}).launched == 4


def test_a_stage_without_anything_to_measure_builds_nothing():
    stage = StaticStage(Unbuildable(), lambda: SIGNATURE, (), (Bound.parse("flops", "<= 1"),))
    assert stage.judge(Candidate(Linear().parse("width=8"), values.Values({}))).metrics == {}


def test_every_name_is_a_metric_of_its_own():
    assert [getattr(graph_metrics, name).names for name in NAMES] == [(name,) for name in NAMES]


def test_a_table_keeps_its_own_column_of_such_a_name(tmp_path, traced):
    spec = {
        "name": "tiny", "objective": "score", "direction": "maximize", "resumable": True, "space": None,
        "decisions": [{"name": "width", "options": [1, 2]}],
    }  # fmt: skip
    arrays = {"codes": np.array([[0], [1]], np.int16), "fidelities": np.array([1]), "metric:score": np.ones((2, 1))}
    costs = {"cost:flops": np.array([3.0, 5.0]), "seconds": np.ones((2, 1))}
    np.savez(tmp_path / "tiny.npz", spec=np.array(json.dumps(spec)), **arrays, **costs)
    study = nas.search(
        folder=tmp_path / "s",
        search={"task": f"table:{tmp_path / 'tiny.npz'}", "strategy": "exhaustive", "trials": 2},
        objectives={"score": "maximize", "flops": "minimize"},
    )
    assert [trial.metrics["flops"] for trial in launched(study)] == [3.0, 5.0]
    assert traced == []

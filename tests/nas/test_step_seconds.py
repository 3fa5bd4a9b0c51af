"""Predicted seconds of a step as a metric of a search: laws, one trace, and the rates that a study keeps."""

import json

import pytest

import nas
from nas import present_machine
from nas.errors import StudyError
from nas.graph_metrics import GraphMetrics, StepSize, step_seconds
from nas.study_rates import FILE
from search_spaces import Candidate, tracing, values
from tests.nas.test_graph_metrics import SIGNATURE, Linear, launched, search, traced, train  # noqa: F401 - a fixture
from tests.trainers.parallelism.priced_samples import machine
from trainers.parallelism.cost import price
from trainers.parallelism.plan import Plan
from trainers.parallelism.workload import columns

RATES = machine(flops_per_second=1e9, launch_seconds=1e-6, optimizer_bytes_per_second=1e9)
NAMES = {"val_accuracy": "maximize", "step_seconds": "minimize"}


@pytest.fixture
def asked(monkeypatch):
    """Put synthetic ``rates`` in place of this machine's; a list of each time that they were asked for."""

    class Asked(list):
        rates = RATES

    calls = Asked()

    def known_machine(device, **given):
        calls.append(given)
        return calls.rates

    monkeypatch.setattr(present_machine, "known_machine", known_machine)
    return calls


def seconds(width, batch=64, on=RATES, **settings):
    candidate = Candidate(Linear().parse(f"width={width}"), values.Values({"batch_size": batch}))
    network = Linear().build(candidate.architecture, SIGNATURE).to("meta")
    return GraphMetrics(("step_seconds",), settings, machine=lambda: on)(candidate, network, SIGNATURE)["step_seconds"]


def test_it_is_the_price_of_the_step_on_one_device():
    network = Linear().build(Linear().parse("width=8"), SIGNATURE).to("meta")
    graph = tracing.trace(network, SIGNATURE, 32)
    size = StepSize.of({"optimizer": "adamw"}, {})
    assert seconds(8, 32, optimizer="adamw") == price(columns(graph), Plan(), RATES, size.optimizer).seconds


def test_more_work_takes_more_seconds():
    assert sorted(map(seconds, (40, 4, 16))) == [seconds(4), seconds(16), seconds(40)]
    assert seconds(8, 32) < seconds(8, 64) < seconds(8, 128)
    assert seconds(8, optimizer="sgd", momentum=0.0) < seconds(8) < seconds(8, optimizer="adam")
    assert seconds(8, on=machine(flops_per_second=1e8)) > seconds(8, on=machine(flops_per_second=1e9))


def test_one_trace_and_one_look_at_the_rates_serve_a_search(tmp_path, asked, traced):  # noqa: F811
    limit = seconds(20)
    traced.clear()
    constraints = {"step_seconds": f"<= {limit}", "flops": "<= 1e9"}
    study = search(tmp_path / "s", objectives=NAMES, constraints=constraints)
    assert len(asked) == 1
    assert study.rejected > 0
    assert len(traced) == study.launched + study.rejected
    for trial in launched(study):
        width = trial.proposal.candidate.architecture["width"]
        assert width <= 20
        assert trial.static["step_seconds"] == trial.metrics["step_seconds"] == seconds(width)
    refused = [trial for trial in study.trials() if not trial.launches and trial.duplicate_of is None]
    assert all("step_seconds" in trial.reason and trial.static["step_seconds"] > limit for trial in refused)


def test_a_resumed_study_uses_its_own_rates(tmp_path, asked):
    search(tmp_path / "s", trials=2, search={"static_metrics": ["step_seconds"]})
    asked.rates = machine(flops_per_second=1.0)
    study = nas.resume(tmp_path / "s", search={"trials": 5}, code={"space": Linear, "trainer": train})
    assert len(asked) == 1
    assert len(launched(study)) == 5
    for trial in launched(study):
        assert trial.static["step_seconds"] == seconds(trial.proposal.candidate.architecture["width"])


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"device": 1}', '{"device": {"operators": []}}', "negative"])
def test_damaged_rates_are_an_error_with_its_remedy(tmp_path, asked, damage):
    search(tmp_path / "s", trials=1, objectives=NAMES)
    path = tmp_path / "s" / FILE
    found = json.loads(path.read_text())
    found["device"]["operators"]["other"]["flops_per_second"] = -1
    path.write_text(json.dumps(found) if damage == "negative" else damage)
    with pytest.raises(StudyError, match=r"rates.json: the rates .* cannot be read .*; put the file back, or delete"):
        nas.resume(tmp_path / "s", search={"trials": 2}, code={"space": Linear, "trainer": train})


def test_no_rates_are_looked_for_where_nobody_asks(tmp_path, asked):
    search(tmp_path / "s", trials=1, constraints={"flops": "<= 1e9"})
    assert not asked
    assert not (tmp_path / "s" / FILE).exists()


def test_rates_are_of_the_number_type_of_the_trainer(tmp_path, asked):
    present_machine.trial_rates({"precision": "bfloat16"})
    present_machine.trial_rates({})
    assert [given["dtype"] for given in asked] == ["bfloat16", None]
    with pytest.raises(ValueError, match="trainer.precision = "):
        present_machine.trial_rates({"precision": "float16"})


def test_rates_are_given_to_the_built_in_name_alone():
    network = Linear().build(Linear().parse("width=8"), SIGNATURE).to("meta")
    with pytest.raises(ValueError, match="search.static_metrics names it 'step_seconds'"):
        step_seconds(Candidate(Linear().parse("width=8"), values.Values({})), network, SIGNATURE)

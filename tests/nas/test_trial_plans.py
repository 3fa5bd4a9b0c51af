"""The plan of each trial where it is left to us: the fastest of its share, corrected by what steps took."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

import nas
from cluster import ClusterSpec, Node
from cluster.planner import model_of, priced, worthwhile
from nas import present_machine
from nas.config import SearchConfig
from nas.config_text import complete
from nas.explaining import explain
from nas.explaining_tables import explanation
from nas.graph_metrics import StepSize
from nas.plan_check import chosen_axes
from nas.present_machine import unlike_here
from nas.proposal import Proposal
from nas.trial import Trial
from nas.trial_plans import ONE_DEVICE, OnePlan, PricedPlans, Subject
from search_spaces import Candidate, values
from search_spaces.tracing import class_loss
from tests.nas import recorded
from tests.nas.test_cli import golden
from tests.nas.test_graph_metrics import SIGNATURE, Linear, Masked
from tests.nas.test_plan_check import config, own
from tests.trainers.parallelism.priced_samples import machine
from trainers import MeasuredStep, Measurement, Plan
from trainers.parallelism.traced_step import TracedStep

FAST_LINK = machine(flops_per_second=1e8, seconds_per_byte=1e-12)
SLOW_LINK = machine(flops_per_second=1e8, seconds_per_byte=1.0)
DOUBTED = replace(FAST_LINK, log_error=0.15)
AXES = ("data", "pipeline")


def subject(space, axes=AXES):
    return Subject(space, SIGNATURE, lambda one: StepSize.of({}, one.hyperparameters), lambda: class_loss, axes)


def trial(space, width=8, number=0, plan=""):
    candidate = Candidate(space.parse(f"width={width}"), values.Values({"batch_size": 64}))
    return Trial(number, Proposal(candidate), "", 0, 1, {"parameters": 1000}, plan=plan)


def measured(seconds, samples=64):
    step = None if seconds is None else MeasuredStep(seconds, samples)
    return Measurement(1, {"val_accuracy": 0.5}, 1.0, step)


@pytest.mark.parametrize("share", [1, 2, 4])
@pytest.mark.parametrize("on", [FAST_LINK, SLOW_LINK], ids=["fast", "slow"])
def test_the_fastest_of_the_share_is_chosen_from_the_pareto_set(on, share):
    own, size = trial(Linear()), StepSize.of({}, {"batch_size": 64})
    network = Linear().build(own.proposal.candidate.architecture, SIGNATURE).to("meta")
    step = TracedStep.of(network, SIGNATURE, 64, tuple(range(2, share + 1)))
    model = replace(model_of(on, "sgd", 0.0), optimizer=size.optimizer)
    every = priced(step.work, model, share, 64, AXES, step.starts, least=4)
    expected = worthwhile(every, on) if share > 1 else ()
    chosen = PricedPlans(subject(Linear()), on, share).choose(own, 8)
    assert chosen.options == expected
    assert chosen.plan == min(expected, key=lambda option: option.seconds).plan if expected else Plan()
    assert chosen.plan.width <= share


def test_links_decide():
    assert PricedPlans(subject(Linear()), FAST_LINK, 2).choose(trial(Linear()), 8).plan == Plan(data=2)
    assert PricedPlans(subject(Linear()), SLOW_LINK, 2).choose(trial(Linear()), 8).plan == Plan()


def test_axes_that_the_trainer_does_not_split_along_are_left_out():
    chosen = PricedPlans(subject(Linear(), axes=("pipeline",)), FAST_LINK, 2).choose(trial(Linear()), 8)
    assert {option.plan.data for option in chosen.options} == {1}


def test_what_does_not_fit_is_not_chosen_and_where_nothing_fits_one_device_tries():
    full = replace(FAST_LINK, device=replace(FAST_LINK.device, memory_bytes=1.0))
    chosen = PricedPlans(subject(Linear()), full, 2).choose(trial(Linear()), 8)
    assert (chosen.plan, chosen.options) == (Plan(), ())


def test_an_unknown_graph_gets_one_device_and_is_priced_from_its_first_steps():
    choosing = PricedPlans(subject(Masked()), FAST_LINK, 2)
    chosen = choosing.choose(trial(Masked()), 8)
    assert (chosen.plan, chosen.options) == (Plan(), ())
    choosing.learn(trial(Masked(), plan="data=1"), measured(0.5))
    again = choosing.choose(trial(Masked()), 8)
    assert [(option.plan, option.seconds) for option in again.options] == [
        (Plan(), 0.5),
        (Plan(data=2), pytest.approx(0.25)),
    ]
    assert again.plan == Plan(data=2)
    choosing.learn(trial(Masked(), plan="data=2"), measured(2.0))
    assert choosing.choose(trial(Masked()), 8).plan == Plan(), "what was measured is not predicted any more"
    assert choosing.choose(trial(Masked(), number=1), 8).options == (), "another trial has measured nothing"


def test_an_unknown_graph_is_not_priced_beyond_the_links_that_are_known():
    alone = replace(FAST_LINK, devices_per_node=2)
    choosing = PricedPlans(subject(Masked()), alone, 4)
    choosing.choose(trial(Masked()), 8)
    choosing.learn(trial(Masked(), plan="data=1"), measured(0.5))
    assert choosing.choose(trial(Masked()), 8).plan == Plan(data=2)


def test_a_loss_that_cannot_be_made_leaves_one_device():
    def loss():
        raise FileNotFoundError("data.npz")

    choosing = PricedPlans(replace(subject(Linear()), loss=loss), FAST_LINK, 2)
    assert choosing.choose(trial(Linear()), 8).plan == Plan()


def test_no_more_devices_are_taken_than_there_are():
    choosing = PricedPlans(subject(Linear()), FAST_LINK, 2)
    assert choosing.choose(trial(Linear()), 8).plan == Plan(data=2)
    assert choosing.choose(trial(Linear()), 1).plan == Plan()


@pytest.mark.parametrize("batch", [2, 8, 64])
def test_norms_get_two_samples_of_every_micro_batch_of_half_a_batch(batch):
    candidate = Candidate(Linear().parse("width=8"), values.Values({"batch_size": batch}))
    own = Trial(0, Proposal(candidate), "", 0, 1, {})
    options = PricedPlans(subject(Linear()), FAST_LINK, 8).choose(own, 8).options
    smallest = (batch + 1) // 2  # of batches that are equal in an epoch
    assert all(smallest // o.plan.data // o.plan.micro_batches >= 2 for o in options if o.devices > 1)
    assert options[0].plan == Plan()


def test_a_network_that_could_not_be_cut_has_no_pipeline_any_more():
    choosing = PricedPlans(subject(Linear(), axes=("pipeline",)), FAST_LINK, 2)
    piped = choosing.choose(trial(Linear()), 8).plan
    assert piped.pipeline == 2
    own = trial(Linear(), plan=str(piped))
    assert choosing.refuse(own)
    assert choosing.choose(own, 8).plan == Plan()
    assert not choosing.refuse(own), "once is enough"
    assert choosing.choose(trial(Linear(), number=1), 8).plan == piped, "others are others"
    assert not OnePlan(Plan(pipeline=2)).refuse(own)


def test_steps_of_other_batches_teach_in_proportion_to_their_work():
    choosing = PricedPlans(subject(Linear(), axes=("data",)), DOUBTED, 2)
    other = TracedStep.of(Linear().build(Linear().parse("width=8"), SIGNATURE).to("meta"), SIGNATURE, 64)
    model = replace(model_of(DOUBTED, "sgd", 0.0), optimizer=StepSize.of({}, {}).optimizer)
    seconds = model.price(other.work(20), Plan(data=2)).seconds
    before = choosing.choose(trial(Linear()), 8)
    for _ in range(8):
        choosing.learn(trial(Linear(), plan="data=2"), measured(seconds, samples=40))
    after = choosing.choose(trial(Linear()), 8)
    assert [o.seconds for o in after.options] == pytest.approx([o.seconds for o in before.options], rel=1e-6)


def test_a_slow_step_is_forgotten_while_others_are_measured():
    choosing = PricedPlans(subject(Linear(), axes=("data",)), DOUBTED, 2)
    one, two = (option.seconds for option in choosing.choose(trial(Linear()), 8).options)
    choosing.learn(trial(Linear(), plan="data=2"), measured(5 * two))
    assert choosing.choose(trial(Linear()), 8).plan == Plan()
    for number in range(120):
        choosing.choose(trial(Linear(), number=number), 8)
        choosing.learn(trial(Linear(), number=number, plan="data=1"), measured(one))
    assert choosing.choose(trial(Linear()), 8).plan == Plan(data=2)


def test_a_resumed_search_recalls_the_latest_steps():
    first, again = (PricedPlans(subject(Linear(), axes=("data",)), DOUBTED, 2) for _ in range(2))
    seconds = first.choose(trial(Linear()), 8).options[-1].seconds
    done = []
    for number in range(4):
        own = trial(Linear(), number=number, plan="data=2")
        own.rungs[1] = measured(0.7 * seconds)
        first.choose(own, 8)
        first.learn(own, own.rungs[1])
        done.append(own)
    again.recall([*done, trial(Linear(), number=4)])
    assert again.choose(trial(Linear(), number=5), 8) == first.choose(trial(Linear(), number=5), 8)


def test_measured_steps_correct_their_axes_whole_and_others_by_half():
    choosing = PricedPlans(subject(Linear(), axes=("data",)), DOUBTED, 2)
    before = {option.plan: option.seconds for option in choosing.choose(trial(Linear()), 8).options}
    for number in range(8):
        choosing.choose(trial(Linear(), number=number), 8)
        choosing.learn(trial(Linear(), number=number, plan="data=2"), measured(16 * before[Plan(data=2)]))
    after = choosing.choose(trial(Linear(), number=9), 8)
    assert after.plan == Plan(), "data=2 takes sixteen times what was predicted"
    assert [option.plan for option in after.options] == [Plan()]
    assert after.options[0].seconds == pytest.approx(4 * before[Plan()], rel=0.05), "half of it, as logarithms"
    choosing.learn(trial(Linear(), number=9, plan="data=1"), measured(before[Plan()]))
    assert choosing.choose(trial(Linear(), number=9), 8).options[0].seconds == pytest.approx(before[Plan()], rel=0.1)


def test_the_prediction_comes_to_what_is_measured():
    choosing = PricedPlans(subject(Linear(), axes=("data",)), DOUBTED, 2)
    before = choosing.choose(trial(Linear()), 8).options[-1]
    for number in range(12):
        choosing.choose(trial(Linear(), number=number), 8)
        choosing.learn(trial(Linear(), number=number, plan="data=2"), measured(0.8 * before.seconds))
    after = choosing.choose(trial(Linear(), number=20), 8).options[-1]
    assert after.seconds == pytest.approx(0.8 * before.seconds, rel=0.02)
    assert after.log_error < before.log_error


def test_what_is_not_measured_or_not_known_teaches_nothing():
    choosing = PricedPlans(subject(Linear()), FAST_LINK, 2)
    before = choosing.choose(trial(Linear()), 8)
    choosing.learn(trial(Linear(), plan="data=2"), measured(None))
    choosing.learn(trial(Linear(), number=77, plan="data=2"), measured(9.0))
    assert choosing.choose(trial(Linear()), 8) == before


def test_a_given_plan_is_everybodys():
    assert OnePlan(Plan(data=2)).choose(trial(Linear()), 8).plan == Plan(data=2)
    assert (OnePlan(Plan(data=2)).share, ONE_DEVICE.share) == (2, 1)


def test_axes_to_choose_from_are_those_that_the_trainer_names_and_its_settings_allow():
    assert chosen_axes(config()) == ("data", "pipeline")
    assert chosen_axes(config(trainer={"batch_norm": "global"})) == ("data",)
    assert chosen_axes(config(code=own)) == (), "it may know nothing of ranks"


def test_rates_of_this_machine_say_nothing_of_other_devices(monkeypatch):
    monkeypatch.setattr(present_machine, "present_device", lambda name="auto": "cpu")
    assert unlike_here(ClusterSpec((Node("a", 2), Node("b", 2)))) == ""
    assert "the cluster has H100" in unlike_here(ClusterSpec((Node("a", 2, "H100"),)))
    assert "the cluster has H100, cpu" in unlike_here(ClusterSpec((Node("a", 2), Node("b", 2, "H100"))))
    monkeypatch.setattr(present_machine, "present_device", lambda name="auto": "cuda:0")
    monkeypatch.setattr(present_machine, "device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert unlike_here(ClusterSpec((Node("a", 2, "H100"),))) == unlike_here(ClusterSpec((Node("a", 2, "gpu"),))) == ""
    assert unlike_here(ClusterSpec((Node("a", 2, "T4"),)))


TABLES = {
    "search": {"space": "mlp", "task": "digits", "strategy": "random", "trials": 2},
    "space": {"depth": [1, 2], "widths": [16], "dropouts": [0.0]},
    "objectives": {"val_accuracy": "maximize"},
    "fidelity": {"rule": "none", "max": 2},
}


@pytest.fixture
def rates(monkeypatch):
    """Put rates under which two devices are twice as fast in place of this machine's."""
    monkeypatch.setattr(present_machine, "known_machine", lambda device, **given: FAST_LINK)


@pytest.mark.ray
@pytest.mark.slow
def test_a_search_of_one_trial_at_a_time_gives_it_both_devices_and_explains_it(tmp_path, local_ray, rates):
    cluster = {"executor": "ray", "address": "auto", "max_concurrent": 1, "max_devices": 2}
    study = nas.search(folder=tmp_path / "wide", cluster=cluster, **TABLES)
    assert study[0].plan == "data=2"
    found = explain(study.folder, 0)
    leg = found.legs[-1]
    assert (leg.plan, leg.until, leg.predicted, leg.share) == ("data=2", 2, leg.options[-1], 2)
    assert leg.step.seconds > 0
    assert "max_concurrent left it 2 devices" in found.why
    assert found.plain()["legs"][0]["options"] == [option.to_json() for option in leg.options]


@pytest.mark.slow
def test_a_trial_on_one_device_is_priced_when_it_is_explained(tmp_path, rates):
    study = nas.search(folder=tmp_path / "one", cluster={"executor": "inline"}, **TABLES)
    found = explain(study.folder, None)
    assert found.trial.number == study.best().number
    (leg,) = found.legs
    assert (leg.plan, leg.options) == ("data=1", ())
    assert leg.predicted in found.analysis.planned.every
    assert leg.step == study.best().measurement.step is not None
    assert "any number of trials may run at once" in found.why
    plain = found.plain()
    assert plain["work"] > plain["depth"] > 0
    assert plain["parallelism"] == plain["work"] / plain["depth"]
    assert plain["batch"] == found.trial.proposal.candidate.hyperparameters.get("batch_size", 64)


def test_the_explanation_has_the_golden_form(tmp_path, rates):
    given = SearchConfig.from_plain(complete({**TABLES, "cluster": {"max_concurrent": 1}}))
    options = [
        {"plan": "data=1", "seconds": 0.004, "log_error": 0.1, "memory_bytes": 1e6},
        {"plan": "data=2", "seconds": 0.003, "log_error": 0.1, "memory_bytes": 9e5},
    ]
    architecture = {"depth": 1, "layer.0.width": 16, "activation": "relu", "norm": "none", "dropout": 0.0}
    leg = {"trial": 0, "leg": 0, "attempt": 0, "until": 2}
    measured = {"fidelity": 2, "metrics": {"val_accuracy": 0.5}, "seconds": 1.0}
    measured["step"] = {"seconds": 0.00175, "samples": 32}
    records = [
        recorded.header(given),
        {"event": "opened", "at": 0.0, "config": given.to_plain(), "cluster": [["node", 2, "cpu"]]},
        {**recorded.proposed(0, 0.0), "architecture": architecture, "hyperparameters": {}, "until": 2},
        {"event": "launched", "at": 1.0, **leg, "plan": "data=2", "on": [["node", 2]], "options": options, "share": 2},
        {"event": "reported", "at": 2.0, "trial": 0, "leg": 0, **measured},
        {"event": "finished", "at": 2.0, "trial": 0, "leg": 0, "busy": 1.0, "then": "ended", "outcome": "completed"},
    ]
    recorded.write(tmp_path / "study", records)
    found = explain(tmp_path / "study", 0)
    plain = found.plain()
    for plan in plain["plans"]["options"] + plain["plans"]["dropped"]:
        plan |= {name: float(f"{plan[name]:.9g}") for name in ("seconds", "samples_per_second")}  # sums of any order
    for gain in plain["plans"]["would_gain"]:
        gain["at_most"] = float(f"{gain['at_most']:.9g}")
    golden("explain", plain)
    console = Console(width=120, record=True, file=StringIO())
    explanation(console, found)
    told = console.export_text()
    assert "2       data=2  at its launch         3.00 ms  ± 10%   3.50 ms                  1.17" in told
    assert "W/D" in told

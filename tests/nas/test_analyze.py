"""`nas analyze`: the documented answer, tables with units, a figure, and errors that say the remedy."""

import sys
import textwrap
from dataclasses import replace
from xml.etree import ElementTree

import orjson
import pytest

from nas import present_machine
from nas.amounts import amount, memory, time
from nas.analysed import Request, resolve
from nas.analysis import PROCESSES, analyze
from nas.graph_layout import lay_out
from nas.planned import plan_network
from search_spaces.operator_graph import Phase
from tests.nas.test_cli import golden, nas  # noqa: F401 - a fixture
from tests.trainers.parallelism.priced_samples import machine

TINY = 'activation="relu", norm="none", dropout=0.0, depth=1, layer.0.width=16'
CODE = """
    from torch import nn
    from search_spaces import Infeasible
    from search_spaces.mlp import MLP


    class Asking(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x):
            y = self.layer(x.flatten(1))
            return y if y.sum().item() > 0 else -y


    class Refusing(MLP):
        def build(self, architecture, signature):
            raise Infeasible("too wide")


    class Valued(MLP):
        def build(self, architecture, signature):
            import torch

            torch.zeros(1).item()
            return super().build(architecture, signature)


    class Growing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x):
            y = self.layer(x.flatten(1))
            return y if len(x) < 8 else y.relu()


    def single():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


    def small():
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 4, 5), nn.ReLU(), nn.Linear(5, 2))


    def broken():
        raise RuntimeError("no weights here")


    def nothing():
        return {}


    number = 3
    made = small()
"""


@pytest.fixture(autouse=True)
def _own_code(tmp_path, monkeypatch):
    (tmp_path / "own_networks.py").write_text(textwrap.dedent(CODE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("own_networks", None)


def answer(path="answer.json"):
    with open(path, "rb") as file:
        return orjson.loads(file.read())


@pytest.fixture
def rates(monkeypatch):
    """Put synthetic rates in place of this machine's; ``rates(**machine)``."""

    def known(log_error=0.1, **given):
        found = replace(machine(**{"flops_per_second": 1e9, "launch_seconds": 1e-5, **given}), log_error=log_error)
        monkeypatch.setattr(present_machine, "known_machine", lambda device, **_: found)
        return found

    return known


# Answers ---------------------------------------------------------------------------------------------------------


def test_the_answer_has_the_golden_form(nas, rates):  # noqa: F811
    rates(memory_bytes=2.0**30)
    given = ("--architecture", TINY, "--batch", 4, "--devices", 2)
    code, out, err = nas("analyze", "mlp", *given, "--json", "answer.json")
    assert (code, err) == (0, "")
    found = answer()
    weights = 64 * 16 + 16 + 16 * 10 + 10
    assert found["parameters"] == weights
    assert found["macs"]["forward"] == 4 * (64 * 16 + 16 * 10)
    assert found["macs"]["backward"] == 4 * (64 * 16 + 2 * 16 * 10)  # the first layer's input has no gradient
    assert found["work"] == sum(operator["work"] for operator in found["operators"])
    assert found["depth"] == sum(found["operators"][place]["depth"] for place in found["critical_path"])
    assert sum(found["memory"]["parts"].values()) == found["memory"]["peak_bytes"]
    assert sum(found["levels"]) == len(found["operators"])
    data = {volume["processes"]: volume["elements"] for volume in found["volumes"] if volume["axis"] == "data"}
    assert data == {ranks: 2 * weights * (ranks - 1) / ranks for ranks in PROCESSES}
    for plan in found["plans"]["options"] + found["plans"]["dropped"]:
        plan |= {name: float(f"{plan[name]:.9g}") for name in ("seconds", "samples_per_second")}  # sums of any order
    for gain in found["plans"]["would_gain"]:
        gain["at_most"] = float(f"{gain['at_most']:.9g}")
    golden("analyze", found)
    assert f"parameters  {weights:,}" in out


def test_tables_say_every_number_with_its_unit(nas):  # noqa: F811
    code, out, _ = nas("analyze", "convnet", "--batch", 8)
    assert code == 0
    for said in (
        "Operators of a training step, by module (--all: every one)",
        "operations in a step (forward, loss, backward)",
        "operations, the longest chain of them",
        "max(W/p, D) <= T <= (W - D)/p + D",
        "Memory at its peak, while",
        "Critical path: ",
        "What a process sends in a step, elements (bytes)",
        "all-reduce of gradients",
        "(1, 8, 8) float32 x 8 samples",
    ):
        assert said in out
    assert max(map(len, (line for line in out.splitlines() if "architecture" not in line))) <= 120


def test_all_shows_every_operator(nas):  # noqa: F811
    folded, every = (nas("analyze", "cell201", "--batch", 2, *more)[1] for more in ([], ["--all"]))
    assert "stages.0.0.operations" not in folded.partition("Memory")[0]
    assert "stages.0.4.operations" in every
    assert len(folded.splitlines()) < 110 < len(every.splitlines())


@pytest.mark.parametrize("code", ["own_networks:small", "own_networks:made"])
def test_a_network_of_ones_own(nas, code):  # noqa: F811
    ended, out, _ = nas("analyze", "--module", code, "--input", "3x4", "--batch", 2, "--json", "answer.json")
    assert ended == 0
    found = answer()
    assert (found["module"], found["input"]) == (code, {"shape": [3, 4], "dtype": "float32"})
    assert found["parameters"] == 12 * 5 + 5 + 5 * 2 + 2
    assert "task" not in found


def test_a_network_that_is_built_from_values_is_traced_all_the_same(nas):  # noqa: F811
    assert nas("analyze", "own_networks:Valued", "--batch", 2)[0] == 0


def test_settings_are_arguments_of_the_space_and_of_the_trainer():
    request = Request(
        "mlp", settings=["space.depth=[1, 1]", "trainer.optimizer=adamw", "trainer.batch_size=16"], sample=3
    )
    found = resolve(request)
    assert (found.size.batch, found.size.optimizer_states) == (16, 2)
    assert "depth=1" in found.what["architecture"]
    assert resolve(Request("mlp", sample=3)).what != resolve(Request("mlp", sample=4)).what


# Plans -----------------------------------------------------------------------------------------------------------


def planned(**request):
    return plan_network(found := resolve(Request(**request)), analyze(found).graph, 4, print)


def test_plans_that_are_worth_their_devices_are_told(nas, rates):  # noqa: F811
    rates(log_error=0.25, latency_seconds=1e-6, seconds_per_byte=1e-12)
    code, out, _ = nas("analyze", "mlp", "--batch", 64, "--devices", 4, "--json", "answer.json")
    found = answer()["plans"]
    assert code == 0
    for option in found["options"]:
        assert option["samples_per_second"] == 64 / option["seconds"]
        assert option["log_error"] == 0.25
        assert f"{option['plan']}  " in out
    assert [option["devices"] for option in found["options"]] == [1, 2, 3, 4]
    assert {option["reason"] for option in found["dropped"]} == {"slower"}
    assert "± 25%" in out
    assert "no faster than another of as few devices: " in out


def test_a_network_that_cannot_be_cut_has_no_pipelines(rates):
    rates()
    found = planned(module="own_networks:single")
    assert {option.plan.pipeline for option in found.every} == {1}
    assert "cannot be cut into 2 pipeline stages" in found.limits[0]
    assert max(option.plan.pipeline for option in planned(space="mlp", sample=1).every) > 1


def test_settings_without_pipelines_have_none(rates):
    rates()
    found = planned(space="mlp", settings=['trainer.batch_norm="global"'])
    assert {option.plan.pipeline for option in found.every} == {1}
    assert "trainer.batch_norm" in found.limits[0]


def test_what_fits_no_device_is_told_and_not_offered(nas, rates):  # noqa: F811
    rates(memory_bytes=1e3)
    code, out, _ = nas("analyze", "mlp", "--devices", 2, "--json", "answer.json")
    assert code == 0
    assert answer()["plans"]["options"] == []
    assert {plan["reason"] for plan in answer()["plans"]["dropped"]} == {"memory"}
    assert "too large for 1,000 B with 10% to spare" in out


def test_work_that_changes_with_the_batch_is_priced_at_this_batch_alone(rates):
    rates()
    found = planned(module="own_networks:Growing")
    assert [str(option.plan) for option in found.every] == ["data=1"]
    assert "do not tell how the network scales" in found.limits[0]


def test_how_rates_were_found_is_told(nas, monkeypatch):  # noqa: F811
    def known_machine(device, say, **_):
        say("no rates yet: measuring")
        return replace(machine(), devices_per_node=2)

    monkeypatch.setattr(present_machine, "known_machine", known_machine)
    code, out, _ = nas("analyze", "mlp", "--batch", 2, "--devices", 3, "--json", "answer.json")
    assert code == 0
    assert answer()["plans"]["said"] == ["no rates yet: measuring"]
    assert out.startswith("no rates yet: measuring")
    assert "more than 2 devices: no link between machines is known" in out


# What goes wrong -------------------------------------------------------------------------------------------------


def test_an_unknown_graph_is_told_and_parameters_are_counted(nas):  # noqa: F811
    code, out, err = nas("analyze", "--module", "own_networks:Asking", "--json", "answer.json", "--figure", "x.svg")
    assert code == 2
    for said in ("the graph is unknown", "650", ".item()", "--input"):
        assert said in err
    assert "unknown" in out
    found = answer()
    assert found["parameters"] == 650
    assert "tracing on the meta device failed" in found["unknown"]
    assert "operators" not in found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name a search space or, by --module"),
        (["mlp", "--module", "own_networks:small"], "one of the two"),
        (["convnot"], "did you mean 'convnet'?"),
        (["mlp", "--architecture", "depth=1"], "--architecture depth=1: "),
        (["mlp", "--architecture", "{"], "architecture text at 0"),
        (["mlp", "--architecture", TINY, "--sample", "1"], "both say which architecture"),
        (["--module", "own_networks:small", "--sample", "1"], "--sample 1: it chooses from a space"),
        (["--module", "no_networks:small"], "module 'no_networks' does not import"),
        (["--module", "own_networks:none"], "has no 'none'"),
        (["--module", "own_networks:number"], "a value of type int; name a torch.nn.Module"),
        (["--module", "own_networks:nothing"], "a value of type dict"),
        (["--module", "own_networks:broken"], "own_networks.py:49 broken: RuntimeError: no weights here"),
        (["--module", "own_networks:small"], "The input was (1, 8, 8) float32: another is given by --task or --input"),
        (["own_networks:Refusing"], "the space calls it infeasible: too wide"),
        (["mlp", "--task", "digit"], "did you mean 'digits'?"),
        (["mlp", "--input", "3xy"], "--input 3xy: expected the shape of one sample"),
        (["mlp", "--input", "3:float3"], "a dtype of torch"),
        (["transformer", "--input", "7"], "--task or --input: "),
        (["mlp", "--set", "space.dept=1"], "did you mean depth?"),
        (["mlp", "--set", "trainer.batch_size=0"], "trainer.batch_size = 0: use an integer of at least 1"),
        (["mlp", "--figure", "graph.png"], "--figure graph.png: a figure is written as .svg or .html"),
    ],
)
def test_what_cannot_be_analysed_is_told(nas, arguments, told):  # noqa: F811
    code, _, err = nas("analyze", *arguments)
    assert code == 2
    assert told in err


# The figure ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["convnet", "cell201", "transformer"])
def test_boxes_lie_below_what_they_read_and_share_no_place(space):
    step = analyze(resolve(Request(space, batch=2))).step
    layout = lay_out(step.graph, step.concurrency.critical_path)
    places = [(box.group.phase, box.row, box.lane) for box in layout.boxes]
    assert len(set(places)) == len(places)
    for arrow in layout.arrows:
        source, target = layout.boxes[arrow.source], layout.boxes[arrow.target]
        if target.group.phase is Phase.FORWARD:
            assert source.row < target.row
        else:
            assert source.row >= target.row
    marked = [arrow for arrow in layout.arrows if arrow.critical]
    assert [arrow.target for arrow in marked][:-1] == [arrow.source for arrow in marked][1:]  # one way, unbroken
    assert {box for arrow in marked for box in (arrow.source, arrow.target)} == layout.critical


@pytest.mark.parametrize("name", ["graph.svg", "graph.html"])
def test_the_figure_is_a_sound_picture_with_the_critical_path_marked(nas, name):  # noqa: F811
    code, out, _ = nas("analyze", "convnet", "--batch", 4, "--figure", name)
    assert code == 0
    assert f"figure: {name}" in out
    with open(name, encoding="utf-8") as file:
        text = file.read()
    picture = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    classes = [element.get("class") for element in picture.iter()]
    assert classes.count("arrow critical") > 20
    assert classes.count("box critical") == classes.count("arrow critical") + 1
    assert "convnet: a training step of 4 samples" in text


def test_amounts_have_three_digits():
    values = (0, 7, 999, 1000, 1234, 12345, 999_400, 999_600, 123_456_789, 1.5e9)
    shown = ["0", "7", "999", "1.00 k", "1.23 k", "12.3 k", "999 k", "1.00 M", "123 M", "1.50 G"]
    assert [amount(value) for value in values] == shown
    assert [memory(size) for size in (0, 1023, 1024, 3 * 2**20)] == ["0 B", "1,023 B", "1.00 KiB", "3.00 MiB"]
    assert [time(seconds) for seconds in (2.5, 0.99999, 0.0124, 3e-6)] == ["2.50 s", "1.00 s", "12.4 ms", "3.00 µs"]

"""What the planner's benchmarks read and judge: parsers, tables of operators, blindness to labels."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import plan_choice, planner, stage_cuts, vtrain
from benchmarks.gpt import Gpt, equal_stages, workload
from benchmarks.pipedream import network
from benchmarks.planner import Measure
from trainers.parallelism.cost import divide
from trainers.parallelism.plan import Plan

DATA = Path(os.environ.get("NAS_BENCHMARK_DATA", "../shared/data"))
with_vtrain = pytest.mark.skipif(not (DATA / "vtrain").is_dir(), reason=f"{DATA}/vtrain is missing")
with_pipedream = pytest.mark.skipif(not (DATA / "pipedream").is_dir(), reason=f"{DATA}/pipedream is missing")

GPT = Gpt(samples=2, hidden=768, heads=12, layers=12, length=1024)


def test_the_table_of_gpt_2_small_holds_its_parameters_and_products():
    work = workload(GPT)
    weights = 12 * 12 * 768**2 + (50257 + 1024 + 2) * 768 + 50257 * 768  # blocks, embedding, norm, head
    per_block = 2 * 2 * 768 + 2 * 768  # norms, biases of the residuals
    assert work.parameters.sum() == weights + 12 * per_block
    tokens = 2 * 1024
    products = 2 * tokens * (12 * 12 * 768**2 + 50257 * 768)
    attention = 12 * 2 * 2 * tokens * 1024 * 768
    assert work.flops.sum() == 3 * (products + attention)


def test_a_block_all_reduces_its_activations_twice_forward_and_twice_backward():
    work = workload(GPT)
    reduced = work.reduced_bytes > 0
    assert (reduced & ~work.backward).sum() == 2 * 12 + 1  # and after the embedding
    assert (reduced & work.backward).sum() == 2 * 12 + 1  # and before the head
    assert set(work.reduced_bytes[reduced]) == {2 * 2048 * 768.0}


def test_equal_stages_pass_one_activation_each():
    share = divide(
        workload(GPT),
        Plan(pipeline=4),
        vtrain.data_sheet((), [vtrain.Link(2, 1, 1e-6, 1e-11)]),
        equal_stages(12, 4),
    )
    (borders,) = share.exchanges
    one = 2 * 2048 * 768.0
    assert borders.bytes.tolist() == [one, 2 * one, 2 * one, one]
    assert len(set(share.parameters[1:3])) == 1


def node(number, name, forward, backward, activation, size=0.0):
    times = f"forward_compute_time={forward:.3f}, backward_compute_time={backward:.3f}"
    return f"node{number} -- {name} -- {times}, activation_size={activation}, parameter_size={size:.3f}"


GRAPH = "\n".join(
    [
        node(2, "Conv2d(3, 64)", 9, 4, "80.000", 40),
        node(1, "Input", 600, 0, "8.000"),
        node(3, "LSTM(2, 2)", 1, 2, "[16.0; 8.0]"),
        node(4, "ReLU()", 1, 1, "80.000"),
        node(5, "Add", 5, 6, "80.000"),
        *(f"\tnode{source} -- node{target}" for source, target in ((1, 2), (2, 3), (2, 4), (3, 5), (4, 5))),
    ]
)


def test_a_measured_graph_runs_backward_along_its_edges():
    read = network("tiny", GRAPH)
    names = [operator.name for operator in read.graph.operators]
    assert names == [f"node{number}" for number in (1, 2, 3, 4, 5, 5, 4, 3, 2, 1)]
    assert read.seconds == pytest.approx([0, 4e-3, 1e-3, 1e-3, 5e-3, 6e-3, 1e-3, 2e-3, 4e-3, 0])  # warm-up cut off
    assert read.graph.operators[4].inputs == (2, 3)
    assert read.graph.operators[8].inputs == (1, 6, 7)
    assert read.graph.operators[2].saved_bytes == 24
    found = stage_cuts.concurrency(read)
    assert (found.work, found.depth) == (pytest.approx(24e-3), pytest.approx(22e-3))
    row = stage_cuts.row(read, 2)
    assert row["largest_seconds"] == pytest.approx(13e-3)  # 8 + 2 + 3 and 11, or 8 + 3 and 2 + 11
    assert row["best_in_its_order"] is True


def test_a_measure_is_judged_by_its_aim():
    assert [Measure("m", value, ("<=", 2.0)).line["met"] for value in (1.0, 2.0, 3.0)] == [True, True, False]
    assert [Measure("m", value, (">=", 2.0)).line["met"] for value in (1.0, 2.0, 3.0)] == [False, True, True]
    assert Measure("m", 1.0).line == {"measure": "m", "value": 1.0, "aim": None, "best_known": None, "met": None}


def test_regret_is_that_of_the_plan_that_was_chosen():
    truth = np.array([2.0, 1.0, 4.0, 3.0, 6.0])
    predicted = np.array([1.0, 2.0, 3.0, 9.0, 8.0])
    assert plan_choice.regret(truth, predicted, [[0, 1, 2], [3, 4]]).tolist() == [1.0, 1.0]
    assert plan_choice.regret(truth, truth, [[0, 1, 2], [3, 4]]).tolist() == [0.0, 0.0]


@pytest.mark.slow
@with_vtrain
def test_thirty_iterations_predict_the_others_and_see_no_other_label():
    measured = vtrain.iterations(DATA / "vtrain")
    known = vtrain.links(DATA / "vtrain" / "trace" / "a100")
    assert len(measured) == 1440
    assert len(plan_choice.grouped(measured)) == 136
    few = measured[::8]
    run = plan_choice.predict(few, known, 0, 30)
    assert run.calibrated.sum() == 30
    error = plan_choice.judge(few, [run])[0].value
    assert error < 0.09
    changed = [one if seen else replace(one, seconds=1e3) for one, seen in zip(few, run.calibrated, strict=True)]
    again = plan_choice.predict(changed, known, 0, 30)
    assert (again.seconds == run.seconds).all()


@with_pipedream
def test_figures_are_written_with_what_they_follow_from(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "data" / "pipedream"
    folder.mkdir(parents=True)
    for name in ("resnet18", "alexnet"):
        text = (DATA / "pipedream" / f"{name}.graph.txt").read_text(encoding="utf-8")
        (folder / f"{name}.graph.txt").write_text(text, encoding="utf-8")
    figures, rows = tmp_path / "figures", tmp_path / "rows"
    planner.main(["pipedream", "--data", str(tmp_path / "data"), "--json", str(figures), "--rows", str(rows)])
    first, *_ = map(json.loads, figures.read_text(encoding="utf-8").splitlines())
    cases = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert len(cases) == 6
    assert first["value"] == max(case["largest_seconds"] / case["lower_bound_seconds"] for case in cases)
    assert first["met"] is True
    assert "| measure | value | aim | best known | met |" in capsys.readouterr().out


@pytest.mark.parametrize("benchmark", ["vtrain", "pipedream"])
def test_missing_data_is_said_in_one_line(benchmark, tmp_path):
    with pytest.raises(SystemExit, match="missing; give --data DIR or set NAS_BENCHMARK_DATA"):
        planner.main([benchmark, "--data", str(tmp_path)])

"""Rates as values: read back as they were written, refused where they cannot be."""

import math
from dataclasses import replace

import pytest

from tests.trainers.parallelism.priced_samples import machine
from trainers.parallelism.rates import Link, Machine, OperatorRate


@pytest.mark.parametrize("memory", [math.inf, 80e9])
def test_a_machine_comes_back_from_json(memory):
    whole = machine(launch_seconds=5e-6, latency_seconds=1e-6, memory_bytes=memory, context_bytes=5e8)
    assert Machine.from_json(whole.to_json()) == whole


def test_measured_links_come_back_from_json():
    base = machine()
    whole = Machine(base.device, (Link(2, 1, 1e-6, 1e-11, ((1024.0, 1e-5), (2048.0, 2e-5))),))
    assert Machine.from_json(whole.to_json()) == whole


@pytest.mark.parametrize("text", ["{}", '{"device": {}}', '{"device": 1, "links": []}'])
def test_other_json_is_refused_with_the_remedy(text):
    with pytest.raises(ValueError, match="nas calibrate"):
        Machine.from_json(text)


@pytest.mark.parametrize("wrong", [(0.0, 1.0, 1.0, 0.0), (1.0, -1.0, 1.0, 0.0), (1.0, 1.0, math.nan, 0.0)])
def test_rates_are_positive_numbers(wrong):
    with pytest.raises(ValueError, match="expected a number"):
        OperatorRate(*wrong)


def test_the_link_of_the_nearest_group_inside_a_node_or_across():
    inside, wide, across = Link(2, 1, 1e-6, 1e-11), Link(8, 1, 2e-6, 1e-11), Link(8, 2, 9e-6, 1e-10)
    known = Machine(machine().device, (inside, wide, across), devices_per_node=8)
    assert known.link(3) is inside
    assert known.link(7) is wide
    assert known.link(2, nodes=2) is across
    with pytest.raises(ValueError, match="across nodes"):
        Machine(machine().device, (inside,)).link(4, nodes=2)


def test_groups_with_a_stride_span_more_nodes():
    known = replace(machine(), devices_per_node=8)
    assert [known.nodes(8), known.nodes(2, 4), known.nodes(2, 8), known.nodes(16, 1), known.nodes(4, 8)] == [
        1,
        1,
        2,
        2,
        4,
    ]


def test_an_operator_takes_its_own_rate_its_kinds_or_any():
    slow, fast = OperatorRate(1.0, 0.0, 1.0, 0.0), OperatorRate(2.0, 0.0, 1.0, 0.0)
    known = {"other": slow, "matmul": fast, "matmul/mm": OperatorRate(3.0, 0.0, 1.0, 0.0)}
    device = replace(machine().device, operators=known)
    assert [device.rate(name).flops_per_second for name in ("matmul/mm", "matmul/bmm", "matmul", "copy/cat")] == [
        3,
        2,
        2,
        1,
    ]

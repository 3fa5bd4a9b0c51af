"""Bounds of what no plan can do yet, on graphs where they are known."""

import pytest

from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase
from tests.trainers.parallelism.priced_samples import machine
from trainers.parallelism.gains import would_gain
from trainers.parallelism.workload import columns

FAST = machine(flops_per_second=1e9)


def operator(flops, inputs=(), kind=Kind.MATMUL):
    return Operator("layer.op", kind, Phase.FORWARD, flops, flops, 1, 8, 8, 0, 0, inputs)


def gains(operators, on=FAST, devices=2):
    graph = OperatorGraph(tuple(operators), 4, 0)
    return {gain.what.split()[0]: gain.times for gain in would_gain(graph, columns(graph), on, devices)}


def test_a_chain_has_no_branches():
    assert gains([operator(10**6), operator(10**6, (0,)), operator(10**6, (1,))], devices=8) == {}


@pytest.mark.parametrize(("branches", "devices", "expected"), [(2, 2, 2.0), (3, 2, 2.0), (3, 8, 3.0), (5, 4, 4.0)])
def test_independent_branches_gain_their_number_and_no_more_than_the_devices(branches, devices, expected):
    assert gains([operator(10**6) for _ in range(branches)], devices=devices) == {"branches": pytest.approx(expected)}


def test_one_device_runs_no_branches():
    assert gains([operator(10**6), operator(10**6)], devices=1) == {}


def test_fusion_saves_elementwise_operators_and_copies_that_read_results():
    read = [operator(10**6), operator(10**6, (0,), Kind.ELEMENTWISE), operator(2 * 10**6, (1,), Kind.COPY)]
    assert gains(read) == {"fusion": pytest.approx(4.0)}
    assert gains([operator(10**6, kind=Kind.ELEMENTWISE)]) == {}, "it reads the input of the network"


def test_packing_fills_the_time_in_which_a_device_waits_for_its_host():
    slow_host = machine(flops_per_second=1e9, host_seconds=3e-3)
    assert gains([operator(10**6), operator(10**6, (0,))], slow_host) == {"packing": pytest.approx(3.0)}


def test_the_largest_comes_first_and_what_is_next_to_nothing_is_left_out():
    some = [operator(10**6), operator(10**6), operator(10**6, (1,), Kind.ELEMENTWISE), operator(1)]
    graph = OperatorGraph(tuple(some), 4, 0)
    found = would_gain(graph, columns(graph), machine(flops_per_second=1e9, host_seconds=7.55e-4), 2)
    assert [gain.what.split()[0] for gain in found] == ["branches", "fusion"]
    assert found[0].times >= found[1].times > 1.01
    assert would_gain(OperatorGraph((), 4, 0), columns(graph), machine(flops_per_second=float("inf")), 2) == ()

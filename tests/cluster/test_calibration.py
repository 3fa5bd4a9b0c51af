"""Calibration: known rates are found again from what they would take; a short one is run for real."""

from dataclasses import replace
from functools import cache
from math import inf

import numpy as np
import pytest
import torch

from cluster import fresh_memory, links
from cluster.calibration import calibrate, device_rates, machine_of
from cluster.descent_timing import Descent, time_descent
from cluster.operator_samples import Timed
from cluster.operator_timing import TimedDevice, aligned, step, time_operators
from cluster.reference_networks import class_loss, references
from cluster.whole_steps import beyond_operators
from search_spaces.operator_graph import Kind
from search_spaces.tracing import trace
from tests.trainers.parallelism.priced_samples import price
from trainers.parallelism.collective_costs import send
from trainers.parallelism.plan import Plan
from trainers.parallelism.workload import columns, torch_operator

DESCENT = Descent(optimizer_bytes_per_second=1e10, tensor_seconds=1e-5, step_seconds=1e-4)
EACH, BYTE = 4e-6, 2e-11
"""What steps take beyond their operators in these tests: for each of them, and each byte that they move."""


@cache
def drawn(count, seed=0):
    """Reference networks of moderate size, traced."""
    found = []
    for reference in references(np.random.default_rng(seed)):
        graph = trace(reference.network, [reference.inputs], len(reference.inputs), class_loss)
        if sum(operator.flops for operator in graph.operators) < 2e9:
            found.append((reference, graph))
        if len(found) == count:
            return found


def seconds_of(operator):
    """A device with one rate for products and one for all else."""
    moved = operator.read_bytes + operator.written_bytes
    if operator.flops:
        return 2e-6 + max((operator.flops + 1e6) / 5e10, moved / 2e10)
    return 1e-6 + moved / 1e10


@pytest.fixture(scope="module")
def timed():
    """As a device would measure that is exactly so."""
    found = []
    for reference, graph in drawn(24):
        operators = [seconds_of(operator) for operator in graph.operators]
        moved = sum(operator.read_bytes + operator.written_bytes for operator in graph.operators)
        whole = sum(operators) + EACH * len(operators) + BYTE * moved
        found.append(Timed(graph, reference.network, reference.inputs, [whole, 9 * whole, whole], [operators] * 3))
    return found


def test_references_run_operators_of_every_kind():
    kinds = {operator.kind for _, graph in drawn(24) for operator in graph.operators}
    assert kinds == set(Kind)


def test_references_are_drawn_alike():
    (first, graph), (again, same) = (drawn.__wrapped__(3, seed=5)[-1] for _ in range(2))
    assert first.inputs.shape == again.inputs.shape
    assert graph.operators == same.operators


def test_known_rates_are_found_again(timed):
    rates = device_rates(timed, DESCENT, "cpu", "float32")
    for kind in ("convolution", "matmul"):
        found = rates.rate(kind)
        assert found.flops_per_second == pytest.approx(5e10, rel=0.1)
        smallest = found.launch_seconds + found.half_flops / found.flops_per_second
        assert smallest == pytest.approx(2e-6 + EACH + 1e6 / 5e10, rel=0.1)
    simple = rates.rate("elementwise/add")
    assert "elementwise/add" in rates.operators
    assert simple.bytes_per_second == pytest.approx(1 / (1e-10 + BYTE), rel=0.05)
    assert simple.launch_seconds == pytest.approx(1e-6 + EACH, rel=0.1)


def test_what_steps_take_beyond_their_operators(timed):
    rates = device_rates(timed, DESCENT, "cuda:0", "float32", accelerator=True).operators
    beyond = beyond_operators(timed, rates)
    assert beyond.each == pytest.approx(EACH, rel=0.3)
    assert beyond.byte == pytest.approx(BYTE, rel=0.3)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_steps_that_take_no_more_than_their_operators_add_nothing(timed, share):
    rates = device_rates(timed, DESCENT, "cuda:0", "float32", accelerator=True).operators
    bare = [replace(one, steps=[share * sum(map(seconds_of, one.graph.operators))]) for one in timed]
    beyond = beyond_operators(bare, rates)
    assert beyond.each == pytest.approx(0.0, abs=0.1 * EACH)
    assert beyond.byte == pytest.approx(0.0, abs=0.1 * BYTE)


def test_networks_that_were_not_measured_are_predicted(timed):
    known = machine_of(timed, device_rates(timed, DESCENT, "cpu", "float32"), (), 1)
    assert known.log_error == 0.05
    for _, graph in drawn(8, seed=1):
        moved = sum(operator.read_bytes + operator.written_bytes for operator in graph.operators)
        truth = sum(map(seconds_of, graph.operators)) + EACH * len(graph.operators) + BYTE * moved
        cost = price(columns(graph, kind=torch_operator), Plan(), known)
        assert cost.seconds - cost.time.optimizer == pytest.approx(truth, rel=0.1)
        tensors = sum(storage.role == "gradients" for storage in graph.storages)
        assert cost.time.optimizer == pytest.approx(1e-4 + tensors * 1e-5 + graph.parameters * 28 / 1e10)


def test_an_accelerator_has_a_host_of_its_own(timed):
    rates = device_rates(timed, DESCENT, "cuda:0", "float32", accelerator=True)
    shortest = min(one.step_seconds / len(one.graph.operators) for one in timed)
    assert rates.host_seconds == rates.exchange_host_seconds == shortest
    assert rates.rate("elementwise/add").launch_seconds == pytest.approx(1e-6, rel=0.2)


def test_real_operators_are_timed_under_the_names_of_the_trace():
    device = TimedDevice()
    for reference, graph in drawn(4):
        step(reference.network, reference.inputs, class_loss, device)
        seconds = aligned(graph, time_operators(reference.network, reference.inputs, class_loss, device))
        assert np.mean([value is not None for value in seconds]) > 0.9
        assert all(value >= 0 for value in seconds if value is not None)
        assert all(weight.grad is None for weight in reference.network.parameters())


def test_operators_that_ran_otherwise_are_left_out():
    _, graph = drawn(1)[0]
    names = [operator.name.rpartition(".")[2] for operator in graph.operators]
    seconds = {name: [float(place) for place, other in enumerate(names) if other == name] for name in set(names)}
    assert aligned(graph, seconds) == [float(place) for place in range(len(names))]
    changed = aligned(graph, {**seconds, names[0]: [0.0]})
    assert changed[0] is None
    assert [value for name, value in zip(names, changed, strict=True) if name == names[0]] == [None] * names.count(
        names[0]
    )


def test_the_descent_takes_time():
    found = time_descent(TimedDevice(), repeats=3)
    assert 1e8 < found.optimizer_bytes_per_second < 1e13
    assert 0 <= found.tensor_seconds < 1e-3
    assert 0 < found.step_seconds < 0.1


@pytest.mark.parametrize(
    ("seconds", "found"),
    [({24: 1e-3, 48: 2e-3}, (inf, 0.0)), ({24: 1e-3, 48: 10e-3}, (float(32 << 20), 8e-3 / (48 << 20)))],
)
def test_memory_is_fresh_where_large_results_are_slower(monkeypatch, seconds, found):
    monkeypatch.setattr(fresh_memory, "_seconds_per_byte", lambda _, size, __: seconds[size >> 20] / size)
    assert fresh_memory.time_fresh_memory(TimedDevice()) == pytest.approx(found)
    assert fresh_memory.time_fresh_memory(TimedDevice("cuda:0")) == (inf, 0.0)


def test_a_short_calibration_of_this_core():
    threads = torch.get_num_threads()
    measured = calibrate(seconds=0.2, devices=1)
    assert torch.get_num_threads() == threads
    assert measured.networks >= 8
    assert measured.failures == ()
    assert measured.machine.links == ()
    assert measured.machine.log_error >= 0.05
    assert 1e8 < measured.machine.device.rate("matmul").flops_per_second < 1e14
    assert measured.machine.device.memory_bytes > measured.machine.device.context_bytes > 0


def test_one_device_has_no_links():
    assert links.measure_links("cpu", 1, 1, 1.0) == ([], [])


@pytest.mark.slow
def test_a_link_of_two_processes():
    (link,), failures = links.measure_links("cpu", 1, 2, 1.0)
    assert failures == []
    assert (link.ranks, link.nodes) == (2, 1)
    assert [size for size, _ in link.measured] == sorted(size for size, _ in link.measured)
    sent = send(link, np.array([0.0, 1e3, 1e7]))
    assert sent[0] == 0 < sent[1] <= sent[2] < 10
    assert 1 <= link.slow_down < 10


def test_a_link_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(links, "STARTING_SECONDS", 0.05)
    found, failures = links.measure_links("cpu", 1, 2, 0.01)
    assert found == []
    assert failures[0].startswith("link of 2 devices: its processes were not through")

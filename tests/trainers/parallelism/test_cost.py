"""Laws of the price of a step: limits, what is conserved, what never falls."""

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.trainers.parallelism.priced_samples import machine, perceptron, price
from trainers.parallelism.collective_costs import Algorithm, seconds
from trainers.parallelism.cost import divide
from trainers.parallelism.pipeline import bubble_share
from trainers.parallelism.plan import Plan

WORK = perceptron(32, (64,) * 9)
PLANS = [
    Plan(),
    Plan(data=4),
    Plan(shard=4),
    Plan(tensor=2),
    Plan(pipeline=2, micro_batches=4),
    Plan(data=2, shard=2, tensor=2, pipeline=2, micro_batches=8),
    Plan(pipeline=4, micro_batches=2, recompute=True),
]


def test_with_nothing_but_arithmetic_a_step_takes_its_flops():
    assert price(WORK, Plan(micro_batches=3), machine()).seconds == pytest.approx(3 * WORK.flops.sum() / 1e12)


def test_an_operator_of_half_flops_runs_at_half_the_rate():
    work = perceptron(32, (64, 64))
    own = float(work.flops[0])
    assert price(work, Plan(), machine(half_flops=own)).seconds == pytest.approx(2 * 3 * own / 1e12)


def test_slow_memory_and_slow_hosts_bound_a_step():
    assert price(WORK, Plan(), machine(bytes_per_second=1e3)).seconds == pytest.approx(WORK.bytes.sum() / 1e3)
    assert price(WORK, Plan(), machine(host_seconds=1.0)).seconds == pytest.approx(24.0)
    assert price(WORK, Plan(), machine(launch_seconds=1.0)).seconds == pytest.approx(24.0)


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize(
    "slower",
    [
        {"flops_per_second": 1e11},
        {"half_flops": 1e7},
        {"bytes_per_second": 1e9},
        {"launch_seconds": 1e-4},
        {"host_seconds": 1e-3},
        {"latency_seconds": 1e-3},
        {"seconds_per_byte": 1e-8},
        {"optimizer_bytes_per_second": 1e8},
    ],
    ids=lambda slower: next(iter(slower)),
)
def test_a_slower_machine_is_never_faster(plan, slower):
    known = {"bytes_per_second": 1e12, "overlap": 0.5}
    assert price(WORK, plan, machine(**(known | slower))).seconds >= price(WORK, plan, machine(**known)).seconds


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_parts_make_the_whole(plan):
    cost = price(WORK, plan, machine(latency_seconds=1e-4, seconds_per_byte=1e-9, optimizer_bytes_per_second=1e9))
    parts = cost.time
    assert cost.seconds == parts.compute + parts.bubble + parts.exposed + parts.optimizer
    assert parts.compute > 0
    assert parts.optimizer > 0
    assert parts.bubble >= -1e-12
    assert (parts.bubble > 1e-9) is (plan.pipeline > 1)
    assert (parts.exposed > 0) is (plan.data * plan.shard > 1)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_parameters_and_flops_are_shared_out_not_lost(plan):
    share = divide(WORK, plan, machine())
    assert share.parameters.sum() * plan.tensor == pytest.approx(8 * 64 * 64)
    assert share.work.flops.sum() * plan.tensor == pytest.approx(WORK.flops.sum())
    assert share.state_shards == plan.shard


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 4), (8, 2)])
def test_the_bubble_of_a_network_of_equal_layers(stages, micro_batches):
    time = price(WORK, Plan(pipeline=stages, micro_batches=micro_batches), machine()).time
    assert time.bubble / (time.compute + time.bubble) == pytest.approx(bubble_share(stages, micro_batches))


def sent(plan, axis):
    return sum(float(e.sent_bytes().sum()) for e in divide(WORK, plan, machine()).exchanges if e.axis == axis)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_volumes_of_data_and_shard_axes(ranks):
    weights = 8 * 64 * 64 * 4
    assert sent(Plan(data=ranks), "data") == pytest.approx(2 * weights * (ranks - 1) / ranks)
    assert sent(Plan(shard=ranks), "shard") == pytest.approx(3 * weights * (ranks - 1) / ranks)
    assert sent(Plan(data=2, shard=ranks), "data") == pytest.approx(weights / ranks)


@pytest.mark.parametrize(("samples", "tensor_moves_less"), [(63, True), (64, False), (65, False)])
def test_splitting_a_pair_of_layers_moves_less_below_the_crossover(samples, tensor_moves_less):
    work = perceptron(samples, (64, 64, 64))  # hm(64, 64) = 64
    link = machine(seconds_per_byte=1e-9)
    by_tensor = price(work, Plan(tensor=2), link).seconds - price(work, Plan(tensor=2), machine()).seconds
    by_data = price(work, Plan(data=2), link).seconds - price(work, Plan(data=2), machine()).seconds
    assert by_tensor == pytest.approx(by_data * samples / 64)
    assert (by_tensor < by_data * (1 - 1e-9)) is tensor_moves_less


def test_gradients_hide_behind_the_backward_pass_but_for_a_tenth():
    link = {"seconds_per_byte": 1e-9}
    whole = seconds(Algorithm.RING, 2, 8 * 64 * 64 * 4, 0.0, 1e-9)
    backward = WORK.flops[WORK.backward].sum() / 1e12
    exposed = [price(WORK, Plan(data=2), machine(**link, overlap=rho)).time.exposed for rho in (0.0, 1.0)]
    assert exposed[0] == pytest.approx(whole)
    assert exposed[1] == pytest.approx(max(0.1 * whole, whole - backward))
    slow = machine(**link, overlap=1.0, flops_per_second=1e6)
    assert price(WORK, Plan(data=2), slow).time.exposed == pytest.approx(0.1 * whole)


def test_what_hides_one_exchange_hides_no_other():
    """Gradients of replicas and of shards have one backward pass to hide behind, weights what these leave of a step."""
    plan = Plan(data=2, shard=2)
    weights, backward = 8 * 64 * 64 * 4, WORK.flops[WORK.backward].sum() / 1e12
    scatter = seconds(Algorithm.RING, 2, weights, 0.0, 1.0) / 2
    reduced = seconds(Algorithm.RING, 2, weights / 2, 0.0, 1.0)
    gathered = 2 * scatter
    for whole in (0.5, 1.2, 5.0):  # of all exchanges, in backward passes
        link = machine(seconds_per_byte=whole * backward / (scatter + reduced + gathered), overlap=1.0)
        scale = link.links[0].seconds_per_byte
        first, second, third = scatter * scale, reduced * scale, gathered * scale
        hidden = min(0.9 * first, backward)
        hidden += min(0.9 * second, backward - hidden)
        hidden += min(0.9 * third, 1.5 * backward - hidden)
        assert price(WORK, plan, link).time.exposed == pytest.approx(first + second + third - hidden)


def test_tensor_parallel_layers_wait_for_their_exchanges():
    free, busy = (price(WORK, Plan(tensor=2), machine(latency_seconds=latency)).seconds for latency in (0.0, 1.0))
    assert free == pytest.approx(WORK.flops.sum() / 2e12)
    assert busy - free == pytest.approx(8 * 2)  # 2 (P - 1) L, once forward and once backward a pair


def test_recomputation_adds_a_forward_pass_and_saves_memory():
    keep, anew = (Plan(pipeline=2, micro_batches=4, recompute=recompute) for recompute in (False, True))
    kept, again = (price(WORK, plan, machine()) for plan in (keep, anew))
    assert again.seconds == pytest.approx(kept.seconds * 4 / 3)
    assert again.memory_bytes < kept.memory_bytes


def test_networks_without_hints_have_no_tensor_plan():
    with pytest.raises(ValueError, match="no operator of this network"):
        price(perceptron(8, (64, 64, 64), divided=False), Plan(tensor=2), machine())


def test_a_corrected_cost_is_scaled_in_all_its_parts():
    cost = price(WORK, Plan(data=2), machine(seconds_per_byte=1e-9))
    assert cost.corrected(0.0, cost.log_error) == cost
    twice = cost.corrected(0.6931471805599453, 0.3)
    assert twice.seconds == pytest.approx(2 * cost.seconds)
    assert (twice.memory_bytes, twice.log_error) == (cost.memory_bytes, 0.3)


def test_groups_across_nodes_need_their_own_link():
    with pytest.raises(ValueError, match="across nodes"):
        price(WORK, Plan(data=2), replace(machine(), devices_per_node=1))


def test_pricing_loads_no_torch():
    script = "import sys, trainers.parallelism.calibrated; print('torch' in sys.modules, 'scipy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).split() == ["False", "False"]


def test_large_results_cost_their_fresh_memory():
    size = WORK.written_bytes.max()
    large = WORK.written_bytes >= size
    free = price(WORK, Plan(), machine())
    slow = price(WORK, Plan(), machine(fresh_from_bytes=size, fresh_seconds_per_byte=1e-9))
    assert slow.seconds - free.seconds == pytest.approx(WORK.written_bytes[large].sum() * 1e-9)
    assert price(WORK, Plan(), machine(fresh_from_bytes=size + 1, fresh_seconds_per_byte=1e-9)) == free


def test_a_step_has_costs_of_its_own_and_for_each_tensor():
    work = replace(WORK, tensors=(WORK.parameters > 0) * 2.0)
    free = price(work, Plan(), machine())
    slow = price(work, Plan(), machine(tensor_seconds=1e-3, step_seconds=0.5))
    assert slow.seconds - free.seconds == pytest.approx(0.5 + 2 * 8 * 1e-3)
    halves = price(work, Plan(pipeline=2), machine(tensor_seconds=1e-3, step_seconds=0.5))
    assert halves.time.optimizer == pytest.approx(0.5 + 8 * 1e-3, rel=0.3)


def test_ranks_that_compute_at_once_slow_each_other_down():
    link = replace(machine().links[0], slow_down=1.25)
    shared = replace(machine(), links=(link,))
    assert price(WORK, Plan(), shared) == price(WORK, Plan(), machine())
    for plan in (Plan(data=2), Plan(tensor=2), Plan(data=3)):
        free, slow = price(WORK, plan, machine()).time, price(WORK, plan, shared).time
        assert slow.compute == pytest.approx(1.25 * free.compute)


def test_divided_results_take_a_part_of_the_fresh_memory():
    slow = machine(fresh_from_bytes=1.0, fresh_seconds_per_byte=1e-6)
    whole, half = (price(WORK, plan, slow).time.compute for plan in (Plan(), Plan(tensor=2)))
    assert half == pytest.approx(whole / 2)
    assert divide(WORK, Plan(tensor=2), slow).work.crossing_bytes.tolist() == WORK.crossing_bytes.tolist()

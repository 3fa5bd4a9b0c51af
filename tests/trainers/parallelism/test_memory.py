"""Memory of a plan: what is shared out, what is in flight, what fits."""

from dataclasses import replace

import pytest

from tests.trainers.parallelism.priced_samples import machine, perceptron
from trainers.parallelism.cost import divide
from trainers.parallelism.memory import Schedule, fits, in_flight, memory_bytes
from trainers.parallelism.plan import Plan

WORK = perceptron(32, (64,) * 9)
WEIGHTS = 8 * 64 * 64


def memory(plan, state_bytes=16, **options):
    return memory_bytes(divide(WORK, plan, machine()), plan, machine(), state_bytes, **options)


def test_one_device_holds_states_activations_and_the_largest_operator():
    saved, largest = 8 * 32 * 64 * 4, (32 * 64 + 64 * 64 + 32 * 64) * 4
    assert memory(Plan()) == [16 * WEIGHTS + saved + largest]
    assert memory(Plan(), state_bytes=8) == [8 * WEIGHTS + saved + largest]


def test_shards_divide_states_and_nothing_else():
    assert memory(Plan()) - memory(Plan(shard=4)) == [16 * WEIGHTS * 3 / 4]


def test_buckets_of_replicas_are_their_gradients(tmp_path):
    """Torch's reducer holds as many bytes as the parameters, of which every gradient is a view."""
    import torch
    from torch import distributed, nn

    from trainers.parallelism import data

    assert memory(Plan(data=2)) == memory(Plan())
    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        replica = data.apply(nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(8))), "cpu")
        for _ in range(3):
            replica.zero_grad()
            replica(torch.ones(2, 64)).sum().backward()
        gradients = [weight.grad.untyped_storage() for weight in replica.parameters()]
    finally:
        distributed.destroy_process_group()
    buckets = {storage.data_ptr(): storage.nbytes() for storage in gradients}
    assert len(buckets) < len(gradients)
    assert sum(buckets.values()) == 4 * WEIGHTS


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 8), (4, 2), (4, 8)])
def test_micro_batches_in_flight(stages, micro_batches):
    one = in_flight(stages, micro_batches, Schedule.ONE_FORWARD_ONE_BACKWARD)
    assert one.tolist() == [min(micro_batches, stages - stage) for stage in range(stages)]
    every = in_flight(stages, micro_batches, Schedule.ALL_FORWARD_ALL_BACKWARD)
    assert every.tolist() == ([1] if stages == 1 else [micro_batches] * stages)


def test_1f1b_never_needs_more_than_gpipe():
    plan = Plan(pipeline=4, micro_batches=8)
    gpipe = memory(plan, schedule=Schedule.ALL_FORWARD_ALL_BACKWARD)
    assert (memory(plan) < gpipe).all()
    assert memory(plan)[0] > memory(plan)[-1]


def test_a_plan_fits_with_two_standard_deviations_to_spare():
    device = machine(memory_bytes=100.0)
    assert fits(100.0, 0.0, device)
    assert fits(80.0, 0.1, device)
    assert not fits(84.0, 0.1, device)


def test_a_whole_network_takes_no_more_than_its_fullest_moment():
    known = replace(WORK, peak_bytes=5e4)
    assert memory_bytes(divide(known, Plan(), machine()), Plan(), machine(), 16) == [16 * WEIGHTS + 5e4]
    cut = Plan(pipeline=2, micro_batches=2)
    assert memory_bytes(divide(known, cut, machine()), cut, machine(), 16).tolist() == memory(cut).tolist()

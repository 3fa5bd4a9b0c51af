"""Plans of a candidate: all legal ones, none that does not fit, and the Pareto set, by brute force on small cases."""

from dataclasses import replace
from itertools import product
from math import ceil, inf

import pytest

from cluster.planner import (
    MEMORY_ERROR,
    degrees,
    evaluation_seconds,
    legal,
    micro_batch,
    model_of,
    pareto,
    plans_unknown,
    priced,
    worthwhile,
)
from tests.trainers.parallelism.priced_samples import ADAM, machine, perceptron
from trainers.measurement import MeasuredStep
from trainers.parallelism.calibrated import Calibrated
from trainers.parallelism.memory import fits
from trainers.parallelism.option import Option
from trainers.parallelism.plan import AXES, INSTALLED_AXES, Plan
from trainers.parallelism.rates import Link
from trainers.parallelism.scaling import Scaled

WIDTHS = (64, 128, 64, 256)
WORK = Scaled(perceptron(8, WIDTHS), perceptron(64, WIDTHS))


def model(**rates):
    return Calibrated(machine(flops_per_second=1e9, half_flops=1e4, **rates), ADAM)


def plans(work, known, devices, batch, *axes):
    return worthwhile(priced(work, known, devices, batch, *axes), known.machine)


def every_plan(devices, batch, axes):
    """All plans of up to 8 devices, straight from the words of the rule."""
    found = set()
    for data, shard, tensor, pipeline in product(range(1, devices + 1), repeat=4):
        width = data * shard * tensor * pipeline
        split = {"data": data, "shard": shard, "tensor": tensor, "pipeline": pipeline}
        if width > devices or any(degree > 1 and axis not in axes for axis, degree in split.items()):
            continue
        for micro_batches in (1, 2, 4, 8, 16, 32, 64):
            samples = batch // (data * shard) // micro_batches
            if samples >= 1 and (micro_batches == 1 or pipeline > 1):
                found.add(Plan(data, shard, tensor, pipeline, micro_batches))
    return found


@pytest.mark.parametrize("axes", [("data",), ("data", "pipeline"), AXES])
@pytest.mark.parametrize(("devices", "batch"), [(1, 1), (2, 3), (4, 16), (8, 6)])
def test_legal_plans_are_all_and_each_once(axes, devices, batch):
    found = list(legal(devices, batch, axes))
    assert len(found) == len(set(found))
    assert set(found) == every_plan(devices, batch, axes)


def test_plans_that_are_offered_can_be_applied():
    offered = list(legal(8, 64))
    assert {axis for plan in offered for axis in AXES if getattr(plan, axis) > 1} == set(INSTALLED_AXES) & set(AXES)
    for plan in offered:
        plan.check_installed()


def test_degrees_above_eight_are_sparse():
    assert degrees(6) == (1, 2, 3, 4, 5, 6)
    assert degrees(50) == (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48)


def test_the_largest_micro_batch_holds_its_part_of_the_batch():
    for data, shard, micro_batches, batch in product((1, 2, 3), (1, 2), (1, 2, 4), (7, 24, 65)):
        plan = Plan(data=data, shard=shard, micro_batches=micro_batches)
        size = micro_batch(plan, batch)
        assert size * micro_batches * data * shard >= batch
        assert (size - 1) * micro_batches < ceil(batch / (data * shard))


@pytest.mark.parametrize("memory", [inf, 1.2e6, 4e5])
@pytest.mark.parametrize("axes", [("data",), ("data", "pipeline"), AXES])
def test_what_is_kept_is_the_pareto_set_of_what_fits(axes, memory):
    known = model(memory_bytes=memory, seconds_per_byte=1e-10, latency_seconds=1e-6)
    every = [o for o in priced(WORK, known, 4, 32, axes) if fits(o.memory_bytes, MEMORY_ERROR, known.machine)]
    kept = plans(WORK, known, 4, 32, axes)
    assert all(o.memory_bytes * (1 + 2 * MEMORY_ERROR) <= memory for o in kept)
    for option in every:
        assert any(o.devices <= option.devices and o.seconds <= option.seconds for o in kept)
    for one, other in product(kept, kept):
        assert one is other or one.devices > other.devices or one.seconds > other.seconds
    assert bool(kept) == bool(every)


def test_more_devices_are_faster_or_not_offered():
    known = model(seconds_per_byte=1e-9, latency_seconds=1e-5)
    few, many = plans(WORK, known, 2, 64, AXES), plans(WORK, known, 8, 64, AXES)
    for kept in (few, many):
        assert [o.devices for o in kept] == sorted({o.devices for o in kept})
        assert [o.seconds for o in kept] == sorted((o.seconds for o in kept), reverse=True)
    assert many[: len(few)] == few
    slow_link = plans(WORK, model(latency_seconds=1.0), 8, 64, AXES)
    assert [str(o.plan) for o in slow_link] == ["data=1"]


def test_without_exchanges_each_device_takes_its_part():
    free = model()
    kept = plans(WORK, Calibrated(machine(flops_per_second=1e9), ADAM), 8, 64)
    assert kept[0].seconds == pytest.approx(8 * next(o for o in kept if o.plan == Plan(data=8)).seconds, rel=1e-3)
    assert plans(WORK, free, 8, 64) == plans(WORK, free, 8, 64)


def test_no_plan_is_wider_than_a_machine_whose_link_to_others_is_unknown():
    known = model(seconds_per_byte=1e-12)
    alone = replace(known, machine=replace(known.machine, devices_per_node=2))
    assert max(o.devices for o in priced(WORK, alone, 8, 64, AXES)) == 2
    link = Link(4, 2, 1e-9, 1e-12)
    joined = replace(known, machine=replace(alone.machine, links=(*alone.machine.links, link)))
    assert max(o.devices for o in priced(WORK, joined, 8, 64, AXES)) == 8


def known_cuts(starts):
    def cuts(plan):
        if plan.pipeline > 1 and plan.pipeline not in starts:
            raise ValueError("it cannot be cut so")
        return starts.get(plan.pipeline, ())

    return cuts


def test_pipelines_have_the_stages_that_the_network_can_be_cut_into():
    known = model()
    freely = {o.plan: o.seconds for o in priced(WORK, known, 3, 32)}
    assert {plan.pipeline for plan in freely} == {1, 2, 3}
    uncut = known_cuts({})
    assert {o.plan.pipeline for o in priced(WORK, known, 3, 32, cuts=uncut)} == {1}
    given = {o.plan: o.seconds for o in priced(WORK, known, 3, 32, cuts=known_cuts({2: (1,)}))}
    assert set(given) == {plan for plan in freely if plan.pipeline < 3}
    for plan, seconds in given.items():
        starts = (1,) if plan.pipeline == 2 else ()
        assert seconds == known.price(WORK(micro_batch(plan, 32)), plan, starts).seconds
    assert given[Plan(pipeline=2)] > freely[Plan(pipeline=2)]  # the first layer alone is not the best cut


def test_nothing_fits_nothing_is_offered():
    assert plans(WORK, model(memory_bytes=1e3), 8, 64, AXES) == ()
    assert min(o.memory_bytes for o in priced(WORK, model(memory_bytes=1e3), 8, 64, AXES)) > 1e3


def test_of_equal_options_the_one_of_least_memory_stays():
    options = [
        Option(Plan(data=2), 1.0, 5.0, 0.0),
        Option(Plan(pipeline=2), 1.0, 4.0, 0.0),
        Option(Plan(), 1.0, 9.0, 0),
    ]
    assert pareto(options) == (options[2],)
    assert pareto(options[:2]) == (options[1],)


@pytest.mark.parametrize(("devices", "batch"), [(0, 1), (1, 0)])
def test_no_devices_or_samples_are_refused(devices, batch):
    with pytest.raises(ValueError, match="both are at least 1"):
        plans(WORK, model(), devices, batch)


@pytest.mark.parametrize(
    ("optimizer", "momentum", "moved", "held"), [("adamw", 0.9, 28, 16), ("sgd", 0.9, 20, 12), ("sgd", 0.0, 12, 8)]
)
def test_optimizers_differ_in_what_they_move_and_keep(optimizer, momentum, moved, held):
    model = model_of(machine(), optimizer, momentum)
    assert (model.optimizer.moved, model.optimizer.held) == (moved, held)


def test_a_trial_is_its_steps_and_all_between_them():
    option = Option(Plan(), 0.5, 0.0, 0.0)
    assert option.trial_seconds(10) == 5.0
    assert option.trial_seconds(10, evaluation_seconds=2.0, start_seconds=1.0, checkpoint_seconds=0.25) == 8.25


def test_an_evaluation_is_forward_alone():
    known = Calibrated(machine(flops_per_second=1e9), ADAM)
    one = evaluation_seconds(WORK(32), known, 320)
    assert one == pytest.approx(320 * sum(2 * a * b for a, b in zip(WIDTHS, WIDTHS[1:], strict=False)) / 1e9)
    assert evaluation_seconds(WORK(32), known, 320, ranks=2) == pytest.approx(one / 2)


class TestWithoutGraph:
    PARAMETERS = 1_000_000

    def offered(self, first, **rates):
        return plans_unknown(self.PARAMETERS, model(**rates), 4, 64, first)

    def test_first_steps_price_data_parallel_plans(self):
        kept = self.offered({Plan(): MeasuredStep(1.0, 64)}, seconds_per_byte=1e-9)
        assert [o.plan for o in kept] == [Plan(), Plan(data=2), Plan(data=3), Plan(data=4)]
        assert kept[0].seconds == 1.0
        assert kept[1].seconds == pytest.approx(0.5 + 2 * 4 * self.PARAMETERS / 2 * 1e-9)
        assert [o.memory_bytes for o in kept] == [16 * self.PARAMETERS] * 4
        assert kept[0].log_error < kept[1].log_error
        assert self.offered({Plan(): MeasuredStep(1.0, 64)}, memory_bytes=15.9 * self.PARAMETERS) == ()

    def test_steps_of_two_ranks_say_what_one_would_take(self):
        first = {Plan(data=2): MeasuredStep(0.504, 64)}
        alone = next(o for o in self.offered(first, seconds_per_byte=1e-9) if o.plan == Plan())
        assert alone.seconds == pytest.approx(1.0)

    def test_what_was_measured_is_not_predicted(self):
        known = {Plan(): MeasuredStep(1.0, 64), Plan(data=2): MeasuredStep(3.0, 32)}
        offered = self.offered(known, seconds_per_byte=1e-9)
        assert Plan(data=2) not in {o.plan for o in offered}, "it takes 6 seconds for the batch"

    def test_plans_beyond_the_links_that_are_known_have_no_price(self):
        alone = replace(model().machine, devices_per_node=2)
        known = replace(model(), machine=alone)
        offered = plans_unknown(self.PARAMETERS, known, 4, 64, {Plan(): MeasuredStep(1.0, 64)})
        assert max(o.devices for o in offered) == 2


@pytest.mark.parametrize("axes", [("data",), ("data", "pipeline")])
def test_every_micro_batch_has_as_many_samples_as_are_asked_for(axes):
    few, all_of_them = set(legal(4, 12, axes, least=2)), set(legal(4, 12, axes))
    assert few == {p for p in all_of_them if p.width == 1 or 12 // (p.data * p.shard) // p.micro_batches >= 2}
    assert set(legal(4, 1, axes, least=2)) == {Plan()}


def test_a_correction_moves_seconds_and_not_the_memory():
    known = model()
    slower = replace(known, machine=replace(known.machine, log_error=0.2))
    assert plans(WORK, slower, 2, 16)[0].log_error == 0.2
    assert plans(WORK, slower, 2, 16)[0].memory_bytes == plans(WORK, known, 2, 16)[0].memory_bytes

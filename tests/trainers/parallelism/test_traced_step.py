"""What is priced is what trials apply: the same units, the same cuts, the same bytes at borders."""

import numpy as np
import pytest
from torch import nn

from search_spaces import SPACES, Signature, TensorType, meta_network
from search_spaces.tracing import trace
from tests.trainers.parallelism.test_partition import Tied
from trainers.parallelism.chain import Chain
from trainers.parallelism.partition import partition
from trainers.parallelism.plan import Plan
from trainers.parallelism.traced_step import TracedStep
from trainers.parallelism.workload import columns

IMAGES = Signature(TensorType((3, 16, 16)), TensorType((10,)))
VECTORS = Signature(TensorType((8,)), TensorType((4,)))
SPACES_OF_IMAGES = ("mlp", "convnet", "cell201", "mobile", "transformer")


def network_of(name, seed=1):
    space = SPACES.load(name)()
    return meta_network(space, space.sample(np.random.default_rng(seed)), IMAGES)


def layers(count=3):
    return nn.Sequential(*(one for _ in range(count) for one in (nn.Linear(8, 8), nn.ReLU()))).to("meta")


@pytest.mark.parametrize("name", SPACES_OF_IMAGES)
@pytest.mark.parametrize("stages", [2, 3])
def test_stages_hold_the_parameters_of_those_that_are_applied(name, stages):
    network = network_of(name)
    step = TracedStep.of(network, IMAGES, 8 * stages, [stages])
    starts = step.starts(Plan(pipeline=stages, micro_batches=4))
    parts = partition(network, IMAGES, 2 * stages, stages)
    work = step.work(2 * stages)
    held = np.add.reduceat(work.per_unit(work.parameters), [0, *starts])
    assert held == pytest.approx([sum(weight.numel() for weight in part.parameters()) for part in parts])


@pytest.mark.parametrize("name", SPACES_OF_IMAGES)
def test_a_chain_does_the_work_of_its_network(name):
    network = network_of(name)
    chain, whole = Chain(network).workload(IMAGES, 4), columns(trace(network, IMAGES, 4))
    for column in ("flops", "bytes", "parameters", "tensors", "saved_bytes"):
        assert getattr(chain, column).tolist() == getattr(whole, column).tolist(), column
    assert 0.9 * whole.peak_bytes < chain.peak_bytes <= whole.peak_bytes, (
        "values are let go as soon as nobody reads them"
    )


def test_each_micro_batch_has_the_cut_of_its_size():
    network = network_of("convnet", 3)
    step = TracedStep.of(network, IMAGES, 64, [2])
    for plan in (Plan(pipeline=2, micro_batches=1), Plan(pipeline=2, micro_batches=32), Plan(2, 1, 1, 2, 16)):
        samples = max(2, 64 // plan.data // plan.micro_batches)
        chain = Chain(network)
        assert step.starts(plan) == chain.starts(chain.workload(IMAGES, samples), 2)


def test_cuts_end_where_the_network_has_no_place_for_more():
    step = TracedStep.of(layers(), VECTORS, 16, range(2, 9))
    assert step.starts(Plan(pipeline=3, micro_batches=4)) == (1, 2)
    with pytest.raises(ValueError, match="cannot be cut into 4 pipeline stages"):
        step.starts(Plan(pipeline=4, micro_batches=4))
    (limit,) = step.limits
    assert "cannot be cut into 4 pipeline stages: it has 2 places" in limit


def test_without_a_pipeline_there_is_nothing_to_cut():
    assert TracedStep.of(layers(), VECTORS, 16).starts(Plan(data=2)) == ()
    with pytest.raises(ValueError, match="not known as a chain"):
        TracedStep.of(layers(), VECTORS, 16).starts(Plan(pipeline=2))


class Shared(nn.Module):
    """Reads a parameter of its own in both of its layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
        self.scale = nn.Parameter(nn.Linear(8, 8).weight[0])

    def forward(self, inputs):
        return self.second(self.first(inputs * self.scale) * self.scale)


def test_what_passes_a_border_is_counted_as_it_is_sent():
    given = Chain(Shared().to("meta")).workload(VECTORS, 4)
    border = 4 * 4 * 8
    scale = 4 * 8
    assert given.crossing_bytes.tolist()[0] == given.crossing_bytes.tolist()[-1] == 0
    assert given.crossing_bytes.max() == border + scale
    assert given.returning_bytes.max() == border + scale, "the scale learns in both stages"


class Late(nn.Module):
    """Its input, which learns nothing, is read again behind every border."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, inputs):
        return self.second(self.first(inputs) + inputs)


def test_no_gradient_comes_back_for_what_learns_nothing():
    work = Chain(Late().to("meta")).workload(VECTORS, 4)
    assert sorted({*work.crossing_bytes.tolist()} - {0.0}) in ([4 * 4 * 8], [2 * 4 * 4 * 8])
    assert (work.returning_bytes <= work.crossing_bytes).all()
    assert work.returning_bytes.max() == 4 * 4 * 8


def test_an_identity_beside_a_tensor_is_not_sent_twice():
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
            self.skip = nn.Identity()

        def forward(self, inputs):
            hidden = self.first(inputs)
            return self.third(self.second(hidden) + self.skip(hidden) + hidden)

    work = Chain(Skip().to("meta")).workload(VECTORS, 4)
    assert work.crossing_bytes.max() == 4 * 4 * 8


def test_calls_of_one_module_are_priced_in_the_stage_that_holds_it():
    signature = Signature(TensorType((8,)), TensorType((8,)))
    step = TracedStep.of(Tied().to("meta"), signature, 16, [3])
    starts = step.starts(Plan(pipeline=3, micro_batches=2))
    held = np.add.reduceat(step.work(8).per_unit(step.work(8).parameters), [0, *starts])
    assert held.tolist() == [72, 2 * 72, 72]

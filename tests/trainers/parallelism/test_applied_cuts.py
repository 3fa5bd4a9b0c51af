"""The cut that is priced is the one that a trial applies."""

import numpy as np
import pytest
from torch import nn

from search_spaces import SPACES, Signature, TensorType, meta_network
from search_spaces.tracing import trace
from trainers.parallelism.applied_cuts import applied_cuts, unit_starts
from trainers.parallelism.partition import partition
from trainers.parallelism.workload import columns

IMAGES = Signature(TensorType((3, 16, 16)), TensorType((10,)))
VECTORS = Signature(TensorType((8,)), TensorType((4,)))


def traced(network, signature, batch=8):
    graph = trace(network, signature, batch)
    return graph, columns(graph)


@pytest.mark.parametrize("name", ["convnet", "mobile", "transformer"])
@pytest.mark.parametrize("stages", [2, 3])
def test_stages_hold_the_parameters_of_those_that_are_applied(name, stages):
    space = SPACES.load(name)()
    network = meta_network(space, space.sample(np.random.default_rng(1)), IMAGES)
    graph, work = traced(network, IMAGES)
    parts = partition(network, IMAGES, 2, stages)
    starts = unit_starts(parts, graph, work)
    held = np.add.reduceat(work.per_unit(work.parameters), [0, *starts])
    assert held.tolist() == [sum(weight.numel() for weight in part.parameters()) for part in parts]


def test_cuts_end_where_the_network_has_no_place_for_more():
    network = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).to("meta")
    found = applied_cuts(network, VECTORS, *traced(network, VECTORS), range(2, 9))
    assert set(found.starts) == {2, 3}
    assert found.starts[3] == (2, 4)
    assert "cannot be cut into 4 pipeline stages" in found.refusal


def test_modules_that_several_stages_call_tell_no_cut():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.act = nn.Linear(8, 8), nn.Linear(8, 4), nn.ReLU()

        def forward(self, x):
            return self.act(self.second(self.act(self.first(x))))

    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Parameter(nn.Linear(8, 8).weight), nn.Parameter(nn.Linear(8, 4).weight)

        def forward(self, x):
            return nn.functional.linear(nn.functional.linear(x, self.first), self.second)

    for network, known in ((Shared().to("meta"), True), (Bare().to("meta"), False)):
        found = applied_cuts(network, VECTORS, *traced(network, VECTORS), [2])
        assert (found.starts[2] is not None) == known

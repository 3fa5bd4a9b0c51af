"""Networks cut into stages: nothing is lost or parted that belongs together, and the largest stage is small."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import dropout

from search_spaces import SPACES, Signature, TensorType
from tests.trainers.trainer_samples import Deep
from trainers.parallelism.chain import CutError
from trainers.parallelism.partition import partition

IMAGES = Signature(TensorType((3, 16, 16)), TensorType((10,)))
VECTORS = Signature(TensorType((8,)), TensorType((8,)))


def through(stages, inputs):
    values = (inputs,)
    for stage in stages:
        values = stage(*values)
    return values


def sizes(stages):
    return [sum(weight.numel() for weight in stage.parameters()) for stage in stages]


@pytest.mark.parametrize("name", ["mlp", "convnet", "cell201", "mobile", "transformer"])
def test_stages_of_built_in_networks_make_what_the_network_makes(name):
    space = SPACES.load(name)()
    network = space.build(space.sample(np.random.default_rng(0)), IMAGES).eval()
    state, inputs = network.state_dict(), torch.randn(2, 3, 16, 16)
    stages = partition(network, IMAGES, 4, 2)
    assert torch.equal(through(stages, inputs), network(inputs))
    held = [{name for name in stage.state_dict() if name in state} for stage in stages]
    assert not held[0] & held[1]
    trained = {name for name, weight in network.named_parameters() if weight.requires_grad}
    assert trained <= held[0] | held[1]
    assert network(inputs).requires_grad
    assert not network.training


def test_what_skips_stages_is_passed_on():
    network = Deep(1, 4, 2)
    inputs = torch.randn(3, 1, 8, 8)
    stages = partition(network, Signature(TensorType((1, 8, 8)), TensorType((2,))), 3, 4)
    assert torch.equal(through(stages, inputs), network(inputs))
    for stage in stages[1:]:
        assert sum(node.op == "placeholder" for node in stage.graph.nodes) == 2


def test_equal_layers_are_cut_evenly():
    network = nn.Sequential(*(nn.Linear(8, 8) for _ in range(8)))
    assert sizes(partition(network, VECTORS, 4, 4)) == [2 * 72] * 4


def test_a_loss_that_fails_does_not_hinder_the_cut():
    """It fails in the trial, where its error is told."""

    def loss(outputs):
        raise ZeroDivisionError("this loss is broken")

    network = nn.Sequential(*(nn.Linear(8, 8) for _ in range(8)))
    assert sizes(partition(network, VECTORS, 4, 4, loss)) == [2 * 72] * 4


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.shared, self.after = (nn.Linear(8, 8) for _ in range(3))
        self.between = nn.Linear(8, 8)

    def forward(self, inputs):
        return self.after(self.shared(self.between(self.shared(self.before(inputs)))))


def test_calls_that_share_weights_stay_together():
    network = Tied()
    stages = partition(network, VECTORS, 4, 3)
    assert [sorted({name.partition(".")[0] for name in stage.state_dict()}) for stage in stages] == [
        ["before"],
        ["between", "shared"],
        ["after"],
    ]
    with pytest.raises(CutError, match="into 4 pipeline stages: it has 2 places"):
        partition(network, VECTORS, 4, 4)


class Counting(nn.Module):
    """Passes a number of samples beside a tensor, past one layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, inputs):
        count = inputs.size(0)
        hidden = self.layers[1](self.layers[0](inputs)).view(count, 2, 4)
        return self.layers[3](self.layers[2](hidden.flatten(1)))


def test_only_tensors_pass_a_border():
    assert sizes(partition(Counting(), VECTORS, 4, 3)) == [2 * 72, 72, 72]
    with pytest.raises(CutError, match="it has 2 places"):
        partition(Counting(), VECTORS, 4, 4)


class Viewing(nn.Module):
    """Changes a view of what it reads afterwards."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, inputs):
        hidden = self.layers[0](inputs)
        halves = hidden.view(-1, 2, 4)
        other = self.layers[1](inputs)
        halves += 1.0
        return self.layers[2](hidden + other)


def test_stages_that_would_compute_something_else_are_refused():
    with pytest.raises(CutError, match="its stages do not compute what it computes"):
        partition(Viewing(), VECTORS, 4, 3)


class Asking(nn.Module):
    """Its own forward pass depends on the mode: one call, in which no cut lies."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, inputs):
        return self.second(dropout(self.first(inputs), 0.5, self.training))


class Looking(nn.Module):
    """Its way depends on the data."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, inputs):
        return self.layer(inputs) if inputs.shape[0] > 1 else inputs


@pytest.mark.parametrize("opaque", [Asking, Looking])
def test_modules_that_cannot_be_followed_are_one_call(opaque):
    network = nn.Sequential(opaque(), nn.Linear(8, 8), opaque())
    stages = partition(network, VECTORS, 4, 3)
    assert len(stages) == 3
    inputs = torch.randn(4, 8)
    for training in (True, False):
        network.train(training)
        for stage in stages:
            stage.train(training)
        outputs = []
        for run in (network, lambda given: through(stages, given)):
            torch.manual_seed(0)
            outputs.append(run(inputs))
        assert torch.equal(*outputs)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))

    def forward(self, inputs):
        return self.layers(inputs if inputs.sum() > 0 else -inputs)


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (Asking(), "asks whether it is training"),
        (Branching(), "cannot be followed without data"),
        (nn.Sequential(nn.Flatten(), nn.Linear(8, 8)), "it has 0 places"),
    ],
)
def test_why_a_network_cannot_be_cut_and_what_to_do_is_said(network, reason):
    with pytest.raises(CutError, match=f"into 2 pipeline stages: .*{reason}.*; use a plan without pipeline"):
        partition(network, VECTORS, 4, 2)


class Optional(nn.Sequential):
    def forward(self, inputs, scale=1.0, mask=None):
        hidden = super().forward(inputs) * scale
        return hidden if mask is None else hidden * mask


def test_further_inputs_keep_their_defaults():
    network = nn.Sequential(Optional(nn.Linear(8, 8), nn.Linear(8, 8)))
    inputs = torch.randn(4, 8)
    assert torch.equal(through(partition(network, VECTORS, 4, 2), inputs), network(inputs))

"""Peak memory of a step: by hand, and against torch's tracker of real steps on the CPU."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from benchmarks.step_memory import tracked_bytes
from search_spaces import SPACES, Signature, TensorType
from search_spaces.memory import living_bytes, step_memory
from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase, Role, Storage
from search_spaces.tracing import trace

IMAGES = Signature(TensorType((3, 32, 32)), TensorType((10,)))
TOKENS = Signature(TensorType((64,), "int64", vocabulary=256), TensorType((64, 256)))
SIGNATURES = {"transformer": TOKENS}
FIELDS = Operator("", Kind.COPY, Phase.FORWARD, 0, 0, 0, 0, 0, 0, 0, ())
BATCH = 8


def graph(operators, *storages):
    return OperatorGraph((FIELDS,) * operators, 1, 0, tuple(Storage(*storage) for storage in storages))


def test_the_peak_is_where_most_is_alive():
    step = graph(
        4,
        (Role.PARAMETER, 100, 0, 4),
        (Role.INPUT, 10, 0, 4),
        (Role.ACTIVATION, 40, 0, 3),
        (Role.TEMPORARY, 30, 1, 2),
        (Role.GRADIENT, 20, 2, 4),
        (Role.TEMPORARY, 5, 2, 4),
    )
    assert living_bytes(step) == [150, 180, 175, 135]
    memory = step_memory(step, optimizer_states=2)
    assert memory.operator == 1
    assert memory.parts == {
        "parameters": 100,
        "buffers": 0,
        "inputs": 10,
        "gradients": 0,
        "activations": 40,
        "temporaries": 30,
        "optimizer": 40,
    }
    assert memory.peak_bytes == 220


def test_a_step_without_operators_holds_what_is_always_there():
    memory = step_memory(graph(0, (Role.PARAMETER, 100, 0, 0)))
    assert (memory.operator, memory.peak_bytes) == (None, 100)


def test_two_layers_by_hand():
    """At the peak the gradient of relu's result is made into that of its argument."""
    batch, inputs, hidden, classes = 64, 5, 40, 3
    network = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    memory = step_memory(trace(network, [torch.zeros(batch, inputs)], batch))
    parameters = inputs * hidden + hidden + hidden * classes + classes
    assert memory.parts["parameters"] == 4 * parameters
    assert memory.parts["inputs"] == 4 * batch * inputs
    assert memory.parts["gradients"] == 4 * (hidden * classes + classes)
    assert memory.parts["activations"] == 4 * batch * hidden + 4  # relu's result, and the loss
    assert memory.parts["temporaries"] == 2 * 4 * batch * hidden + 4  # and the gradient of the loss


@pytest.mark.parametrize("name", SPACES.names())
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_built_in_spaces_need_what_torch_tracks(name, seed):
    space, signature = SPACES.load(name)(), SIGNATURES.get(name, IMAGES)
    architecture = space.sample(np.random.default_rng(seed))
    network = space.build(architecture, signature).requires_grad_(True)  # else the tracker fails
    inputs = torch.zeros(BATCH, *signature.input.shape, dtype=getattr(torch, signature.input.dtype))
    predicted = step_memory(trace(network, signature, BATCH)).peak_bytes
    assert predicted == pytest.approx(tracked_bytes(network, inputs), rel=1e-3)


class Stored(nn.Module):
    """Holds on to what it made, as recurrent networks may."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.seen = []

    def forward(self, features):
        self.seen.append(features * 2)
        return self.layer(features)


def test_what_a_network_holds_on_to_stays():
    step = trace(Stored(), [torch.zeros(16, 32)], 16)
    assert Storage(Role.ACTIVATION, 16 * 32 * 4, 0, len(step.operators)) in step.storages


def test_attention_needs_no_scores():
    def attend(network, queries):
        return functional.scaled_dot_product_attention(queries, queries, queries, is_causal=True)

    module = type("Attend", (nn.Module,), {"forward": attend})()
    queries = torch.zeros(1, 1, 512, 8, requires_grad=True)
    memory = step_memory(trace(module, [queries], 1))
    assert memory.peak_bytes < 512 * 512 * 4

"""A step is traced with the loss of its task, on targets that look like the task's."""

import numpy as np
import pytest
from torch import nn
from torch.nn.functional import mse_loss

from nas.analysed import Request, resolve
from nas.graph_metrics import GraphMetrics
from search_spaces import SPACES, Candidate, Reference, Signature, TensorType
from search_spaces.tracing import class_loss, trace
from trainers.materials import Materials
from trainers.parallelism.partition import partition
from trainers.task import Data, Split
from trainers.tasks.classification import Classification
from trainers.traced_loss import traced_loss

SIGNATURE = Signature(TensorType((1, 8, 8)), TensorType((2,)))


class Regression(Classification):
    """Two numbers a sample."""

    signature = SIGNATURE

    def load(self):
        split = Split(np.zeros((6, 1, 8, 8), np.float32), np.zeros((6, 2), np.float32))
        return Data(split, split, split)

    def loss(self, outputs, targets):
        assert outputs.shape == targets.shape
        return mse_loss(outputs, targets)


def losses(graph):
    return [operator.name for operator in graph.operators if operator.name.startswith("loss.")]


def test_cross_entropy_needs_no_data():
    assert traced_loss(Classification(), lambda: pytest.fail("the data was loaded")) is class_loss


def test_a_loss_of_ones_own_sees_targets_as_the_task_has_them():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    task = Regression()
    graph = trace(network, SIGNATURE, 4, traced_loss(task, task.load))
    assert losses(graph) == ["loss.mse_loss", "loss.mse_loss_backward"]


def test_all_who_know_the_task_trace_its_loss():
    space, task = SPACES.load("mlp")(), Reference(Regression)
    loss = Materials(Reference(space), task).traced_loss
    candidate = Candidate(space.sample(np.random.default_rng(0)))
    network = space.build(candidate.architecture, SIGNATURE)
    found, plain = (GraphMetrics(("work",), loss=own)(candidate, network, SIGNATURE) for own in (lambda: loss, None))
    assert found["work"] == sum(operator.work for operator in trace(network, SIGNATURE, 64, loss).operators)
    assert found != plain
    analysed = resolve(Request("mlp", task=f"{__name__}:Regression"))
    assert losses(trace(analysed.network, analysed.signature, 4, analysed.loss))[0] == "loss.mse_loss"
    assert resolve(Request("mlp", task=f"{__name__}:Regression", input="1x8x8")).loss is None


def test_stages_are_balanced_with_the_loss():
    seen = []

    def loss(outputs):
        seen.append(outputs.shape)
        return outputs.sum()

    partition(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2)), SIGNATURE, 4, 2, loss)
    assert set(seen) == {(4, 2)}

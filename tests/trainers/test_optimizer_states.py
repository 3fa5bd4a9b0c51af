"""What is said of optimisers, against those of torch."""

import pytest
import torch
from torch import nn

from trainers.optimizer_states import OptimizerBytes, states
from trainers.optimizers import make_optimizer
from trainers.settings import Settings


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_states_are_those_that_the_optimizer_really_keeps(optimizer, momentum):
    weight = nn.Linear(8, 8, bias=False)
    weight.weight.grad = torch.ones(8, 8)
    used = make_optimizer(weight, Settings(optimizer=optimizer, momentum=momentum))
    used.step()
    kept = [value for state in used.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    large = sum(tensor.numel() == 64 for tensor in kept)
    assert states(optimizer, momentum) == large
    bytes_ = OptimizerBytes.of(optimizer, momentum)
    assert bytes_.held == 4 * (2 + large)
    assert bytes_.moved == bytes_.held + 4 * (1 + large)  # all is read, all but the gradient written


def test_adam_keeps_what_adamw_keeps():
    assert OptimizerBytes.of("adam", 0.0) == OptimizerBytes.of("adamw", 0.0)

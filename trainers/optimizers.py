"""Optimisers with weight decay on weight matrices and kernels only."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from trainers.settings import Settings

_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def make_optimizer(network: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum (Sutskever et al. 2013), or AdamW (Loshchilov and Hutter 2019)."""
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter, decays in _trainable(network):
        (decayed if decays else others).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in network.parameters())
    if settings.optimizer == "adamw":
        betas = (settings.momentum, 0.999)
        return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, fused=fused)
    momentum = settings.momentum
    sgd = torch.optim.SGD(groups, lr=settings.learning_rate, momentum=momentum, nesterov=momentum > 0, fused=fused)
    if momentum > 0:  # torch's fused step fails where some weights got a gradient before and others get their first
        for weight in (*decayed, *others):
            sgd.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    return sgd


def _trainable(network: nn.Module) -> Iterator[tuple[nn.Parameter, bool]]:
    """Yield each trainable parameter once, and whether weight decay is for it: not for biases and norms."""
    seen: set[nn.Parameter] = set()
    for module in network.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad and parameter not in seen:
                seen.add(parameter)
                yield parameter, parameter.ndim > 1 and not isinstance(module, _NORMS)


def restore(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load moments and counters; rates, decay and momentum stay as this trial's hyperparameters say."""
    own = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, options in zip(optimizer.param_groups, own, strict=True):
        group.update(options)

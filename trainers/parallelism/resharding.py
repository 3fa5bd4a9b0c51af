"""The state of a whole network, put together from its stages and divided over them: it is the same under every plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

from trainers.optimizers import make_optimizer, restore
from trainers.parallelism.data import described
from trainers.settings import Settings


@dataclass(frozen=True)
class Whole:
    """What a rank keeps of a network of which it holds one stage only.

    ``groups`` are the optimiser's groups of weights, counted as on one process; ``spare`` is the state that no stage
    uses, and ``weights`` are the places of the stage's own weights among all.
    """

    described: str
    parameters: int
    names: frozenset[str]
    groups: list[dict[str, Any]]
    weights: tuple[int, ...]
    spare: dict[str, Tensor]

    @classmethod
    def of(cls, network: nn.Module, stages: Sequence[nn.Module], own: nn.Module, settings: Settings) -> "Whole":
        """Of a ``network`` and its ``stages``, for the rank that holds the stage ``own``."""
        optimizer = make_optimizer(network, settings)
        places = {id(weight): place for place, weight in enumerate(_weights(optimizer))}
        state = network.state_dict()
        used = {name for stage in stages for name in stage.state_dict()}
        return cls(
            described(network),
            sum(parameter.numel() for parameter in network.parameters()),
            frozenset(state),
            optimizer.state_dict()["param_groups"],
            tuple(places[id(weight)] for weight in _weights(make_optimizer(own, settings))),
            {name: value for name, value in state.items() if name not in used},
        )

    def own_state(self, stage: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The stage's part on the CPU: tensors by name, and moments by the place of their weight."""
        moments = optimizer.state_dict()["state"]
        return {
            "model": {name: value.cpu() for name, value in stage.state_dict().items() if name in self.names},
            "moments": {place: _on_cpu(moments[own]) for own, place in enumerate(self.weights) if own in moments},
        }

    def load(self, state: Mapping[str, Any], stage: nn.Module, optimizer: torch.optim.Optimizer, same: bool) -> None:
        """Take the stage's part of a whole ``state``; of the optimiser's where it is of the ``same`` kind."""
        own = {name: state["model"][name] for name in stage.state_dict() if name in self.names}
        stage.load_state_dict(own, strict=False)  # buffers that are not stored stay as they were built
        for name in self.spare:
            self.spare[name] = state["model"][name]
        if same:
            moments = state["optimizer"]["state"]
            found = {own: moments[place] for own, place in enumerate(self.weights) if place in moments}
            restore(optimizer, {"state": found, "param_groups": optimizer.state_dict()["param_groups"]})

    def joined(self, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The state of network and optimiser, from those of all stages."""
        model: dict[str, Tensor] = dict(self.spare)
        for part in parts:
            model = {**part["model"], **model}
        moments = {place: values for part in parts for place, values in part["moments"].items()}
        return {"model": model, "optimizer": {"state": moments, "param_groups": self.groups}}


def to_rank_0(own: Any, rank: int, senders: Sequence[int], device: str) -> list[Any]:
    """On rank 0 what it and the ``senders`` hold, in their order; nothing on others."""
    place = torch.device(device)
    if rank in senders:
        distributed.send_object_list([own], 0, device=place)
    if rank != 0:
        return []
    parts = [own]
    for sender in senders:
        received: list[Any] = [None]
        distributed.recv_object_list(received, sender, device=place)
        parts.append(received[0])
    return parts


def _weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _on_cpu(moments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.cpu() if isinstance(value, Tensor) else value for name, value in moments.items()}

"""What all trials of a worker share: search space, task and data, each made on first use and kept."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from search_spaces import SPACES, Architecture, Reference, SearchSpace
from trainers.registries import TASKS
from trainers.task import Data, Task, joined
from trainers.traced_loss import traced_loss

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Materials:
    """Space, task and data of a study in this process."""

    space_reference: Reference
    task_reference: Reference
    test: bool = False

    @cached_property
    def space(self) -> SearchSpace:
        """The search space."""
        return cast(SearchSpace, self.space_reference.make(SPACES))

    @cached_property
    def task(self) -> Task:
        """The task."""
        return cast(Task, self.task_reference.make(TASKS))

    @cached_property
    def data(self) -> Data:
        """The task's data, loaded once; for retraining all but the test split is learnt from, and that one held out."""
        data = self.task.load()
        return Data(joined(data.train, data.validation), data.test, data.test) if self.test else data

    @cached_property
    def traced_loss(self) -> "Callable[[Any], torch.Tensor]":
        """The task's loss as tracing takes it."""
        return traced_loss(self.task, lambda: self.data)

    def build(self, architecture: Architecture, seed: int) -> "torch.nn.Module":
        """Build the network on the CPU, its weights drawn under ``seed``; torch's global state stays as it was."""
        import torch

        from trainers.seeds import derived

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(seed, "weights"))
            network = self.space.build(architecture, self.task.signature)
        if not isinstance(network, torch.nn.Module):
            raise TypeError(f"the space's build() returned a {type(network).__name__}, not a torch.nn.Module")
        return network

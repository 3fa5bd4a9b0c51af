"""Whether trials can be trained under a plan: what their trainer applies, and whether a network can be cut."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nas.config import SearchConfig
from nas.config_check import SUPERVISED, named
from nas.errors import ConfigError
from search_spaces import Candidate, Infeasible, Reference, Signature
from trainers import TRAINERS, Plan, applied_axes
from trainers.parallelism.plan import AXES, INSTALLED_AXES

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_UNPIPED = {
    "batch_norm": ("global", 'stages see one micro-batch at a time; set batch_norm = "local"'),
    "precision": ("float16", 'stages would scale their gradients apart; set precision = "bfloat16" or "float32"'),
}


def check_plan(config: SearchConfig, plan: Plan) -> None:
    """Raise ConfigError where the trainer cannot apply ``plan``, or its settings forbid it."""
    code = config.search.trainer
    with named("search.trainer"):
        trainer = TRAINERS.load(code) if isinstance(code, str) else code
    for axis in AXES:
        if getattr(plan, axis) > 1 and axis not in applied_axes(trainer):
            raise ConfigError(
                f'trial.plan = "{plan}": search.trainer = {Reference(code).name!r} applies '
                f"{', '.join(applied_axes(trainer))} and not {axis}; use data={getattr(plan, axis)}, "
                'the trainer "supervised", or name what yours applies in its attribute axes'
            )
    if plan.pipeline > 1 and code == SUPERVISED:
        for key, (value, why) in _UNPIPED.items():
            if config.trainer.get(key) == value:
                raise ConfigError(
                    f'trainer.{key} = "{value}" does not go with trial.plan = "{plan}": {why}, or use a plan '
                    "without pipeline"
                )


def chosen_axes(config: SearchConfig) -> tuple[str, ...]:
    """Axes along which trials may be split without being told to: those that their trainer names, and can apply."""
    code = config.search.trainer
    with named("search.trainer"):
        trainer = TRAINERS.load(code) if isinstance(code, str) else code
    if not hasattr(trainer, "axes"):
        return ()
    return tuple(axis for axis in INSTALLED_AXES if _applies(config, Plan.parse(f"{axis}=2")))


def _applies(config: SearchConfig, plan: Plan) -> bool:
    try:
        check_plan(config, plan)
    except ConfigError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CutsInto:
    """A static metric that measures nothing: it refuses candidates that cannot be cut into so many ``stages``."""

    stages: int
    loss: "Callable[[], Callable[[Any], Tensor]] | None" = None
    """Makes the task's loss for tracing; None: cross-entropy."""

    def __call__(self, candidate: Candidate, network: "Module | None", signature: Signature) -> dict[str, float]:
        """Raise Infeasible with the reason; a network that has to be built for real is judged by its trial."""
        if network is not None:
            from search_spaces.tracing import class_loss
            from trainers.parallelism.chain import CutError
            from trainers.parallelism.partition import partition

            try:
                partition(network, signature, 2, self.stages, self.loss() if self.loss else class_loss)
            except CutError as error:
                raise Infeasible(str(error)) from error
        return {}

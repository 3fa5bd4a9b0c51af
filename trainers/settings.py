"""What the supervised trainer can be told: the ``[trainer]`` table, and the hyperparameters of a candidate.

Torch-free, so that a configuration is checked before anything heavy loads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import inf
from typing import Any

HYPERPARAMETERS = ("learning_rate", "weight_decay", "batch_size", "momentum", "optimizer", "label_smoothing")
"""Names that a candidate may set; the ``[trainer]`` table may fix them, and sets everything else."""

_OPTIONS = {
    "optimizer": ("sgd", "adamw"),
    "precision": ("auto", "float32", "bfloat16", "float16"),
    "batch_norm": ("local", "global"),
}
_RULES: dict[str, tuple[Callable[[float], bool], str]] = {
    "learning_rate": (lambda value: 0 < value < inf, "above 0"),
    "weight_decay": (lambda value: 0 <= value < inf, "of at least 0"),
    "momentum": (lambda value: 0 <= value < 1, "of at least 0 and below 1"),
    "label_smoothing": (lambda value: 0 <= value < 1, "of at least 0 and below 1"),
    "warm_up_epochs": (lambda value: 0 <= value < inf, "of at least 0"),
    "gradient_norm": (lambda value: value > 0, "above 0"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a candidate is trained.

    ``batch_size`` is global, over all ranks. ``momentum`` is Nesterov's for sgd and beta 1 for adamw.
    ``gradient_norm`` is the global norm that gradients are clipped to. ``batch_norm = "global"`` takes batch
    statistics over all ranks.
    """

    learning_rate: float = 0.05
    weight_decay: float = 5e-4
    batch_size: int = 64
    momentum: float = 0.9
    optimizer: str = "sgd"
    label_smoothing: float = 0.0
    warm_up_epochs: float = 1.0
    gradient_norm: float = 5.0
    precision: str = "auto"
    batch_norm: str = "local"

    def __post_init__(self) -> None:
        for name, options in _OPTIONS.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} = {getattr(self, name)!r}: use one of {', '.join(options)}")
        for name, (allowed, rule) in _RULES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not allowed(value):
                raise ValueError(f"{name} = {value!r}: use a number {rule}")
        size = self.batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"batch_size = {size!r}: use an integer of at least 1, the batch over all ranks")

    @classmethod
    def parse(cls, settings: Mapping[str, Any], hyperparameters: Mapping[str, Any] | None = None) -> "Settings":
        """Make settings from the ``[trainer]`` table, a candidate's hyperparameters on top of them.

        Raises ValueError naming key, value and rule, for an unknown key with the known ones.
        """
        _check_names("trainer", settings, [field.name for field in fields(cls)])
        _check_names("hyperparameters", hyperparameters or {}, HYPERPARAMETERS)
        return cls(**{**settings, **(hyperparameters or {})})


def _check_names(table: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"{table}.{name}: the supervised trainer does not know it; {hint}Known: {', '.join(known)}"
            )

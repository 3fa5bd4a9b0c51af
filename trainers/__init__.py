"""Train and measure candidates: tasks, trainers, checkpoints, plans. Importing this loads no torch."""

from trainers.checkpoint import Checkpoint, CheckpointFolder, StateError, StorageError
from trainers.context import Context, Halted, Recipe, Trainer, applied_axes, builds_networks, trains
from trainers.failure import Diverged, Failure, FailureKind
from trainers.measurement import Fidelity, MeasuredStep, Measurement, numbers_from_json, numbers_to_json
from trainers.parallelism.plan import Plan
from trainers.registries import TASKS, TRAINERS
from trainers.runner import Runner
from trainers.task import Data, Split, Task

__all__ = [
    "TASKS",
    "TRAINERS",
    "Checkpoint",
    "CheckpointFolder",
    "Context",
    "Data",
    "Diverged",
    "Failure",
    "FailureKind",
    "Fidelity",
    "Halted",
    "MeasuredStep",
    "Measurement",
    "Plan",
    "Recipe",
    "Runner",
    "Split",
    "StateError",
    "StorageError",
    "Task",
    "Trainer",
    "applied_axes",
    "builds_networks",
    "numbers_from_json",
    "numbers_to_json",
    "trains",
]

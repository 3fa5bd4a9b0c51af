"""Neural architecture search on Ray: `search`, `resume` and `load` a `Study`.

    study = nas.search(search={"space": "mlp", "trials": 20}, objectives={"val_accuracy": "maximize"})
    study.best(), study.front(), study.trials()

The names below are imported on first use, so that the command line answers fast.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nas.api import load, resume, search
    from nas.errors import ConfigError, NasError, StorageError, StudyError
    from nas.study import Study
    from nas.trial import Outcome, State, Trial

_HOMES = {
    "search": "nas.api",
    "resume": "nas.api",
    "load": "nas.api",
    "Study": "nas.study",
    "Trial": "nas.trial",
    "State": "nas.trial",
    "Outcome": "nas.trial",
    "NasError": "nas.errors",
    "ConfigError": "nas.errors",
    "StudyError": "nas.errors",
    "StorageError": "nas.errors",
}

__all__ = [
    "ConfigError",
    "NasError",
    "Outcome",
    "State",
    "StorageError",
    "Study",
    "StudyError",
    "Trial",
    "load",
    "resume",
    "search",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nas' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

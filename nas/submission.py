"""What a search needs of this machine when it runs on another one: the user's modules, and code named by them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.user_code import located, user_modules
from nas.config import SearchConfig
from nas.fidelity import RULES
from nas.static_stage import STATIC_METRICS
from nas.strategies import STRATEGIES
from search_spaces import SPACES, Reference, Registry
from trainers import TASKS, TRAINERS


def needs(config: SearchConfig) -> tuple[list[str], list[Path]]:
    """Settings that name the code of installed plug-ins by ``module:name``, and the user's modules as paths.

    A cluster does not have this machine's plug-ins: their entry points are unknown there, and their files go along.
    """
    search = config.search
    singles: list[tuple[str, Any, Registry]] = [
        ("search.space", search.space, SPACES),
        ("search.task", search.task, TASKS),
        ("search.trainer", search.trainer, TRAINERS),
        ("search.strategy", search.strategy, STRATEGIES),
        ("fidelity.rule", config.fidelity.rule, RULES),
    ]
    found = [(key, code, located(Reference(code), registry)) for key, code, registry in singles]
    metrics = [located(Reference(code), STATIC_METRICS) for code in search.static_metrics or ()]
    settings = [f"{key}={there.code}" for key, code, there in found if there.code != code]
    if _codes(metrics) != (search.static_metrics or []):
        settings.append(f"search.static_metrics={json.dumps(_codes(metrics))}")
    modules = user_modules([*(there for *_, there in found), *metrics])
    return settings, [module.path for module in modules]


def _codes(references: Sequence[Reference]) -> list[Any]:
    return [reference.code for reference in references]

"""``task = "table:PATH"``: a search of recorded results, with all that follows from the table filled in."""

from pathlib import Path
from typing import Any

from nas.errors import ConfigError
from search_spaces.recorded import read_spec

_PREFIX = "table:"
_SPACE = "search_spaces.recorded:RecordedSpace"
_TASK = "trainers.tasks.recorded:Recorded"
_TRAINER = "trainers.tabular:Tabular"


def of_recorded_results(plain: dict[str, Any]) -> None:
    """Where ``plain`` names a table as its task, say what is left out: space, objective, trainer, executor, merging.

    The space is the built-in one that the table names, else its own decisions. Equivalent architectures stay apart, as
    their recorded results differ.
    """
    search = plain["search"]
    task = search.get("task")
    if not isinstance(task, str) or not task.startswith(_PREFIX):
        return
    path = str(Path(task.removeprefix(_PREFIX)).expanduser().resolve())
    try:
        spec = read_spec(path)
    except ValueError as error:
        raise ConfigError(f"search.task = {task!r}: {str(error).partition(': ')[2]}") from None
    search["task"] = _TASK
    plain.setdefault("task", {})["path"] = path
    if "space" not in search:
        search["space"] = spec.get("space") or _SPACE
    if search["space"] == _SPACE:
        plain.setdefault("space", {})["path"] = path
    search.setdefault("trainer", _TRAINER)
    search.setdefault("merge", "exact")
    plain.setdefault("objectives", {spec["objective"]: spec["direction"]})
    plain.setdefault("cluster", {}).setdefault("executor", "simulated")
    _fidelities(plain, path)


def _fidelities(plain: dict[str, Any], path: str) -> None:
    import numpy as np

    with np.load(path, allow_pickle=False) as table:
        levels = table["fidelities"].tolist()
    chosen = plain.setdefault("fidelity", {"rule": "none"})
    chosen.setdefault("max", levels[-1])
    if chosen.get("rule") != "none":
        chosen.setdefault("min", levels[0])

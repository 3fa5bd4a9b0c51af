"""``task = "table:PATH"``: a search of recorded results, with all that follows from the table filled in."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b, file_digest
from math import inf
from pathlib import Path
from typing import Any

from nas.config import SearchConfig
from nas.errors import ConfigError
from nas.fidelity import RULES, FidelityRule
from nas.objective import Objective, Objectives
from nas.study import Study
from search_spaces import SearchSpace
from search_spaces.recorded import RecordedSpace, read_spec
from trainers import Fidelity

_PREFIX = "table:"
_SPACE = "search_spaces.recorded:RecordedSpace"
_TASK = "trainers.tasks.recorded:Recorded"
_TRAINER = "trainers.tabular:Tabular"


def names_table(task: Any) -> bool:
    """Whether a task, as a user writes it, is a table of recorded results."""
    return isinstance(task, str) and task.startswith(_PREFIX)


def of_recorded_results(plain: dict[str, Any]) -> None:
    """Where ``plain`` names a table as its task, say what is left out: space, objective, trainer, executor, merging.

    The space is the built-in one that the table names, else its own decisions. Equivalent architectures stay apart, as
    their recorded results differ.
    """
    search = plain["search"]
    task = search.get("task")
    if not names_table(task):
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


def check_recorded(config: SearchConfig, space: SearchSpace) -> None:
    """Raise ConfigError where a search of recorded results asks for what the table does not hold."""
    if config.search.task == _TASK and config.search.trainer == _TRAINER:
        path = str(config.task["path"])
        faults = [*_misfits(space, RecordedSpace(path)), *_faults(config, path)]
        if faults:
            raise ConfigError("\n".join(f"{fault} (table {path})" for fault in faults))


def reads_table(config: SearchConfig) -> bool:
    """Whether the search reads recorded results, whose columns are its metrics."""
    return bool(config.search.task == _TASK)


def table_of(plain: Mapping[str, Any]) -> str | None:
    """Path of the table that a search reads, by its plain configuration; None where it reads none."""
    return str(plain["task"]["path"]) if plain["search"]["task"] == _TASK else None


def table_digest(config: SearchConfig) -> str | None:
    """Digest of the table that the search reads, 32 hex digits; None where it reads none."""
    if not reads_table(config):
        return None
    with Path(str(config.task["path"])).open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()


def check_same_table(config: SearchConfig, study: Study, key: str = "search.task") -> None:
    """Raise ConfigError where the table is not the one any more that ``study`` read."""
    before, now = study.header.get("table"), table_digest(config)
    if before is not None and now != before:
        raise ConfigError(
            f"{key}: the table {config.task['path']} changed since {study.folder} was begun: its digest was "
            f"{before}, is {now}. What is recorded is no measure of it; restore that file, or start a new study"
        )


def _misfits(space: SearchSpace, recorded: RecordedSpace) -> Iterator[str]:
    """Where ``space`` asks for what was not recorded; one sentence or none."""
    misfit = _misfit(space, recorded)
    if misfit:
        yield (
            f"search.space: {space.name} decides {misfit}; leave search.space and [space] out to search what the table "
            "decides itself"
        )


def _misfit(space: SearchSpace, recorded: RecordedSpace) -> str | None:
    own, there = ({slot.name: slot for slot in each.domain.slots} for each in (space, recorded))
    if own.keys() != there.keys():
        return f"{_some(own)}, the table {_some(there)}"
    for name, slot in own.items():
        if slot.conditions:
            return f"{name} under a condition, the table always"
        leaf, known = slot.decision, there[name].decision
        few = leaf.options if (leaf.count or inf) <= (known.count or 0) else None
        if few is None or not all(map(known.allows, few)):
            return f"{name} as {leaf.allowed}, the table as {known.allowed}"
    return None


def _some(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:6]) + (f"... ({len(every)})" if len(every) > 6 else "")


def _faults(config: SearchConfig, path: str) -> Iterator[str]:
    import numpy as np

    with np.load(path, allow_pickle=False) as table:
        parts = [name.partition(":") for name in table.files]
        levels = table["fidelities"].tolist()
    known = {name for kind, _, name in parts if kind in ("metric", "cost")}
    for kind, names in (("objectives", config.objectives), ("constraints", config.constraints)):
        for name in names:
            if name not in known and not config.search.static_metrics:
                yield f"{kind}.{name}: the table records {', '.join(sorted(known))}; name one of these"
    asked = _rungs(config)
    missing = [level for level in asked if level not in levels]
    if missing:
        shown = _listed(levels[:12]) + ("..." if len(levels) > 12 else "")
        yield (
            f"fidelity: rungs would be {_listed(asked)}, of which the table does not record {_listed(missing)}; "
            f"choose min, max and eta so that all are among {shown}"
        )
    if config.search.replicates > 1:
        yield "search.replicates: the results are recorded, training them again tells nothing; leave it out"


def _rungs(config: SearchConfig) -> tuple[Fidelity, ...]:
    chosen = config.fidelity
    objectives = Objectives(tuple(Objective(name, direction) for name, direction in config.objectives.items()))
    make = RULES.load(chosen.rule) if isinstance(chosen.rule, str) else chosen.rule
    rule: FidelityRule = make(objectives, chosen.min, chosen.max, chosen.eta)
    return rule.rungs


def _listed(levels: Iterable[float]) -> str:
    return ", ".join(f"{level:g}" for level in levels)

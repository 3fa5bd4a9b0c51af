"""One session of a study: a new search, or an old one resumed, from a configuration to its ending."""

import os
import platform
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cluster import Executor
from nas import event_log
from nas.config import SearchConfig, changed
from nas.config_check import check
from nas.controller import Ending, Watch
from nas.errors import StorageError, StudyError
from nas.event_log import EventLog, Record
from nas.parts import CLOSE_SECONDS, Parts, check_capacity
from nas.plan_check import check_plan
from nas.recorded import check_same_table, table_digest
from nas.search_state import SearchState
from nas.signals import AtOnce, Interrupts
from nas.study import SCHEMA, Study, fold, replay
from nas.summary import write_summary
from nas.warm_start import inherited

_OPENING = ("study", "inherited", "opened")
_PACKAGES = ("ray-nas", "ray", "torch", "optuna", "numpy")


def silent(study: Study, live: Mapping[int, Any]) -> None:
    """Watch nothing."""


def run(config: SearchConfig, folder: Path, watch: Watch = silent) -> Ending:
    """Search anew in ``folder``.

    Raises StudyError where it holds a study, ConfigError, CapacityError where a trial can never fit the cluster,
    StorageError where the record cannot be written.
    """
    if (folder / event_log.FILE).exists():
        raise StudyError(f"{folder} holds a study already; go on with it by: nas resume {folder}")
    if (folder / "trials").exists():
        raise StudyError(f"{folder} holds the trials of a study whose log is gone; choose another folder")
    parts = Parts(config, folder)
    check_plan(config, parts.plan)
    check_capacity(config, parts.plan)
    state = parts.state()
    return _session(parts, state, watch, opening=[_header(parts), *_inheritance(parts)], anew=True)


def resume(
    folder: Path,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda plain: plain,
    code: Mapping[str, Any] | None = None,
    watch: Watch = silent,
) -> Ending:
    """Go on with the study in ``folder``, from its log.

    ``change`` edits the plain configuration (budgets, ``trial``, ``cluster``, ``study``). ``code`` gives classes and
    functions by kind (``space``, ``task``, ``trainer``, ``strategy``) that the record could keep by name only.
    """
    study = fold(folder, (record for record in event_log.read(folder) if record["event"] in _OPENING))
    if not study.header:
        raise StudyError(f"{folder}: the event log has no header; start the search anew in another folder")
    recorded = _with_code(SearchConfig.from_plain(study.config or study.header["config"]), code or {})
    config = _with_code(changed(recorded, change(recorded.to_plain())), code or {})
    check(config)
    parts = Parts(config, folder)
    parts.check_schema(study.header["space"])
    check_same_table(config, study)
    check_plan(config, parts.plan)
    check_capacity(config, parts.plan)
    return _session(parts, parts.state(), watch, opening=[] if study.inherited_from else _inheritance(parts))


def _with_code(config: SearchConfig, code: Mapping[str, Any]) -> SearchConfig:
    return config.model_copy(update={"search": config.search.model_copy(update=dict(code))}) if code else config


def _inheritance(parts: Parts) -> list[Record]:
    """What the search takes over from an older study: a record, or none; the log keeps it, so it is read once."""
    return [inherited(parts.config, parts.candidates)] if parts.config.search.from_ else []


def _session(parts: Parts, state: SearchState, watch: Watch, opening: Sequence[Record], anew: bool = False) -> Ending:
    with Interrupts() as interrupts:
        try:
            log = EventLog(parts.folder, parts.config.study.fsync)
        except OSError as error:
            raise StorageError(f"{parts.folder}: the study's folder cannot be written ({error.strerror})") from error
        executor: Executor | None = None
        try:
            _begin(parts, state, log, opening, anew)
            parts.find_rates()
            try:
                with interrupts.at_once(lambda number: _close_early(state, log, number)):
                    executor = parts.executor(state.study.seconds, interrupts)
            except AtOnce:
                pass
            except SystemExit as end:  # Ray's own handler, while it starts
                number = end.code if isinstance(end.code, int) else 0
                if number not in (signal.SIGINT, signal.SIGTERM):
                    raise
                interrupts.note(number)
                _close_early(state, log, number)
            if executor is None or interrupts():
                return _interrupted(state, interrupts())
            controller = parts.controller(state, executor, log, interrupts, watch)
            machines = [[node.name, node.devices, node.kind] for node in executor.cluster]
            ending = controller.run({"config": parts.config.to_plain(), "cluster": machines, **_versions()})
            if ending.exit_code != StorageError.exit_code:
                write_summary(ending.study)
            return ending
        finally:
            log.abandon()
            if executor is not None:
                executor.close(CLOSE_SECONDS)


def _begin(parts: Parts, state: SearchState, log: EventLog, opening: Sequence[Record], anew: bool) -> None:
    """Replay the log, then add ``opening``; under the lock, so that nobody else writes any more."""
    if not anew:
        replay(parts.folder, state.apply)
    elif log.size:
        raise StudyError(f"{parts.folder}: another search has just begun here; choose another folder")
    for record in opening:
        log.append(record)
        state.apply(record)
    log.flush()


def _interrupted(state: SearchState, number: int) -> Ending:
    return Ending(f"interrupted by signal {number}", 128 + number, state.study)


def _close_early(state: SearchState, log: EventLog, number: int) -> None:
    """Close the log at a signal that comes while the executor starts."""
    ending = _interrupted(state, number)
    at = state.study.seconds
    closed = {"event": "closed", "at": at, "reason": ending.reason, "exit_code": ending.exit_code, "final": False}
    log.append(closed)
    state.apply(closed)
    log.close()


def _header(parts: Parts) -> Record:
    """The first record of a study."""
    config = parts.config
    digest = table_digest(config)
    return {
        "event": "study",
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": config.search.seed,
        "config": config.to_plain(),
        "space": parts.candidates.schema(),
        "objectives": {name: direction.value for name, direction in config.objectives.items()},
        "constraints": dict(config.constraints),
        **({"table": digest} if digest else {}),
        **_versions(),
    }


def _versions() -> Record:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "versions": {"python": platform.python_version(), **found},
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }

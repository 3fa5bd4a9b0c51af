"""Configuration as text: a TOML file, ``--set section.key=value`` on top of it, and the main job behind it."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nas.config import SearchConfig
from nas.config_check import check
from nas.config_sections import BUDGETS
from nas.errors import ConfigError
from nas.recorded import names_table, of_recorded_results

MAIN_JOB = Path(__file__).with_name("main_job.toml")
"""What is searched without a file; also where tables come from that a file leaves out."""

Plain = dict[str, Any]
Setting = tuple[tuple[str, ...], Any]


def load_config(file: str | Path | None = None, overrides: Sequence[str] = ()) -> SearchConfig:
    """Read ``file`` (None: the main job), with ``overrides`` as ``section.key=value`` on top.

    Raises ConfigError for everything that is wrong, code that cannot be found included, before anything heavy loads.
    """
    settings = [parse_setting(text) for text in overrides]
    try:
        document = parse(Path(file).read_bytes()) if file is not None else {}
        config = SearchConfig.from_plain(complete(document, settings))
        check(config)
    except ConfigError as error:
        where = f"{file}: " if file is not None else ""
        raise ConfigError("\n".join(where + line for line in str(error).splitlines())) from None
    except OSError as error:
        raise ConfigError(
            f"{file}: the file cannot be read ({error.strerror}); name an existing one, or none for the main job"
        ) from None
    return config


def with_settings(plain: Mapping[str, Any], overrides: Sequence[str]) -> Plain:
    """Return a copy of a plain configuration with ``overrides`` put onto it."""
    new: Plain = _copied(plain)
    for path, value in map(parse_setting, overrides):
        _put(new, path, value)
    return new


def parse(content: bytes) -> Plain:
    """Parse TOML, in UTF-8 with or without a byte order mark; raise ConfigError with line and column."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"line {line} is not UTF-8 (byte 0x{content[error.start]:02x}); save the file as UTF-8"
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"this is no TOML: {error}") from None


def parse_setting(text: str) -> Setting:
    """Read ``section.key=value``: the value as TOML, or else as bare text. Deeper keys reach into tables."""
    name, equals, value = text.partition("=")
    path = tuple(part.strip() for part in name.split("."))
    if not equals or len(path) < 2 or not all(path):
        raise ConfigError(f"--set {text}: expected section.key=value, for example --set search.trials=60")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError as error:
        if value.strip()[:1] in tuple("[{\"'"):
            raise ConfigError(f"--set {text}: the value is no TOML: {error}") from None
        parsed = {"value": value.strip()}
    if parsed.keys() != {"value"}:
        raise ConfigError(f"--set {text}: expected one value, for example --set search.trials=60")
    return path, parsed["value"]


def main_job() -> Plain:
    """The plain configuration of the main job."""
    return tomllib.loads(MAIN_JOB.read_text(encoding="utf-8"))


def complete(document: Mapping[str, Any], settings: Iterable[Setting] = ()) -> Plain:
    """Put ``settings`` onto ``document``; tables that it leaves out are those of the main job.

    The main job's budgets give way to any that are set, its space to that of a table of recorded results, its arguments
    of the space belong to it alone, and its hyperparameters to the supervised trainer.
    """
    settings = list(settings)
    plain: Plain = _copied(document)
    defaults = main_job()
    whole = "search" not in plain
    if whole:
        plain["search"] = _copied(defaults["search"])
        if any(path[0] == "search" and path[1] in BUDGETS for path, _ in settings):
            del plain["search"]["trials"]
        if any(path == ("search", "task") and names_table(value) for path, value in settings):
            del plain["search"]["space"]
    for path, value in settings:
        if path[0] == "search":
            _put(plain, path, value)
    if isinstance(plain["search"], dict):
        of_recorded_results(plain)
    if whole and plain["search"].get("space") == defaults["search"]["space"]:
        plain.setdefault("space", _copied(defaults["space"]))
    own_trainer = isinstance(plain["search"], dict) and plain["search"].get("trainer", "supervised") != "supervised"
    for table in ("objectives", "hyperparameters", "fidelity"):
        if table not in plain and not (table == "hyperparameters" and own_trainer):
            plain[table] = _copied(defaults[table])
    for path, value in settings:
        if path[0] != "search":
            _put(plain, path, value)
    return plain


def _put(plain: Plain, path: tuple[str, ...], value: Any) -> None:
    table = plain
    for depth, name in enumerate(path[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {'.'.join(path)}: {'.'.join(path[:depth])} is no table, its keys cannot be set")
    table[path[-1]] = value


def _copied(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        return {name: _copied(value) for name, value in plain.items()}
    return [_copied(value) for value in plain] if isinstance(plain, list) else plain

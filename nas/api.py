"""The Python interface: the same configuration as a file's, as tables."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from nas import session
from nas.config import SearchConfig
from nas.config_check import check
from nas.config_text import complete, load_config
from nas.controller import Ending, Watch
from nas.errors import AllFailedError, Interrupted, StorageError
from nas.study import Study, load

__all__ = ["load", "resume", "search"]


def search(
    config: str | Path | None = None,
    *,
    folder: str | Path | None = None,
    watch: Watch = session.silent,
    **tables: Mapping[str, Any],
) -> Study:
    """Search, and return the study when it has ended.

    Either ``config`` names a TOML file, or ``tables`` are its tables (``search={...}, objectives={...}, ...``), where
    code may be given by name or as the class or function itself; tables left out are those of the main job.
    ``folder`` is where the study is kept, else a fresh one under ``runs/``.

    Raises ConfigError before anything runs; AllFailedError, StorageError or Interrupted where the search could not go
    on, the record being kept.
    """
    if config is not None:
        if tables:
            raise TypeError("give a configuration file or tables, not both")
        parsed = load_config(config)
    else:
        parsed = SearchConfig.from_plain(complete(tables))
        check(parsed)
    return _ended(session.run(parsed, Path(folder) if folder is not None else fresh_folder(), watch))


def resume(
    folder: str | Path,
    *,
    code: Mapping[str, Any] | None = None,
    watch: Watch = session.silent,
    **tables: Mapping[str, Any],
) -> Study:
    """Go on with the study in ``folder``; ``tables`` change its budgets, ``trial``, ``cluster`` and ``study``.

    ``code`` gives, by kind (``space``, ``task``, ``trainer``, ``strategy``), classes and functions that the search was
    given as objects.
    """

    def change(plain: dict[str, Any]) -> dict[str, Any]:
        return {**plain, **{name: {**plain.get(name, {}), **table} for name, table in tables.items()}}

    return _ended(session.resume(Path(folder), change, code, watch))


def fresh_folder(root: Path = Path("runs")) -> Path:
    """A folder under ``root`` that no study has, named by the time."""
    name = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder, count = root / name, 1
    while folder.exists():
        count += 1
        folder = root / f"{name}-{count}"
    return folder


def _ended(ending: Ending) -> Study:
    if ending.exit_code == AllFailedError.exit_code:
        raise AllFailedError(f"{ending.study.folder}: {ending.reason}")
    if ending.exit_code == StorageError.exit_code:
        raise StorageError(f"{ending.study.folder}: {ending.reason}")
    if ending.exit_code > 128:
        raise Interrupted(ending.exit_code - 128)
    return ending.study

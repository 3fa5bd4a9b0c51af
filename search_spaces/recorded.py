"""The space of a table of recorded results: its decisions are those that the file declares.

A table is an ``.npz`` file, readable without pickle, with ``spec`` (JSON: ``decisions``, each of ``name``, ``options``
and perhaps ``ordered``; ``space``, ``objective``, ``direction``...) and arrays over its rows.
"""

from collections.abc import Mapping
from functools import lru_cache
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from search_spaces.choice import Choice
from search_spaces.space import SearchSpace

_KEYS = ("decisions", "objective", "direction")


class RecordedSpace(SearchSpace):
    """Codes of the table at ``path``; nothing can be built from them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.decisions = {
            decision["name"]: Choice(*decision["options"], ordered=bool(decision.get("ordered", False)))
            for decision in read_spec(path)["decisions"]
        }


@lru_cache(maxsize=8)
def read_spec(path: str) -> Mapping[str, Any]:
    """The declaration in a table; ValueError, with the path, where the file is no table."""
    import numpy as np

    if not Path(path).is_file():
        raise ValueError(f"path = {path!r}: there is no such file; give the path of a table (.npz)")
    try:
        with np.load(path, allow_pickle=False) as table:
            spec = loads(str(table["spec"]))
    except (OSError, ValueError, KeyError, BadZipFile, JSONDecodeError) as error:
        raise ValueError(f"path = {path!r}: this is no table of results ({type(error).__name__}: {error})") from None
    missing = [name for name in _KEYS if name not in spec]
    if missing:
        raise ValueError(f"path = {path!r}: the table's spec lacks {', '.join(missing)}")
    return dict(spec)

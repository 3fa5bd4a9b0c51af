"""The space of a table of recorded results: its decisions are those that the file declares.

A table is an ``.npz`` file, readable without pickle, with ``spec`` (JSON: ``decisions``, each of ``name``, ``options``
and perhaps ``ordered``; ``space``, ``objective``, ``direction``...) and arrays over its rows.
"""

from collections.abc import Mapping
from functools import lru_cache
from json import JSONDecodeError, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from search_spaces.choice import Choice
from search_spaces.recorded_faults import array_faults, spec_faults
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    """The declaration in a table; ValueError, with the path, where the file is no table, or a damaged one."""
    if not Path(path).is_file():
        raise ValueError(f"path = {path!r}: there is no such file; give the path of a table (.npz)")
    try:
        arrays = read_arrays(path)
        spec = loads(str(arrays.pop("spec")))
    except (OSError, EOFError, TypeError, ValueError, KeyError, BadZipFile, JSONDecodeError) as error:
        raise ValueError(
            f"path = {path!r}: this is no table of results, an .npz file with a spec in JSON ({_first_line(error)})"
        ) from None
    for fault in (*spec_faults(spec), *(array_faults(spec, arrays) if not spec_faults(spec) else ())):
        raise ValueError(f"path = {path!r}: {fault}")
    return dict(spec)


def read_arrays(path: str) -> "dict[str, NDArray[Any]]":
    """All arrays of a file, by name; raises what numpy does where it is none, or one of pickled objects."""
    import numpy as np

    with np.load(path, allow_pickle=False) as table:
        return {name: table[name] for name in table.files}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition('. ')[0]}"

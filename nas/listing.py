"""What is installed: the search spaces, ours and those of other packages."""

from inspect import getdoc
from typing import Any

from search_spaces import SPACES, SearchSpace

_INT64 = 2**63


def spaces() -> list[dict[str, Any]]:
    """Name, description, source, number of decisions and of architectures of each space.

    A broken plug-in is listed with its ``error`` and disturbs no other. ``size`` is None above 2^63,
    and where it is infinite.
    """
    return [_space(name) for name in SPACES.names()]


def _space(name: str) -> dict[str, Any]:
    point = SPACES.installed.get(name)
    entry: dict[str, Any] = {"name": name, "source": point.value if point else "built-in"}
    try:
        made = SPACES.load(name)
        space = made() if isinstance(made, type) else made
        if not isinstance(space, SearchSpace):
            raise ValueError(f"this is a {type(space).__name__}, not a SearchSpace")
        size = space.size()
        description = (getdoc(type(space)) or "").split("\n\n")[0].replace("\n", " ")
    except Exception as error:  # a plug-in may break in any way
        return {**entry, "error": f"{type(error).__name__}: {error}"}
    return {
        **entry,
        "description": description,
        "decisions": len(space.domain.decisions),
        "size": size if size < _INT64 else None,
    }

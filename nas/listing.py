"""What is installed: the search spaces, ours and those of other packages."""

from importlib.metadata import EntryPoint
from inspect import getdoc
from math import log10
from typing import Any

from search_spaces import SPACES, SearchSpace, UnknownPluginError

_INT64 = 2**63


def spaces() -> list[dict[str, Any]]:
    """Name, where it is from, description, numbers of decisions and of architectures of each space.

    ``size`` is the exact number of architectures, None above 2^63 and where real numbers make it infinite;
    ``log10_size`` is its logarithm, each of the ``floats`` real numbers counted as one option. ``values`` counts all
    decisions, those of repeated blocks as often as they can be. A broken plug-in is listed with its ``error``, and
    disturbs no other.
    """
    return [_space(name) for name in SPACES.names()] + [
        {
            **_origin(point),
            "error": f"{name!r} is the name of a built-in space, which stays; rename the entry point",
        }
        for name, point in SPACES.hidden.items()
    ]


def _space(name: str) -> dict[str, Any]:
    entry = _origin(SPACES.installed.get(name), name)
    try:
        made = SPACES.load(name)
        space = made() if isinstance(made, type) else made
        if not isinstance(space, SearchSpace):
            raise ValueError(f"this is a {type(space).__name__}, not a SearchSpace")
        return {**entry, **_measured(space)}
    except UnknownPluginError as error:
        return {**entry, "error": str(error)}
    except (Exception, SystemExit) as error:  # a plug-in may break in any way
        return {**entry, "error": f"{type(error).__name__}: {error}"}


def _origin(point: EntryPoint | None, name: str = "") -> dict[str, Any]:
    if point is None:
        return {"name": name, "source": "built-in", "origin": "built in"}
    package = getattr(point, "dist", None)
    origin = f"{package.name} {package.version}" if package is not None else "unknown"
    return {"name": name or point.name, "source": point.value, "origin": origin}


def _measured(space: SearchSpace) -> dict[str, Any]:
    size, domain = space.size(), space.domain
    return {
        "description": (getdoc(type(space)) or "").split("\n\n")[0].replace("\n", " "),
        "decisions": len(domain.decisions),
        "values": len(domain.slots),
        "floats": sum(slot.decision.options is None for slot in domain.slots),
        "size": size if size < _INT64 else None,
        "log10_size": round(log10(domain.finite_size()), 3),
    }

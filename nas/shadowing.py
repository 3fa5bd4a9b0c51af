"""Our packages have names that users give to folders: one of theirs must not silently replace one of ours.

Looked at before any of them is imported; `cluster.installation` compares driver and workers later.
"""

from importlib.util import find_spec
from pathlib import Path

from nas.errors import ConfigError

_PACKAGES = ("nas", "cluster", "trainers", "search_spaces")


def check() -> None:
    """Raise ConfigError, with both paths and the remedy, where the four packages are not beside each other."""
    ours = Path(__file__).resolve().parents[1]
    for name in _PACKAGES:
        spec = find_spec(name)
        places = [Path(place).resolve() for place in spec.submodule_search_locations or ()] if spec else []
        if ours / name in places[:1]:
            continue
        if not places and not (spec and spec.origin):
            raise ConfigError(f"package {name} is missing in {ours}; install ray-nas again")
        found = places[0] if places else spec and spec.origin
        raise ConfigError(
            f"{found} hides our package {name} in {ours / name}; rename it, or start in another folder "
            "(with the command nas, not python -m nas)"
        )

"""Driver and workers run the same code: all four packages, from one folder, of one version.

Our packages have names that users give to their own folders. A folder ``trainers/`` beside a user's file would silently
replace ours in one process and not in another, so each process looks before it works.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from socket import gethostname

PACKAGES = ("search_spaces", "trainers", "cluster", "nas")


class InstallationError(ValueError):
    """The packages of a process are not ours, or not those of the driver; names both places and the remedy."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where this process has our packages from: their folder ``root``, versions, and a digest of the sources."""

    host: str
    root: str
    python: str
    ray_nas: str
    torch: str
    digest: str

    @classmethod
    def here(cls) -> "Installation":
        """Look at this process; nothing is imported. Raise InstallationError where the four are not together."""
        roots = {name: _root(name) for name in PACKAGES}
        if len(set(roots.values())) > 1:
            found = "; ".join(f"{name} from {root}" for name, root in roots.items())
            raise InstallationError(
                f"our packages come from different folders: {found}. A folder of your own with one of these names "
                "hides ours: rename it, or start elsewhere"
            )
        root = roots["cluster"]
        python = ".".join(map(str, sys.version_info[:2]))
        return cls(gethostname(), root, python, _version("ray-nas"), _version("torch"), _digest(Path(root)))

    def plain(self) -> dict[str, str]:
        """Only built-in types, so that a process without our code can read it."""
        return asdict(self)

    def check(self, driver: Mapping[str, str]) -> None:
        """Raise InstallationError where this process does not have the driver's code."""
        if (self.host, self.root) == (driver["host"], driver["root"]):
            return
        named = {"python": "Python", "ray_nas": "ray-nas", "torch": "torch", "digest": "source digest"}
        mine = self.plain()
        differing = [
            f"{text} {mine[key]} here, {driver[key]} there" for key, text in named.items() if mine[key] != driver[key]
        ]
        if differing:
            raise InstallationError(
                f"the worker on {self.host} has other code than the driver on {driver['host']} "
                f"({self.root} here, {driver['root']} there): {'; '.join(differing)}. "
                "Install the same versions on all nodes"
            )


def _root(name: str) -> str:
    spec = find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise InstallationError(
            f"package {name!r} is missing: install ray-nas again (pip install --force-reinstall ray-nas)"
        )
    return str(Path(places[0]).resolve().parent)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:  # run from a checkout
        return "not installed"


def _digest(root: Path) -> str:
    """Digest of all sources of the four packages under ``root``."""
    digest = sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]

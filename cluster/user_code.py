"""The user's own modules go with a study: workers that would import others, or none, import the copy in its folder.

A space may be a file beside the configuration, or a package that is installed on the driver's machine alone. Which
modules are needed is found from the sources, as the driver would import them. A module that a worker has with the very
same sources is imported as it is.
"""

import ast
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import Any

from cluster.installation import PACKAGES
from search_spaces import SPACES, Reference, Registry
from trainers import TASKS, TRAINERS, Recipe

FOLDER = "code"
_COMPILED = (".so", ".pyd", ".dylib")
_FILE_BYTES = 2**20
_MODULE_BYTES = 16 * 2**20
_MODULE_FILES = 1_000

Files = dict[str, bytes]
"""Contents by path, relative to the folder that holds the module."""


@dataclass(frozen=True, slots=True)
class Module:
    """A top-level module of the user: a file or a package in ``folder``, with its ``files``."""

    name: str
    folder: Path
    files: Files

    @property
    def path(self) -> Path:
        """The file or the package."""
        package = self.folder / self.name
        return package if package.is_dir() else self.folder / f"{self.name}.py"


def located(reference: Reference, registry: Registry) -> Reference:
    """Return the same code by ``module:name`` where it goes by the entry point of an installed package."""
    point = registry.installed.get(reference.code) if isinstance(reference.code, str) else None
    return replace(reference, code=f"{point.module}:{point.attr}") if point is not None else reference


def located_recipe(recipe: Recipe) -> Recipe:
    """Return ``recipe`` with its code `located`."""
    references = ((recipe.space, SPACES), (recipe.task, TASKS), (recipe.trainer, TRAINERS))
    space, task, trainer = (located(*pair) for pair in references)
    return replace(recipe, space=space, task=task, trainer=trainer)


def modules_of(recipe: Recipe) -> list[Module]:
    """`user_modules` of a `located_recipe`."""
    return user_modules((recipe.space, recipe.task, recipe.trainer))


def user_modules(references: Sequence[Reference]) -> list[Module]:
    """The user's modules that `located` code needs, by name.

    That is the code that is named, with what this imports from beside it. Modules of the standard library and of
    installed packages are not followed into; one with compiled parts, or too large, must be where workers find it.
    """
    named = [_module(reference) for reference in references]
    found: list[Module] = []
    waiting = [name for name in named if name]
    seen = {"__main__", *PACKAGES, *sys.stdlib_module_names}
    if "__main__" in named:  # it goes by value itself, but not what it imports
        waiting += _imports_of_main()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        folder = _folder(name)
        if folder is None or (_installed(folder) and name not in named):
            continue
        files = _files(folder, name)
        if files:
            found.append(Module(name, folder, files))
            waiting += [] if _installed(folder) else _imports(files)
    return sorted(found, key=lambda module: module.name)


def deposit(modules: Sequence[Module], study: Path) -> dict[str, Any]:
    """Copy ``modules`` into the folder of a study; return what workers must know, of built-in types only.

    A disk that is full leaves no copy: a worker that needs it says so.
    """
    digests = {module.name: _digests(module.files) for module in modules}
    content = _digest(repr(digests).encode())[:16]
    place = study / FOLDER / content
    if modules and not place.is_dir():
        part = place.with_name(f"{content}.{os.getpid()}")
        try:
            for module in modules:
                for path, text in module.files.items():
                    (part / path).parent.mkdir(parents=True, exist_ok=True)
                    (part / path).write_bytes(text)
            part.rename(place)
        except OSError:
            rmtree(part, ignore_errors=True)
    sources = {name: {path: own[path] for path in own if path.endswith(".py")} for name, own in digests.items()}
    return {"modules": sources, "copy": str(place)}


def use(code: Mapping[str, Any]) -> None:
    """Let this process import the same modules as the driver: its own where their sources are the same, else the copy.

    Raises ImportError where it has neither.
    """
    other = [name for name, digests in code["modules"].items() if not _same(name, digests)]
    if not other:
        return
    if not Path(code["copy"]).is_dir():
        raise ImportError(
            f"{', '.join(other)}: this machine does not have the driver's sources, nor their copy {code['copy']}; "
            "the study's folder must be on storage that all nodes share"
        )
    sys.path.insert(0, code["copy"])  # it holds nothing but these modules
    for name in [name for name in sys.modules if name.partition(".")[0] in code["modules"]]:
        del sys.modules[name]
    invalidate_caches()


def _same(name: str, digests: Mapping[str, str]) -> bool:
    folder = _folder(name)
    with suppress(OSError):
        return folder is not None and all(_digest((folder / path).read_bytes()) == digests[path] for path in digests)
    return False


def _module(reference: Reference) -> str:
    """Top-level name of the module that holds the code."""
    return reference.name.partition(":")[0].partition(".")[0] if ":" in reference.name else ""


def _folder(name: str) -> Path | None:
    """The folder in which this process finds the module ``name``; None where it has none on disk."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ())
    at = places[0] if places else spec.origin if spec.has_location else None
    return Path(at).resolve().parent if at else None


def _installed(folder: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(folder.parts))


def _files(folder: Path, name: str) -> Files:
    """All files of a module but large ones without code; none where it has to be installed."""
    package = folder / name
    files: Files = {}
    total = 0
    try:
        for count, path in enumerate(_walk(package) if package.is_dir() else [folder / f"{name}.py"]):
            if path.suffix in _COMPILED or count == _MODULE_FILES or total > _MODULE_BYTES:
                return {}
            if path.suffix == ".py" or path.stat().st_size <= _FILE_BYTES:
                files[path.relative_to(folder).as_posix()] = path.read_bytes()
                total += path.stat().st_size
    except OSError:
        return {}
    return files


def _walk(package: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        yield from (Path(place) / name for name in sorted(names) if not name.startswith("."))


def _imports(files: Files) -> list[str]:
    """Top-level names that sources import, at their top or inside functions."""
    found: list[str] = []
    for path, text in files.items():
        if path.endswith(".py"):
            with suppress(SyntaxError, ValueError):
                found += _imported(ast.parse(text))
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _imports_of_main() -> list[str]:
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    with suppress(OSError, TypeError):
        return _imports({"main.py": Path(str(path)).read_bytes()}) if path else []
    return []


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: _digest(text) for path, text in sorted(files.items())}


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]

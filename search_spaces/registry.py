"""Plug-ins by name: built-in, entry point, ``module:name``, or the object itself.

A kind of plug-in (spaces, tasks, strategies...) is one `Registry`: a table of built-in names whose modules
are imported on first use, beside an entry-point group that other packages may fill.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any


class UnknownPluginError(ValueError):
    """A name that no plug-in has, or code that cannot be imported; the text says the remedy."""


@dataclass(frozen=True)
class Registry:
    """The plug-ins of one kind. ``builtin`` maps a name to ``module:attribute``."""

    kind: str
    group: str
    builtin: Mapping[str, str]
    _loaded: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def installed(self) -> dict[str, EntryPoint]:
        """Entry points of other packages, by name. A built-in name cannot be replaced."""
        return {name: point for name, point in self._points().items() if name not in self.builtin}

    @cached_property
    def hidden(self) -> dict[str, EntryPoint]:
        """Entry points of other packages that have a built-in name, and are not used."""
        return {name: point for name, point in self._points().items() if name in self.builtin}

    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """All known names, sorted."""
        return sorted({*self.builtin, *self.installed})

    def load(self, name: str) -> Any:
        """Return the object behind ``name``; raise UnknownPluginError with the nearest known name."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Any:
        if name in self.builtin:
            return load_object(self.builtin[name], self.kind)
        if name in self.installed:
            try:
                return self.installed[name].load()
            except (Exception, SystemExit) as error:
                point = self.installed[name]
                raise UnknownPluginError(
                    f"{self.kind} {name!r}: the plug-in {point.value} does not import "
                    f"({type(error).__name__}: {error}); repair or uninstall its package"
                ) from error
        if ":" in name:
            return load_object(name, self.kind)
        near = get_close_matches(name, self.names(), 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownPluginError(
            f"{self.kind} {name!r} is not known; {hint}Known: {', '.join(self.names())}; "
            "or name your own code as module:name"
        )


def load_object(path: str, kind: str) -> Any:
    """Import ``module:name``; the working directory is searched last, as a script beside the user would be."""
    module, _, attribute = path.partition(":")
    if "" not in sys.path and "." not in sys.path:
        sys.path.append(".")
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:
        raise UnknownPluginError(
            f"{kind} {path!r}: module {module!r} does not import ({type(error).__name__}: {error}); "
            "run in its directory, or install it"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UnknownPluginError(f"{kind} {path!r}: module {module!r} has no {attribute!r}")
        found = getattr(found, part)
    return found


@dataclass(frozen=True)
class Reference:
    """Names code and its arguments, so that any worker can make the same object.

    ``code`` is a name or ``module:name``; or, from Python, the object itself, which then travels by value and
    is recorded by its qualified name only.
    """

    code: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that the record keeps."""
        if isinstance(self.code, str):
            return self.code
        named = self.code if hasattr(self.code, "__qualname__") else type(self.code)
        return f"{named.__module__}:{named.__qualname__}"

    def make(self, registry: Registry) -> Any:
        """Make the object: a class is called with the arguments, a finished object is returned as it is."""
        found = registry.load(self.code) if isinstance(self.code, str) else self.code
        if not isinstance(found, type):
            if self.arguments:
                raise ValueError(f"{registry.kind} {self.name!r} takes no arguments, got {sorted(self.arguments)}")
            return found
        try:
            return found(**self.arguments)
        except TypeError as error:
            raise ValueError(f"{registry.kind} {self.name!r} with {dict(self.arguments)}: {error}") from error

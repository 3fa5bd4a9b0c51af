"""A small package for a search space of one's own, to be changed; it installs and its test passes as it is."""

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from nas.errors import ConfigError, StorageError
from search_spaces import SPACES

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_MOST_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class NewSpace:
    """What was written: the package's ``folder``, the ``files`` in it, and ``code``, the space as module:Class."""

    name: str
    folder: Path
    files: tuple[str, ...]
    code: str

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"name": self.name, "folder": str(self.folder), "files": list(self.files), "code": self.code}


def write_new_space(name: str, parent: Path = Path()) -> NewSpace:
    """Write the package ``name`` into a new folder of this name in ``parent``.

    Raises ConfigError for a name that a distribution, a module or a space cannot have, and where the folder is there
    already; StorageError where it cannot be written.
    """
    _check(name)
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder}: this is there already; choose another name, or remove it")
    module = name.replace("-", "_")
    words = {"name": name, "module": module, "space": "".join(part.capitalize() for part in module.split("_"))}
    files = {Template(path).substitute(words): Template(text).substitute(words) for path, text in _FILES.items()}
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{error.filename}: the new package cannot be written ({error.strerror})") from error
    return NewSpace(name, folder, tuple(files), f"{module}:{words['space']}")


def _check(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MOST_CHARACTERS:
        raise ConfigError(
            f"{name!r} cannot name a package: use up to {_MOST_CHARACTERS} small letters and digits, beginning with a "
            "letter, words joined by - or _, as in my-space"
        )
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or keyword.issoftkeyword(module):
        raise ConfigError(f"{name!r}: {module} is a word of Python and cannot be imported; choose another name")
    if name in SPACES.names():
        raise ConfigError(f"{name!r}: a space of this name is installed; choose another name (nas spaces lists them)")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise ConfigError(f"{name!r}: a module {module} is installed, which this one would hide; choose another name")


_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
description = "A search space for ray-nas."
requires-python = ">=3.11"
dependencies = ["ray-nas"]

[project.entry-points."nas.search_spaces"]
$name = "$module:$space"

[tool.setuptools.packages.find]
where = ["src"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
""",
    "search.toml": """\
# nas search search.toml
[search]
space = "$name"
task = "digits"
trials = 20

[space]
widths = [8, 16, 24]
""",
    "src/$module/__init__.py": '''\
"""A search space for ray-nas."""

from $module.space import $space

__all__ = ["$space"]
''',
    "src/$module/space.py": '''\
"""What can be chosen: the declaration, which must not import torch."""

from search_spaces import Choice, Integer, Repeat, SearchSpace


class $space(SearchSpace):
    """Small residual networks for images of any size, number of channels and number of classes."""

    def __init__(self, widths=(8, 16, 24, 32), depth=(1, 3)):
        self.decisions = {
            "width": Choice(*widths, ordered=True),
            "activation": Choice("relu", "gelu"),
            "depth": Integer(*depth),
            "block": Repeat("depth", {"kernel": Choice(3, 5, ordered=True), "expansion": Choice(1, 2, ordered=True)}),
        }

    def check_signature(self, signature):
        """Raise ValueError for a task that this space has no network for."""
        if len(signature.input.shape) != 3 or len(signature.output.shape) != 1:
            raise ValueError(f"space $space takes (channels, height, width) to (classes,), not {signature}")

    def build(self, architecture, signature):
        """Build the network: [batch, channels, height, width] to [batch, classes]."""
        from $module.modules import Residual

        self.check_signature(signature)
        blocks = [
            (architecture[f"block.{at}.kernel"], architecture[f"block.{at}.expansion"])
            for at in range(architecture["depth"])
        ]
        return Residual(
            channels=signature.input.shape[0],
            classes=signature.output.shape[0],
            width=architecture["width"],
            activation=architecture["activation"],
            blocks=blocks,
        )
''',
    "src/$module/modules.py": '''\
"""The networks of the space: ordinary torch modules."""

from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class Block(nn.Module):
    """x + f(x): [batch, width, height, width] to the same shape."""

    def __init__(self, width, kernel, expansion, activation):
        super().__init__()
        inner = expansion * width
        self.inside = nn.Sequential(
            nn.Conv2d(width, inner, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(inner),
            activation(),
            nn.Conv2d(inner, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, images):
        return images + self.inside(images)


class Residual(nn.Module):
    """A stem that halves the image, residual blocks, global pooling and a linear head."""

    def __init__(self, channels, classes, width, activation, blocks):
        super().__init__()
        made = ACTIVATIONS[activation]
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), made()
        )
        self.blocks = nn.Sequential(*(Block(width, kernel, expansion, made) for kernel, expansion in blocks))
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))
''',
    "tests/test_$module.py": '''\
"""The contract of a search space; `nas check $module:$space` runs the same checks and explains what fails."""

import pytest
from search_spaces import Signature, TensorType
from search_spaces.conformance import checks

from $module import $space

SIGNATURES = {
    "digits": Signature(TensorType((1, 8, 8)), TensorType((10,))),
    "photos": Signature(TensorType((3, 33, 20)), TensorType((3,))),
}


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{label}: {name}")
        for label, signature in SIGNATURES.items()
        for name, check in checks($space(), signature)
    ],
)
def test_the_contract_is_kept(check):
    check()
''',
}

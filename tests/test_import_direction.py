"""Imports run nas -> cluster -> trainers -> search_spaces, and heavy libraries stay where they belong."""

import ast
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = ("search_spaces", "trainers", "cluster", "nas")
RAY = {Path("cluster/ray_backend.py"), Path("cluster/jobs.py")}
HEAVY = {"torch", "ray", "optuna"}


def sources():
    return [path.relative_to(ROOT) for package in ORDER for path in sorted((ROOT / package).rglob("*.py"))]


def imported(path):
    """Absolute names of all modules that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative imports hide the direction"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", sources(), ids=str)
def test_imports_follow_the_road_of_a_trial(path):
    here = ORDER.index(path.parts[0])
    for module in imported(path):
        top = module.partition(".")[0]
        assert top not in ORDER or ORDER.index(top) <= here, f"{path} imports {module}, against the direction"
        assert top != "ray" or path in RAY, f"{path} imports ray; only {', '.join(map(str, sorted(RAY)))} may"
        assert top not in ("tests", "benchmarks"), f"{path} imports {module}"


def loaded_by(statement):
    """Heavy modules, and a few others, that a fresh process has after ``statement``."""
    watched = HEAVY | {"numpy", "plotly", "sklearn", "pydantic"}
    script = f"import sys\n{statement}\nprint('loaded:', *sorted({watched!r} & sys.modules.keys()))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.rpartition("loaded:")[2].split())


HELP = """
sys.argv = ["nas", "--help"]
from nas.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""


@pytest.mark.parametrize(
    "statement",
    [
        "import search_spaces",
        "import search_spaces\nfor name in search_spaces.SPACES.names(): search_spaces.SPACES.load(name)().domain",
        "import trainers",
        "import cluster",
        "import nas",
        "import nas\nnas.Study, nas.Trial, nas.ConfigError, nas.search, nas.load",
        "import nas.config_text\nnas.config_text.load_config",
    ],
)
def test_importing_loads_nothing_heavy(statement):
    assert not loaded_by(statement) & HEAVY


@pytest.mark.clock
def test_help_loads_nothing_and_comes_at_once():
    assert loaded_by(HELP) == set()
    command = [sys.executable, "-m", "nas", "--help"]
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.5


def test_the_packages_are_listed_for_the_distribution():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = {".".join(path.parent.parts) for path in sources()}
    assert set(listed) == found


def test_no_file_is_missing_from_the_distribution():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    for package in ORDER:
        others = {
            path.relative_to(ROOT / package)
            for path in (ROOT / package).rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc")
        }
        for path in others:
            assert any(path.match(pattern) for pattern in data[package]), f"{package}/{path} is in no package-data"

"""The user's modules reach workers that could not import them: found from sources, copied by content."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from shutil import rmtree

import pytest

from cluster import Finished, Reported
from cluster.user_code import deposit, located_recipe, modules_of, use
from search_spaces import SPACES, Reference
from tests.cluster.ray_bench import Bench
from trainers import Recipe

ROOT = Path(__file__).parents[2]

MODULE = """
    import json
    import orjson
    import local_layers
    from search_spaces import Choice, SearchSpace


    class Space(SearchSpace):
        decisions = {"a": Choice(1, 2)}

        def build(self, architecture, signature):
            from local_package.deep import network

            return network()


    def train(candidate, context):
        import local_package

        size = context.materials.space.size()
        context.report(context.until, {"answer": local_layers.ANSWER, "read": local_package.read(), "size": size})
"""
PACKAGE = """
    from pathlib import Path


    def read():
        return len((Path(__file__).parent / "data.txt").read_text())
"""
ENTRY_POINTS = "[nas.search_spaces]\nlocal-space = local_search:Space\n"


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the driver's path alone: modules, a package, and an installed distribution's entry point."""
    folder = tmp_path / "local"
    for path, text in {
        "local_search.py": textwrap.dedent(MODULE),
        "local_layers.py": "ANSWER = 42\n",
        "local_package/__init__.py": textwrap.dedent(PACKAGE),
        "local_package/deep.py": "def network():\n    from torch import nn\n\n    return nn.Linear(1, 1)\n",
        "local_package/data.txt": "12345",
        "local_package/.hidden": "",
        "local_package/weights.bin": "0" * (2**20 + 1),
        "unrelated.py": "raise RuntimeError",
        "json.py": "raise RuntimeError('the one of the standard library is meant')",
        "local_space-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: local-space\nVersion: 1.0\n",
        "local_space-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    points = {point.name: point for point in entry_points(group="nas.search_spaces")}
    assert points["local-space"].value == "local_search:Space"
    monkeypatch.setitem(SPACES.__dict__, "installed", points)
    yield folder
    for name in ("local_search", "local_layers", "local_package", "local_package.deep"):
        sys.modules.pop(name, None)


def recipe(study: Path, space: object = "local_search:Space", trainer: object = "local_search:train") -> Recipe:
    study.mkdir(exist_ok=True)
    return Recipe(Reference(space), Reference("digits"), Reference(trainer), maximum=27, folder=study)


def test_an_entry_point_travels_as_module_and_name(local: Path, tmp_path: Path) -> None:
    there = located_recipe(recipe(tmp_path / "study", "local-space"))
    assert there.space == Reference("local_search:Space")
    assert there.task == Reference("digits")


def test_what_is_needed_is_what_is_named_and_what_it_imports_from_beside_it(local: Path, tmp_path: Path) -> None:
    found = modules_of(located_recipe(recipe(tmp_path / "study", "local-space")))
    assert {module.name: sorted(module.files) for module in found} == {
        "local_search": ["local_search.py"],
        "local_layers": ["local_layers.py"],
        "local_package": ["local_package/__init__.py", "local_package/data.txt", "local_package/deep.py"],
    }
    assert found[0].files == {"local_layers.py": b"ANSWER = 42\n"}
    assert [module.path for module in found] == [
        local / "local_layers.py",
        local / "local_package",
        local / "local_search.py",
    ]


def test_code_of_ours_and_of_installed_packages_stays_where_it_is(tmp_path: Path) -> None:
    assert modules_of(recipe(tmp_path / "study", "mlp", "trainers.supervised:Supervised")) == []
    assert modules_of(recipe(tmp_path / "study", "torch.nn:Linear", "math:sin")) == []


def test_a_class_given_as_an_object_is_found_by_its_module(local: Path, tmp_path: Path) -> None:
    import local_search

    found = modules_of(recipe(tmp_path / "study", local_search.Space, "synthetic"))
    assert {module.name for module in found} == {"local_search", "local_layers", "local_package"}


def worker(code: object, *path: Path) -> dict[str, str]:
    """Where a process with ``path`` finds the modules after `use`."""
    script = """
        import json, sys
        from cluster.user_code import use
        sys.path += sys.argv[2:]
        try:
            use(json.loads(sys.argv[1]))
        except ImportError as error:
            print(json.dumps({"error": str(error)}))
            sys.exit()
        import local_layers, local_package
        files = {module.__name__: module.__file__ for module in (local_layers, local_package)}
        print(json.dumps({**files, "answer": local_layers.ANSWER, "read": local_package.read()}))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), json.dumps(code), *map(str, path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_the_same_files_are_used_where_they_are_others_not(local: Path, tmp_path: Path) -> None:
    code = deposit(modules_of(recipe(tmp_path / "study")), tmp_path / "study")
    copy = Path(code["copy"])
    assert worker(code, local)["local_layers"] == str(local / "local_layers.py")
    assert worker(code) == {
        "local_layers": str(copy / "local_layers.py"),
        "local_package": str(copy / "local_package" / "__init__.py"),
        "answer": 42,
        "read": 5,
    }
    (local / "local_package" / "data.txt").write_text("123")
    assert worker(code, local)["read"] == 3  # data may change, sources may not
    (local / "local_layers.py").write_text("ANSWER = 40 + 3\n")  # of another size: Python caches by size and second
    assert worker(code, local)["answer"] == 42
    assert worker(deposit(modules_of(recipe(tmp_path / "study")), tmp_path / "study"), local)["answer"] == 43
    rmtree(copy)
    assert "storage that all nodes share" in worker(code)["error"]


@pytest.mark.parametrize(("name", "size"), [("part.so", 1), ("long.py", 2**24 + 1)])
def test_what_cannot_be_copied_whole_is_not_copied(local: Path, tmp_path: Path, name: str, size: int) -> None:
    (local / "local_package" / name).write_text("#" * size)
    (local / "local_package" / "z.py").touch()
    found = modules_of(recipe(tmp_path / "study"))
    assert {module.name for module in found} == {"local_search", "local_layers"}


def test_copies_are_by_content(local: Path, tmp_path: Path) -> None:
    first, second = (deposit(modules_of(recipe(tmp_path / "study")), tmp_path / "study") for _ in range(2))
    assert first == second
    assert [path.name for path in (tmp_path / "study" / "code").iterdir()] == [Path(first["copy"]).name]
    nothing = deposit([], tmp_path / "other")
    assert not (tmp_path / "other").exists()
    use(nothing)


@pytest.mark.ray
@pytest.mark.slow
def test_workers_import_what_only_the_driver_had(local_ray: None, local: Path, tmp_path: Path) -> None:
    from cluster.ray_backend import RayExecutor

    executor = RayExecutor(recipe(tmp_path / "study", "local-space"), address="auto", max_devices=1)
    rmtree(local)  # now no process can import the modules from where the driver has them
    bench = Bench(executor)
    assert isinstance(bench.run("any"), Finished), bench.events
    reported = next(event for event in bench.events if isinstance(event, Reported))
    assert reported.measurement.metrics == {"answer": 42, "read": 5, "size": 2}
    executor.close(5.0)

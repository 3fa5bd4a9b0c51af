"""`nas new-space`: the package that it writes is tested, checked, searched and installed as it is."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import orjson
import pytest

from nas.errors import ConfigError
from nas.new_space import write_new_space
from tests.nas.test_cli import nas  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_new_space("tiny-nets", tmp_path_factory.mktemp("new"))


def python(*arguments, path=(), cwd=None):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_says_what_it_wrote(nas, tmp_path):  # noqa: F811
    code, out, err = nas("new-space", "my_space", "--in", tmp_path, "--json", tmp_path / "answer.json")
    assert (code, err) == (0, "")
    answer = orjson.loads((tmp_path / "answer.json").read_bytes())
    written = {str(path.relative_to(tmp_path / "my_space")) for path in (tmp_path / "my_space").rglob("*.*")}
    assert set(answer.pop("files")) == written
    assert answer == {"form": 1, "name": "my_space", "folder": str(tmp_path / "my_space"), "code": "my_space:MySpace"}
    assert f"pip install -e {tmp_path / 'my_space'}" in out


@pytest.mark.slow
def test_its_own_test_passes(made):
    out = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=made.folder)
    assert "28 passed" in out


def test_its_code_is_as_ours(made):
    style = ("--isolated", "--line-length", "120")
    python("-m", "ruff", "check", *style, cwd=made.folder)
    python("-m", "ruff", "format", *style, "--check", cwd=made.folder)


@pytest.mark.slow
def test_it_is_found_and_searched_where_its_source_is_on_the_path(made, tmp_path):
    settings = ["cluster.executor=inline", f"search.space={made.code}", "fidelity.max=1", "fidelity.rule=none"]
    arguments = [word for setting in settings for word in ("--set", setting)]
    arguments += ["--trials", "2", "--dir", "study", "--json", "answer.json"]
    python("-m", "nas", "search", *arguments, path=[made.folder / "src"], cwd=tmp_path)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["trials"] == {"completed": 2}
    assert answer["best"]["objectives"]["parameters"] > 0


@pytest.mark.slow
def test_installed_it_is_listed_with_its_origin_and_its_configuration_runs(made, tmp_path):
    site = tmp_path / "site"
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", site, made.folder]
    python("-m", "pip", *install)
    python("-m", "nas", "spaces", "--json", tmp_path / "spaces.json", path=[site], cwd=tmp_path)
    listed = {space["name"]: space for space in json.loads((tmp_path / "spaces.json").read_text())["spaces"]}
    assert listed["tiny-nets"]["origin"] == "tiny-nets 0.1.0"
    assert listed["tiny-nets"]["source"] == made.code == "tiny_nets:TinyNets"
    assert listed["tiny-nets"]["size"] == 4 * 2 * (4 + 4**2 + 4**3)
    assert listed["mlp"]["origin"] == "built in"
    dry = ["--set", "cluster.executor=simulated", "--set", "search.trainer=synthetic", "--trials", "3"]
    python("-m", "nas", "search", made.folder / "search.toml", *dry, "--dir", "study", path=[site], cwd=tmp_path)
    assert json.loads((tmp_path / "study" / "summary.json").read_text())["launched"] == 3


def test_its_entry_point_is_in_the_group_that_is_read(made):
    project = tomllib.loads((made.folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"nas.search_spaces": {"tiny-nets": "tiny_nets:TinyNets"}}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("My-Space", "small letters"),
        ("1st", "beginning with a letter"),
        ("a--b", "joined by"),
        ("a/b", "cannot name a package"),
        ("", "cannot name a package"),
        ("a" * 61, "up to 60"),
        ("lambda", "a word of Python"),
        ("json", "a module json is installed"),
        ("torch", "a module torch is installed"),
        ("search-spaces", "a module search_spaces is installed"),
        ("mlp", "a space of this name is installed"),
    ],
)
def test_names_that_would_not_work_are_refused(tmp_path, name, told):
    with pytest.raises(ConfigError, match=told):
        write_new_space(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_alone(nas, tmp_path):  # noqa: F811
    (tmp_path / "my-space").mkdir()
    (tmp_path / "my-space" / "precious.txt").write_text("1")
    code, _, err = nas("new-space", "my-space", "--in", tmp_path)
    assert code == 2
    assert f"{tmp_path / 'my-space'}: this is there already" in err
    assert [path.name for path in (tmp_path / "my-space").iterdir()] == ["precious.txt"]

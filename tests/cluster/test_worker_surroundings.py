"""What surrounds the worker: installation, session folder and variables, the trial's log, job submission."""

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.bootstrap import rank_class, start_message
from cluster.collectives import Post
from cluster.installation import Installation, InstallationError
from cluster.jobs import submit
from cluster.session import SessionFolder, check_reachable, few_attempts, kept_signal_handlers, prepare
from search_spaces import Reference
from trainers import Recipe

ROOT = Path(__file__).parents[2]


def test_the_same_folder_on_the_same_host_is_the_same_code() -> None:
    here = Installation.here()
    assert here.root == str(ROOT)
    here.check(replace(here, digest="older").plain())


def test_other_code_elsewhere_is_named_with_both_places_and_the_remedy() -> None:
    here = Installation.here()
    there = replace(here, host="head", root="/opt/nas")
    here.check(there.plain())
    with pytest.raises(InstallationError) as caught:
        here.check(replace(there, ray_nas="9.9", digest="0").plain())
    for part in (here.root, "/opt/nas", "head", "ray-nas", "9.9", "Install the same versions"):
        assert part in str(caught.value)


def test_a_users_folder_that_hides_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "trainers").mkdir()
    (tmp_path / "trainers" / "__init__.py").touch()
    script = """
        import sys
        from cluster.installation import Installation, InstallationError
        for name in [name for name in sys.modules if name.partition(".")[0] == "trainers"]:
            del sys.modules[name]
        sys.path.insert(0, sys.argv[1])
        try:
            Installation.here()
        except InstallationError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert f"trainers from {tmp_path}" in done.stdout
    assert f"cluster from {ROOT}" in done.stdout
    assert "rename it" in done.stdout


def bootstrapped(folder: Path, driver: Installation, *path: Path, absent: str = "") -> dict[str, Any]:
    """Answer of a process that has ``path`` before all else and no module ``absent``, told to start for ``driver``."""
    from ray import cloudpickle

    recipe = Recipe(Reference("mlp"), Reference("digits"), Reference("supervised"), maximum=1, folder=folder)
    message = start_message(driver, pickle.dumps(recipe), {"modules": {}, "copy": ""}, Post(0, 1), log_bytes=1000)
    blob = cloudpickle.dumps((rank_class(lambda method: method), {**message, "path": [], "folder": str(folder)}))
    script = """
        import json, pickle, sys
        made, message = pickle.load(sys.stdin.buffer)
        sys.modules[sys.argv[1]] = None
        sys.path[:0] = sys.argv[2:]
        print(json.dumps(made().start(message)))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), absent, *map(str, path)]
    done = subprocess.run(command, cwd=folder, input=blob, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return dict(json.loads(done.stdout))


def test_a_worker_finds_ours_before_a_users_folder_of_the_same_name(tmp_path: Path) -> None:
    hiding = tmp_path / "hiding"
    (hiding / "trainers").mkdir(parents=True)
    (hiding / "trainers" / "__init__.py").touch()
    assert set(bootstrapped(tmp_path, Installation.here(), hiding, ROOT)) == {"pid", "port"}


def test_a_worker_without_our_packages_says_where_it_is_and_where_the_driver_has_them(tmp_path: Path) -> None:
    elsewhere = replace(Installation.here(), root=str(tmp_path / "driver"))
    text = bootstrapped(tmp_path, elsewhere, absent="cluster")["mismatch"]
    for part in (sys.executable, "cluster", elsewhere.root, "Install the same version"):
        assert part in text


def test_a_local_ray_gets_a_token_of_its_own_and_the_users_is_kept() -> None:
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    prepare(first, local=True)
    prepare(second, local=True)
    assert len(first["RAY_AUTH_TOKEN"]) == 64
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]
    for users in ({"RAY_AUTH_TOKEN": "mine"}, {"RAY_AUTH_TOKEN_PATH": "file"}, {"RAY_AUTH_MODE": "disabled"}):
        given = dict(users)
        prepare(given, local=True)
        assert {**given, **users} == given
        assert given.get("RAY_AUTH_TOKEN") == users.get("RAY_AUTH_TOKEN")
    joined: dict[str, str] = {}
    prepare(joined, local=False)
    assert "RAY_AUTH_TOKEN" not in joined


def test_few_attempts_leaves_the_environment_as_it_was() -> None:
    environment: dict[str, str] = {}
    with few_attempts(environment):
        assert list(environment.values()) == ["3"]
    assert environment == {}


def test_the_folder_of_a_dead_process_is_swept_and_that_of_a_living_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("cluster.session._SESSION_BYTES", 0)
    living, dead = SessionFolder(), SessionFolder()
    dead._lock.close()  # as the system does when its process ends
    for folder in (living, dead):
        os.utime(folder.path, (0, 0))
    third = SessionFolder()
    assert living.path.is_dir()
    assert not dead.path.exists()
    for folder in (living, third):
        folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_an_address_where_nothing_listens_is_told_at_once() -> None:
    with pytest.raises(ConnectionError, match="127.0.0.1 port 1"):
        check_reachable("127.0.0.1:1")
    check_reachable("auto")


def test_signal_handlers_survive() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with kept_signal_handlers():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_trials_log_keeps_the_newest_output_within_its_limit(tmp_path: Path) -> None:
    script = """
        import os, sys
        from pathlib import Path
        from cluster.trial_log import TrialLog
        log, path = TrialLog(2000), Path(sys.argv[1])
        with log.into(path / "rank0.log"):
            for number in range(100):
                log.rotate()
                print(f"line {number:3}", "x" * 80, flush=True)
                os.system("echo from a child")
        with log.into(path / "rank1.log"):
            pass
        print("back")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "back\n", done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.log", "rank0.log.1"]
    kept = (tmp_path / "rank0.log.1").read_text() + (tmp_path / "rank0.log").read_text()
    assert 500 < len(kept) <= 2000 + 200
    assert "line  99" in kept
    assert "from a child" in kept
    assert "line  50" not in kept


class FakeClient:
    """Keeps what was submitted, and the files of its packages, which are there for that moment only."""

    def submit_job(self, **job: Any) -> str:
        self.job = job
        packages = [Path(path) for path in job["runtime_env"].get("py_modules", ())]
        self.files = {
            f"{package.name}/{file.name}": file.read_text() for package in packages for file in package.iterdir()
        }
        return "job-1"


def test_modules_from_elsewhere_go_along_as_packages(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    (elsewhere / "large").mkdir(parents=True)
    (elsewhere / "large" / "deep.py").write_text("2")
    (elsewhere / "small.py").write_text("1")
    here.mkdir()
    for name in ("search.toml", "beside.py"):
        (here / name).touch()
    client = FakeClient()
    submit(
        here / "search.toml", client=client, modules=[elsewhere / "large", elsewhere / "small.py", here / "beside.py"]
    )
    assert client.files == {"large/deep.py": "2", "small/__init__.py": "1"}
    assert client.job["runtime_env"]["py_modules"][0] == str(elsewhere / "large")


def test_a_submitted_search_takes_its_folder_along(tmp_path: Path) -> None:
    file = tmp_path / "my search.toml"
    file.touch()
    client = FakeClient()
    assert submit(file, ["--seed", "3"], client=client) == "job-1"
    assert client.job == {
        "entrypoint": "nas search 'my search.toml' --seed 3",
        "runtime_env": {"working_dir": str(tmp_path)},
    }
    with pytest.raises(ValueError, match="is not in"):
        submit(file, folder=tmp_path / "other", client=client)
    with pytest.raises(ValueError, match="no such file"):
        submit(tmp_path / "missing.toml", client=client)

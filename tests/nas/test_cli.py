"""The command line: answers in a documented form, errors in one paragraph, exit codes with a meaning."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from nas import cli, listing, session
from nas.answers import FORM, retrain_answer
from nas.controller import Ending
from nas.errors import CapacityError, StorageError
from nas.exporting import Exported
from nas.retrain import RetrainResult
from nas.study import load
from nas.trial import Outcome
from search_spaces import SPACES, Choice, Float, Registry, Repeat, SearchSpace
from tests.nas import recorded

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
DRY = ["--set", "cluster.executor=simulated", "--set", "search.trainer=synthetic", "--trials", "5"]


@pytest.fixture
def nas(monkeypatch, capsys):
    """Run a command in this process; return its exit code, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["nas", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.write(Path("study"), recorded.small())
    return Path("study")


def golden(name, answer):
    """Compare with the golden file; NAS_GOLDEN=write renews it, to be read in the diff."""
    path = GOLDEN / f"{name}.json"
    if os.environ.get("NAS_GOLDEN") == "write":
        path.write_bytes(orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    assert answer == orjson.loads(path.read_bytes())


# Answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "best", "report"])
def test_answers_have_the_golden_form(nas, study, command):
    code, out, err = nas(command, study, "--json", "answer.json")
    assert (code, err) == (0, "")
    assert out.strip()
    golden(command, orjson.loads(Path("answer.json").read_bytes()))


def test_an_open_study_has_the_golden_form(nas, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.write(Path("study"), recorded.small(closed=False))
    code, out, _ = nas("status", "study", "--json", "answer.json")
    assert code == 0
    assert "go on with: nas resume study" in out
    golden("status_open", orjson.loads(Path("answer.json").read_bytes()))


def test_retrained_has_the_golden_form():
    metrics = ({"test_accuracy": 0.98, "parameters": 800}, {"test_accuracy": 0.96, "parameters": 800})
    spread = {"test_accuracy": 0.01, "parameters": 0.0}
    result = RetrainResult(
        3, metrics, {"test_accuracy": 0.97, "parameters": 800.0}, spread, 12.3456, Path("study/retrain")
    )
    golden("retrain", {"form": FORM, "folder": "study", **retrain_answer(result)})


def test_one_seed_has_no_standard_error_that_json_could_not_hold():
    result = RetrainResult(3, ({"a": 1.0},), {"a": 1.0}, {"a": float("nan")}, 1.0, Path("x"))
    assert retrain_answer(result)["standard_error"] == {"a": "nan"}


def test_the_version_is_that_of_the_package(nas):
    code, out, _ = nas("--version")
    assert code == 0
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert out.split() == [project["name"], project["version"]]


def test_spaces_are_listed_with_their_size(nas, tmp_path):
    code, out, _ = nas("spaces", "--json", tmp_path / "answer.json")
    assert code == 0
    answer = orjson.loads((tmp_path / "answer.json").read_bytes())
    assert set(answer) == {"form", "spaces"}
    for space in answer["spaces"]:
        assert set(space) == _SPACE_KEYS
        assert space["origin"] == "built in"
        assert space["name"] in out
    assert [space["name"] for space in answer["spaces"]] == SPACES.names()


_SPACE_KEYS = {"name", "source", "origin", "description", "decisions", "values", "floats", "size", "log10_size"}


def test_listed_spaces_have_the_golden_form(nas, tmp_path, monkeypatch):
    points = {
        "broken": _Broken(),
        "huge": _Point(_Huge),
        "rates": _Point(_Rates),
        "number": _Point(3),
        "exits": _Exits(),
    }
    registry = Registry("space", "no.such.group", {"mlp": "search_spaces.mlp:MLP"})
    registry.__dict__.update(installed=points, hidden={"mlp": _Point(_Huge, "mlp")})
    monkeypatch.setattr(listing, "SPACES", registry)
    code, out, _ = nas("spaces", "--json", tmp_path / "answer.json")
    assert code == 0
    golden("spaces", orjson.loads((tmp_path / "answer.json").read_bytes()))
    for said in ("about 1.0e40", "3 x 2 floats", "their-spaces 1.2", "no such thing", "built in", "rename the entry"):
        assert said in " ".join(out.split())


class _Huge(SearchSpace):
    """Forty digits."""

    decisions = {f"digit{at}": Choice(*range(10)) for at in range(40)}


class _Rates(SearchSpace):
    """Two real numbers."""

    decisions = {"width": Choice(1, 2, 3), "rate": Repeat(2, {"value": Float(0.1, 1.0)})}


class _Point:
    def __init__(self, found, name="") -> None:
        self.found, self.name, self.value = found, name, "their_spaces:Space"
        self.dist = SimpleNamespace(name="their-spaces", version="1.2")

    def load(self):
        return self.found


def test_a_broken_plug_in_is_named_and_disturbs_no_other(nas, monkeypatch):
    monkeypatch.setitem(SPACES.__dict__, "installed", {"broken": _Broken()})
    found = {space["name"]: space for space in listing.spaces()}
    assert "no such thing" in found["broken"]["error"]
    assert found["mlp"]["size"] > 1
    assert nas("spaces")[0] == 0


class _Exits:
    value = "script:Space"

    def load(self):
        raise SystemExit("I am a script")


class _Broken:
    value = "package:Space"

    def load(self):
        raise ImportError("no such thing")


def test_status_tells_what_failed(nas, study):
    _, out, _ = nas("status", study)
    assert "4 trials (2 completed, 1 error, 1 stopped; 1 rejected, 1 duplicate)" in out
    assert "bad <i>activation</i> & more" in out
    assert "0.9700" in out


def test_json_may_go_to_a_pipe(study):
    done = subprocess.run(
        [sys.executable, "-m", "nas", "best", "study", "--json", "/dev/stderr"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert orjson.loads(done.stderr)["best"]["trial"] == 0


# A search by the command ------------------------------------------------------------------------------------------


def test_a_search_leaves_record_summary_and_report(nas, tmp_path):
    folder, answer = tmp_path / "study", tmp_path / "answer.json"
    code, out, err = nas("search", *DRY, "--seed", "3", "--dir", folder, "--json", answer)
    assert (code, err) == (0, "")
    assert f"nas best {folder}" in out
    assert "nas retrain" not in out  # nothing was trained
    assert "Pareto front at" in out
    assert {"events.jsonl", "summary.json", "report.html"} <= {path.name for path in folder.iterdir()}
    summary = orjson.loads((folder / "summary.json").read_bytes())
    assert orjson.loads(answer.read_bytes()) == {"folder": str(folder), **summary}
    needed = {"seconds", "device_hours", "seed", "trials", "rejected", "duplicates", "best", "front"}
    assert needed <= set(summary)
    assert (summary["seed"], sum(summary["trials"].values())) == (3, 5)
    assert {"trial", "objectives", "key"} <= set(summary["best"])
    assert summary["best"] in summary["front"]

    code, _, err = nas("search", *DRY, "--dir", folder)
    assert code == 2
    assert f"nas resume {folder}" in err
    code, out, _ = nas("resume", folder, "--set", "search.trials=7")
    assert code == 0
    assert sum(orjson.loads((folder / "summary.json").read_bytes())["trials"].values()) == 7
    code, _, err = nas("resume", folder, "--set", "search.seed=4")
    assert code == 2
    assert "search.seed is 3" in err


def test_without_a_folder_a_fresh_one_is_made_under_runs(nas, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [nas("search", *DRY)[0], nas("search", *DRY)[0]] == [0, 0]
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.parametrize("exit_code", [0, 3, 4, 130, 143])
def test_the_exit_code_is_that_of_the_ending(nas, tmp_path, monkeypatch, exit_code):
    study = recorded.write(tmp_path / "study", recorded.small())
    monkeypatch.setattr(session, "run", lambda config, folder, watch: Ending("a reason", exit_code, study))
    code, out, _ = nas("search", "--dir", tmp_path / "study2")
    assert code == exit_code
    assert "a reason" in out
    assert ("nas resume" in out) == (exit_code != 0)


def test_a_session_without_anything_to_do_says_so(nas, tmp_path):
    folder = tmp_path / "study"
    assert "Nothing was left to do" not in nas("search", *DRY, "--dir", folder)[1]
    code, out, _ = nas("resume", folder)
    assert code == 0
    assert f"had used up its budget. Go on by: nas resume {folder} --set search.trials=10" in " ".join(out.split())
    assert "Nothing was left to do" not in nas("resume", folder, "--set", "search.trials=10")[1]
    out = nas("resume", folder, "--set", "search.trials=2", "--set", "search.hours=0.0001")[1]
    trials, hours = re.search(r"--set search\.trials=(\d+) --set search\.hours=(\S+)", out).groups()
    assert int(trials) == 20
    assert float(hours) == pytest.approx(2 * load(folder).seconds / 3600, rel=1e-4)
    advised = ["--set", f"search.trials={trials}", "--set", f"search.hours={hours}"]
    assert "Nothing was left to do" not in nas("resume", folder, *advised)[1]
    (tmp_path / "small.toml").write_text(
        "[search]\nspace = 'mlp'\ntrainer = 'synthetic'\nstrategy = 'exhaustive'\ntrials = 500\n[space]\ndepth = 1\n"
        "widths = [8]\n[fidelity]\nrule = 'none'\nmax = 3\n[objectives]\nval_accuracy = 'maximize'\n"
        "[cluster]\nexecutor = 'simulated'\n"
    )
    folder = tmp_path / "small"
    code, out, err = nas("search", tmp_path / "small.toml", "--dir", folder)
    assert code == 0, err
    assert "exhausted" in out
    tried = load(folder).launched
    for resumed in (["resume", folder], ["resume", folder, "--set", f"search.trials={tried}"]):
        assert "a larger budget would not change that" in " ".join(nas(*resumed)[1].split())
    begun = tmp_path / "begun"
    nas("search", tmp_path / "small.toml", "--trials", tried - 1, "--dir", begun)
    assert f"--set search.trials={tried}\n" in nas("resume", begun)[1]


def test_a_plan_that_never_fits_is_refused_before_anything_is_made(nas, tmp_path):
    folder = tmp_path / "study"
    code, _, err = nas("search", *DRY, "--set", "trial.plan=data=16", "--dir", folder)
    assert code == 5
    assert "takes 16 devices" in err
    assert not folder.exists()
    assert nas("search", *DRY, "--dir", folder)[0] == 0
    before = (folder / "events.jsonl").read_bytes()
    code, _, err = nas("resume", folder, "--set", "trial.plan=data=16", "--set", "search.trials=7")
    assert code == 5
    assert (folder / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("command", [["status"], ["best"], ["status", "--json", "/dev/stdout"], ["--help"], ["search"]])
def test_a_command_without_a_reader_does_its_work_quietly(study, command):
    """As ``nas status study | true``: the pipe has no reader from the start."""
    where = {"--help": [], "search": [*DRY, "--dir", "new"]}.get(command[0], ["study"])
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "nas", command[0], *where, *command[1:]]
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=Path.cwd(), check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert command[0] != "search" or load(Path("new")).closed == "5 trials"


CHATTY = """
import sys
def train(candidate, context):
    print("trial", flush=True)
    sys.stdin.readline()
    for stream in (sys.stdout, sys.stderr):
        print("nobody reads this", file=stream, flush=True)
    context.report(context.until, {"val_accuracy": 0.5})
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_search_outlives_the_reader_of_its_display(tmp_path, unbuffered):
    """As ``nas search 2>&1 | tee log`` whose tee dies while a trial of this process runs and prints."""
    (tmp_path / "chatty.py").write_text(CHATTY)
    own = ["--set", "search.trainer=chatty:train", "--set", "cluster.executor=inline", "--set", "fidelity.rule=none"]
    with subprocess.Popen(
        [sys.executable, "-m", "nas", "search", *own, "--trials", "3", "--dir", "study"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
    ) as running:
        assert any(b"trial" in line for line in iter(running.stdout.readline, b""))
        running.stdout.close()
        running.stdin.write(b"\n" * 3)
        running.stdin.close()
        assert running.wait(60) == 0
    found = load(tmp_path / "study")
    assert found.closed == "3 trials"
    assert found.counts() == {Outcome.COMPLETED: 3}


# Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(StorageError("disk full: 12 bytes"), 4), (CapacityError("takes 8 devices"), 5), (KeyboardInterrupt(), 130)],
)
def test_errors_have_their_exit_code_and_no_traceback(nas, tmp_path, monkeypatch, error, exit_code):
    def fail(config, folder, watch):
        raise error

    monkeypatch.setattr(session, "run", fail)
    code, _, err = nas("search", "--dir", tmp_path / "study")
    assert code == exit_code
    assert str(error) in err
    assert "Traceback" not in err


def test_a_fault_of_ours_is_said_to_be_one(nas, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "run", lambda config, folder, watch: 1 // 0)
    code, _, err = nas("search", "--dir", tmp_path / "study")
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "NAS_TRACEBACK=1" in err
    monkeypatch.setenv("NAS_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["nas", "search", "--dir", str(tmp_path / "study")])
    with pytest.raises(ZeroDivisionError):
        cli.main()


@pytest.mark.parametrize("command", ["status", "best", "report", "resume", "export"])
def test_a_folder_without_a_study_is_named(nas, tmp_path, command):
    code, _, err = nas(command, tmp_path)
    assert code == 2
    assert f"{tmp_path}: no study here" in err


@pytest.mark.parametrize("name", ["trainers", "cluster"])
def test_a_folder_of_the_user_with_a_name_of_ours_is_named(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "nas", "spaces"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert f"{tmp_path / name} hides our package {name} in {ROOT / name}; rename it" in done.stderr


def test_a_study_goes_into_a_folder(nas, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = nas("search", "--dir", tmp_path / "file")
    assert code == 2
    assert "this is a file" in err


def test_there_may_be_no_best(nas, tmp_path):
    recorded.write(tmp_path, recorded.small()[:2])
    code, _, err = nas("best", tmp_path)
    assert code == 2
    assert "there is no best trial" in err
    assert nas("status", tmp_path)[0] == 0


@pytest.mark.parametrize("arguments", [["serch"], ["search", "--trails", "3"], ["search", "--trials", "x"], ["status"]])
def test_wrong_options_are_a_wrong_configuration(nas, arguments):
    assert nas(*arguments)[0] == 2


def test_a_trial_that_is_not_there_is_named(nas, study):
    code, _, err = nas("export", study, "--trial", "99")
    assert code == 2
    assert "has trials 0 to 5" in err
    code, _, err = nas("export", study)
    assert code == 2
    assert "nas retrain study --trial 0" in err


def test_exported_has_the_golden_form():
    exported = Exported(
        3, True, 4096, Path("study/retrain/00003/trials/00000/checkpoints/27.ckpt"), Path("study/export")
    )
    golden("export", {"form": FORM, "folder": "study", **exported.plain()})

"""The README's own search space, task and training function, run as they are printed."""

import re
import sys
from pathlib import Path

import pytest

import nas
from nas.checking import check_code

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def snippet(heading):
    """The Python of a section."""
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def module(tmp_path, monkeypatch):
    parts = [snippet(f"Your own {part}") for part in ("search space", "task", "training function")]
    (tmp_path / "my_search.py").write_text("\n".join(parts), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_search"
    sys.modules.pop("my_search", None)


@pytest.mark.parametrize("trainer", ["supervised", "my_search:train"])
def test_own_space_task_and_training_function(module, trainer, tmp_path):
    study = nas.search(
        folder=tmp_path / "study",
        search={"space": "my_search:Perceptron", "task": "my_search:Wine", "trainer": trainer, "trials": 4},
        objectives={"val_accuracy": "maximize", "parameters": "minimize"},
        hyperparameters={"learning_rate": [0.1, 0.2]},
        fidelity={"rule": "asha", "min": 9, "max": 27},
        cluster={"executor": "inline"},
    )
    assert study.counts().keys() <= {"completed", "stopped"}
    assert study.launched == 4
    assert study.best().metrics["val_accuracy"] > 0.6


@pytest.mark.parametrize("name", ["Perceptron", "Wine", "train"])
def test_what_is_printed_passes_the_suite_of_its_kind(module, name):
    checked = check_code(f"{module}:{name}")
    assert checked.findings == ()
    assert len(checked.checks) >= 6


def test_the_configuration_is_one():
    from nas.config import SearchConfig
    from nas.config_check import check
    from nas.config_text import complete, parse

    plain = complete(parse(re.search(r"```toml\n(.*?)```", README, re.DOTALL)[1].encode()))
    config = SearchConfig.from_plain(plain)
    check(config)
    assert config.search.trials == 60

"""What a submitted search takes along: plug-ins by module:name, and the modules that the cluster does not have."""

import sys
from types import SimpleNamespace

import pytest

from nas.config_text import load_config
from nas.static_stage import STATIC_METRICS
from nas.submission import needs
from search_spaces import SPACES

SOURCE = """
from search_spaces.mlp import MLP


class Far(MLP):
    pass


def measure(candidate, network, signature):
    return {"a": 1}
"""


@pytest.fixture
def far(tmp_path, monkeypatch):
    (tmp_path / "far_away.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for registry, name in ((SPACES, "Far"), (STATIC_METRICS, "measure")):
        point = SimpleNamespace(
            module="far_away", attr=name, load=lambda name=name: vars(sys.modules["far_away"])[name]
        )
        monkeypatch.setitem(registry.__dict__, "installed", {"far": point})
    __import__("far_away")
    yield tmp_path / "far_away.py"
    for registry in (SPACES, STATIC_METRICS):
        registry._loaded.pop("far", None)
    sys.modules.pop("far_away")


def test_the_main_job_needs_nothing():
    assert needs(load_config()) == ([], [])


def test_plug_ins_go_by_module_and_name_and_take_their_files_along(far):
    config = load_config(None, ["search.space=far", 'search.static_metrics=["far", "far_away:measure"]'])
    settings, modules = needs(config)
    assert settings == [
        "search.space=far_away:Far",
        'search.static_metrics=["far_away:measure", "far_away:measure"]',
    ]
    assert modules == [far]
    again = load_config(None, ["search.space=far", *settings])
    assert needs(again) == ([], [far])

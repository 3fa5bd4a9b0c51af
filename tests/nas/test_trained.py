"""Whether a search trained networks, asked of its trainer."""

import sys
from types import ModuleType

import pytest

from nas.config_text import load_config
from nas.errors import StudyError
from nas.trained import check_trained, trained
from tests.nas import recorded


def study(folder, trainer):
    config = load_config(None, [f"search.trainer={trainer}"] if trainer else [])
    opened = {"event": "opened", "at": 0.0, "config": config.to_plain()}
    return recorded.write(folder, [recorded.header(config), opened])


@pytest.fixture
def own(monkeypatch):
    """A module of the user with two trainers, one of which trains, what is no network."""
    module = ModuleType("my_trainers")

    def reads(candidate, context):
        context.report(context.until, {"val_accuracy": 0.5})

    def trains(candidate, context):
        context.report(context.until, {"val_accuracy": 0.5})

    reads.trains = False
    trains.builds = False
    module.reads, module.trains = reads, trains
    monkeypatch.setitem(sys.modules, "my_trainers", module)


@pytest.mark.parametrize("trainer", ["synthetic", "trainers.synthetic:Synthetic", "my_trainers:reads"])
def test_a_trainer_says_that_it_trains_nothing(tmp_path, own, trainer):
    found = study(tmp_path, trainer)
    assert not trained(found)
    with pytest.raises(StudyError, match=f"search.trainer = '{trainer}', which trains nothing"):
        check_trained(found)


@pytest.mark.parametrize("trainer", [None, "my_trainers:trains"])
def test_any_other_trains(tmp_path, own, trainer):
    check_trained(study(tmp_path, trainer))


def test_a_trainer_that_is_gone_is_taken_to_train(tmp_path):
    records = recorded.small()
    for record in records[:2]:
        record["config"]["search"]["trainer"] = "no_such_module:train"
    check_trained(recorded.write(tmp_path, records))

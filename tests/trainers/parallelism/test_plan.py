"""Plans as text, and which of them a trial can be trained under."""

import pytest

from trainers.parallelism import plan as plan_module
from trainers.parallelism.axes import AXES
from trainers.parallelism.plan import Plan


def test_a_plan_is_read_back_from_its_text():
    assert Plan.parse("data=2") == Plan(data=2)
    assert Plan.parse(str(Plan(data=4))) == Plan(data=4)
    assert Plan.parse(str(Plan(pipeline=2))) == Plan(pipeline=2)
    assert Plan.parse("") == Plan() == Plan.parse("data=1, tensor=1, micro_batches=1")
    assert (
        str(Plan(data=2, pipeline=4, micro_batches=8, recompute=True)) == "data=2,pipeline=4,micro_batches=8,recompute"
    )


def test_a_pipeline_has_two_micro_batches_a_stage_unless_the_plan_says_more():
    assert Plan.parse("data=2,pipeline=3") == Plan(data=2, pipeline=3, micro_batches=6)
    assert str(Plan.parse("pipeline=2")) == "pipeline=2,micro_batches=4"
    assert Plan.parse("pipeline=2,micro_batches=1") == Plan(pipeline=2)


def test_micro_batches_take_no_devices():
    assert Plan(2, 2, 2, 2, micro_batches=8).width == 16


@pytest.mark.parametrize("text", ["tensor=2", "shard=2", "pipeline=2,tensor=2", "recompute"])
def test_what_cannot_be_applied_is_refused_where_it_is_asked_for(text):
    with pytest.raises(ValueError, match="cannot be applied yet; installed: data, pipeline"):
        Plan.parse(text)


def test_micro_batches_without_a_pipeline_are_refused():
    with pytest.raises(ValueError, match="only a pipeline takes a batch in parts; add pipeline=2"):
        Plan.parse("data=2,micro_batches=4")


@pytest.mark.parametrize("text", ["data", "data=x", "data=-1", "depth=2", "data=2;tensor=1"])
def test_what_is_no_plan_names_the_axes(text):
    with pytest.raises(ValueError, match="one of data, shard, tensor, pipeline"):
        Plan.parse(text)


@pytest.mark.parametrize("degrees", [{"data": 0}, {"tensor": 1.5}, {"micro_batches": 0}])
def test_a_degree_is_a_positive_integer(degrees):
    with pytest.raises(ValueError, match="an integer of at least 1"):
        Plan(**degrees)


def test_every_axis_has_its_file_and_those_that_trials_apply_say_how():
    assert set(AXES) == set(plan_module.AXES)
    assert all(axis.EXCHANGES and callable(axis.split) for axis in AXES.values())
    assert {name for name, axis in AXES.items() if hasattr(axis, "apply")} == set(plan_module.INSTALLED_AXES)

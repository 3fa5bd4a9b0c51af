"""What follows a failure, under which plan."""

import pytest

from nas.outcomes import next_attempt
from trainers import Failure, FailureKind, Plan

FULL = Failure(FailureKind.OUT_OF_MEMORY, "no more memory")


@pytest.mark.parametrize(
    ("plan", "devices", "then"),
    [
        ("data=1", 2, "data=2"),
        ("data=1", 1, None),
        ("pipeline=2", 4, "data=2,pipeline=2,micro_batches=4"),
        ("pipeline=2", 3, "pipeline=2,micro_batches=8"),
    ],
)
def test_after_memory_ran_out_a_device_holds_less(plan, devices, then):
    attempt = next_attempt([], FULL, Plan.parse(plan), devices)
    assert (attempt and str(attempt.plan)) == then
    assert next_attempt([FULL], FULL, Plan.parse(plan), devices) is None

"""The cause of a gang's end among its effects."""

import pytest

from cluster.verdict import blame, follows
from trainers import Failure, FailureKind

CAUSE = Failure(FailureKind.ERROR, "index 7 is out of range", error="IndexError")
DEATH = Failure(FailureKind.CRASHED, "the worker process died")


@pytest.mark.parametrize(
    "effect",
    [
        Failure(FailureKind.ERROR, "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:7"),
        Failure(FailureKind.ERROR, "[Rank 0] Read timeout [/gloo/transport/tcp/unbound_buffer.cc:81]"),
        Failure(FailureKind.ERROR, "NCCL error: ncclRemoteError: remote process exited"),
        Failure(FailureKind.ERROR, "wait timeout after 300ms, keys: /x", error="DistStoreError"),
        Failure(FailureKind.CRASHED, "rank 1 did not come within 30 s", error="RendezvousError"),
        Failure(FailureKind.CANCELLED, ""),
    ],
)
@pytest.mark.parametrize("cause", [CAUSE, DEATH])
def test_an_effect_is_never_blamed_where_a_cause_is_known(effect: Failure, cause: Failure) -> None:
    assert follows(effect)
    assert blame([(0, effect), (1, cause)]) == (1, cause)
    assert blame([(1, cause), (0, effect)]) == (1, cause)


def test_of_several_causes_the_first_is_blamed_and_an_effect_alone_is() -> None:
    assert blame([(2, CAUSE), (0, DEATH)]) == (2, CAUSE)
    effect = Failure(FailureKind.CANCELLED, "")
    assert blame([(0, effect)]) == (0, effect)

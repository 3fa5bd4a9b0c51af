"""Which of a gang's errors is the cause, and which only follow from it."""

import re
from collections.abc import Sequence

from trainers import Failure, FailureKind

_DISTRIBUTED_ERRORS = {
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "RendezvousError",
}
_CLOSED = re.compile(
    r"connection (was )?(closed|reset|refused|aborted)|broken pipe|socket timeout|connectFullMesh"
    r"|\[[^\]]*gloo/transport|ncclRemoteError|ncclSystemError|remote process exited",
    re.IGNORECASE,
)


def blame(failures: Sequence[tuple[int, Failure]]) -> tuple[int, Failure]:
    """Return the rank and failure that came first of those that are no mere effect of another's.

    ``failures`` are (rank, failure) in the order in which they became known. When a rank fails, its peers see a
    closed connection, often before the cause is known here; or they are halted with it.
    """
    return min(failures, key=lambda item: follows(item[1]))


def follows(failure: Failure) -> bool:
    """Whether a failure looks like the effect of another rank's."""
    if failure.kind is FailureKind.CANCELLED or failure.error in _DISTRIBUTED_ERRORS:
        return True
    return failure.kind is FailureKind.ERROR and bool(_CLOSED.search(failure.message))

"""What the tests of several packages share."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# Property tests draw the same examples in every run, and are not failed by a busy machine.
settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """One local Ray of two devices for the whole session; executors join it with ``address="auto"``."""
    from cluster.ray_backend import RaySession

    session = RaySession("local", 2)
    yield
    session.close(5.0)

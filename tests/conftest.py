"""Property tests draw the same examples in every run, and are not failed by a busy machine."""

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")

"""The parallel axes: a file and a line here for each, in the order in which they split what those before left.

That is the order of the device mesh, from neighbours outwards, but for the pipeline, whose stages the states are of.
An axis has ``split``, which prices it, and ``EXCHANGES``, what its processes send in a step, in words; one that trials
can be split along has ``apply`` too, and its name in `plan.INSTALLED_AXES`.
"""

from collections.abc import Mapping
from types import ModuleType

from trainers.parallelism import data, pipeline, shard, tensor

AXES: Mapping[str, ModuleType] = {"tensor": tensor, "pipeline": pipeline, "shard": shard, "data": data}

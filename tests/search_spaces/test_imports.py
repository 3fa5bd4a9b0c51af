"""Declaring, sampling and listing spaces loads no heavy library."""

import subprocess
import sys

PROGRAM = """
import sys
import search_spaces
assert "numpy" not in sys.modules, "a declaration needs no numpy"
for name in search_spaces.SPACES.names():
    space = search_spaces.SPACES.load(name)()
    space.size(), space.schema_hash()
import numpy
for name in search_spaces.SPACES.names():
    space = search_spaces.SPACES.load(name)()
    space.key(space.mutate(space.sample(numpy.random.default_rng(0)), numpy.random.default_rng(1)))
import search_spaces.conformance
print(*sorted({"torch", "ray", "optuna"} & set(sys.modules)))
"""


def test_declarations_load_neither_torch_nor_ray_nor_optuna():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []

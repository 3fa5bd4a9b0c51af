"""Random streams by number: what is drawn for one ask depends on no other ask.

A counter-based generator (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") keyed by (seed, number)
starts any stream at once, where seeding another generator costs more than a strategy's whole answer may.
"""

from typing import Any

import numpy as np
from numpy.random import Generator, Philox

_MASK = 2**64 - 1


class Streams:
    """Streams of ``seed``. One is in use at a time: asking for the next ends the one before."""

    def __init__(self, seed: int) -> None:
        self._bits = Philox(0)
        self._generator = Generator(self._bits)
        self._state: Any = dict(self._bits.state)
        self._key = np.array((seed & _MASK, 0), dtype=np.uint64)
        self._state["state"] = {"counter": np.zeros(4, dtype=np.uint64), "key": self._key}

    def at(self, number: int) -> Generator:
        """Stream ``number`` from its beginning."""
        self._key[1] = number
        self._bits.state = self._state
        return self._generator

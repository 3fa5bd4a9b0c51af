"""Candidates around others, with their rows: what an acquisition is maximised over."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.random import Generator

from nas.surrogate import Array
from search_spaces import Candidate, CandidateSpace
from search_spaces.encoding import Encoding

_MOST_NEIGHBOURS = 64
_DRAWN = 24
_SPREADS = (0.2, 0.05, 0.0125, 0.003)
_NUDGES = 4
_KEPT = 256
_TRIES = 100


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates, their rows [n, columns + features], and the trial that each was made from."""

    candidates: list[Candidate]
    rows: Array
    parents: list[int | None]

    def of(self, parent: int | None) -> "Pool":
        """The same, made from ``parent``."""
        return replace(self, parents=[parent] * len(self.candidates))

    @classmethod
    def joined(cls, pools: Sequence["Pool"]) -> "Pool":
        """All of several."""
        return cls(
            [candidate for pool in pools for candidate in pool.candidates],
            np.concatenate([pool.rows for pool in pools]),
            [parent for pool in pools for parent in pool.parents],
        )


class Neighbourhood:
    """Neighbours, mutants and strangers of a space. A row is that of `Encoding`, then the space's own features.

    ``continuous`` says that some decision is a number of more values than are told apart.
    """

    def __init__(self, space: CandidateSpace) -> None:
        self._space = space
        self._encoding = Encoding(space)
        self._features = lru_cache(maxsize=2**16)(space.space.features)
        self._listed: OrderedDict[bytes, Pool | None] = OrderedDict()
        self.columns = self._encoding.columns
        self.continuous = any(column.number and not column.levels for column in self.columns)
        first = self._space.sample(np.random.default_rng(0)).architecture
        self.features = [len(group) for group in self._features(first)]

    def row(self, candidate: Candidate) -> Array:
        """The row of one candidate."""
        row = self._encoding.row(candidate)
        if self.features:
            row = np.concatenate([row, *self._features(candidate.architecture)])
        return row

    def neighbours(self, candidate: Candidate, rng: Generator) -> Pool:
        """All that differ in one decision with few values; 24 of them where there are more than 64.

        Beside them, where a decision is a continuum, candidates whose numbers moved by steps of several sizes.
        """
        pool = self._listed_neighbours(candidate)
        if pool is None:
            pool = self._pool(self._space.mutate(candidate, rng) for _ in range(_DRAWN))
        return Pool.joined([pool, self._nudged(candidate, rng)]) if self.continuous else pool

    def _listed_neighbours(self, candidate: Candidate) -> Pool | None:
        """All neighbours; None where they are too many."""
        if self._space.fewest_neighbours(candidate) > _MOST_NEIGHBOURS:
            return None
        key = self.row(candidate).tobytes()
        if key not in self._listed:
            found = list(islice(self._space.neighbours(candidate), _MOST_NEIGHBOURS + 1))
            self._listed[key] = None if len(found) > _MOST_NEIGHBOURS else self._pool(found)
            if len(self._listed) > _KEPT:
                self._listed.popitem(last=False)
        self._listed.move_to_end(key)
        return self._listed[key]

    def _nudged(self, candidate: Candidate, rng: Generator) -> Pool:
        return self._pool(self._space.nudge(candidate, spread, rng) for spread in _SPREADS for _ in range(_NUDGES))

    def mutants(self, candidate: Candidate, count: int, rng: Generator) -> Pool:
        """Candidates two or three mutations away."""
        return self._pool(self._mutant(candidate, 2 + at % 2, rng) for at in range(count))

    def strangers(self, count: int, rng: Generator) -> Pool:
        """Random candidates."""
        return self._pool(self._space.sample(rng) for _ in range(count))

    def stranger(self, taken: dict[bytes, None], rng: Generator) -> Candidate:
        """A random candidate that is not ``taken``, if 100 draws give one."""
        for _ in range(_TRIES):
            candidate = self._space.sample(rng)
            if self.row(candidate).tobytes() not in taken:
                break
        return candidate

    def _mutant(self, candidate: Candidate, steps: int, rng: Generator) -> Candidate:
        for _ in range(steps):
            candidate = self._space.mutate(candidate, rng)
        return candidate

    def _pool(self, candidates: Iterable[Candidate]) -> Pool:
        made = list(candidates)
        rows = np.array([self.row(candidate) for candidate in made])
        return Pool(made, rows.reshape(len(made), len(self.columns) + sum(self.features)), [None] * len(made))

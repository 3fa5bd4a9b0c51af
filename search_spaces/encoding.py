"""Candidates as rows of numbers: what surrogates learn from.

A row has a column for each decision of the space and each hyperparameter. An option without order is its place; an
ordered one, an integer and a float stand between 0 and 1 (by place, or by their scale), as does one of more than 1,000
options, whose declaration is then taken for an order; a decision that does not apply is NaN.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import isinf, log, log1p, nan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from search_spaces.candidate import Candidate, CandidateSpace
from search_spaces.choice import Choice
from search_spaces.decision import Leaf
from search_spaces.layout import Slot
from search_spaces.numeric import Float, Integer
from search_spaces.values import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_LEVELS = 64
_MOST_CATEGORIES = 1_000

Rows: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class Column:
    """One decision in a row.

    ``options`` is the number of options without order, 0 for places between 0 and 1; ``levels`` are all these places,
    increasing, empty where they are a continuum or more than 64; ``conditional`` says that the column may be NaN,
    ``number`` that it can be nudged (`Domain.numbers`).
    """

    name: str
    options: int
    levels: tuple[float, ...]
    conditional: bool
    number: bool = False


class Encoding:
    """Rows of the candidates of ``space``: float64 [candidates, columns], architecture first."""

    def __init__(self, space: CandidateSpace) -> None:
        domains = [space.space.domain, *([space.hyperparameters] if space.hyperparameters else [])]
        slots = [slot for domain in domains for slot in domain.slots]
        numbers = [{slot.index for slot in domain.numbers} for domain in domains]
        self.columns = tuple(
            _column(slot, slot.index in among)
            for domain, among in zip(domains, numbers, strict=True)
            for slot in domain.slots
        )
        leaves = {id(slot.decision): slot.decision for slot in slots}  # blocks that repeat have the same
        places = {key: _places(leaf) for key, leaf in leaves.items()}
        columns = [(slot.name, (at, places[id(slot.decision)])) for at, slot in enumerate(slots)]
        first = len(domains[0].slots)
        self._architecture, self._hyperparameters = dict(columns[:first]), dict(columns[first:])
        self._empty = [nan] * len(self.columns)

    def row(self, candidate: Candidate) -> "NDArray[np.float64]":
        """The row of one candidate, [columns]."""
        row = self._empty.copy()
        for name, value in candidate.architecture.items():
            at, place = self._architecture[name]
            row[at] = place(value)
        for name, value in candidate.hyperparameters.items():
            at, place = self._hyperparameters[name]
            row[at] = place(value)
        return np.array(row, dtype=np.float64)

    def rows(self, candidates: Iterable[Candidate]) -> Rows:
        """Rows of several."""
        rows = [self.row(candidate) for candidate in candidates]
        return np.array(rows).reshape(len(rows), len(self.columns))

    def one_hot(self, rows: Rows) -> Rows:
        """Rows in which an unordered decision has a column for each option, [candidates, wider].

        A decision that does not apply is 0 throughout; an ordered one has a second column that says it applies.
        """
        parts = []
        for at, column in enumerate(self.columns):
            values = rows[:, at]
            if column.options:
                parts.append((values[:, None] == np.arange(column.options)).astype(float))
            else:
                parts.append(np.stack([np.nan_to_num(values), np.isfinite(values)], axis=1))
        return np.concatenate(parts, axis=1)


def _column(slot: Slot, number: bool) -> Column:
    leaf = slot.decision
    unordered, options = _unordered(leaf), leaf.options
    finite = not unordered and leaf.count is not None and leaf.count <= _MOST_LEVELS
    return Column(
        slot.name,
        options=leaf.count or 0 if unordered else 0,
        levels=tuple(_place(leaf, option) for option in options or ()) if finite else (),
        conditional=bool(slot.conditions),
        number=number,
    )


def _unordered(leaf: Leaf) -> bool:
    return isinstance(leaf, Choice) and not leaf.ordered and len(leaf.options) <= _MOST_CATEGORIES


class _Known(dict[Value, float]):
    """Places of options; what is none of them `_place` refuses."""

    def __init__(self, leaf: Leaf, options: Iterable[Value]) -> None:
        super().__init__((option, _place(leaf, option)) for option in options)
        self._leaf = leaf

    def __missing__(self, value: Value) -> float:
        return _place(self._leaf, value)


def _places(leaf: Leaf) -> Callable[[Value], float]:
    """`_place` of ``leaf``, looked up where it has few options, of which no two are equal (as 1 and True are)."""
    options = leaf.options
    if options is None or (leaf.count or 0) > _MOST_CATEGORIES:
        return partial(_place, leaf)
    if any(isinstance(option, float | tuple) for option in options) or len(set(options)) < len(options):
        return partial(_place, leaf)
    return _Known(leaf, options).__getitem__


def _place(leaf: Leaf, value: Any) -> float:
    if isinstance(leaf, Choice):
        place = leaf.index(value)
        return place if _unordered(leaf) else place / max(1, len(leaf.options) - 1)
    if isinstance(leaf, Integer | Float):
        low, high = leaf.low, leaf.high
        if low == high:
            return 0.0
        if leaf.log:
            return _log_place(value, low, high)
        return float((value - low) / (high - low))
    raise TypeError(f"{type(leaf).__name__} has no place on a scale")


def _log_place(value: float, low: float, high: float) -> float:
    ratio = (high - low) / low
    if isinf(ratio):
        return (log(value) - log(low)) / (log(high) - log(low))
    return log1p((value - low) / low) / log1p(ratio)  # in differences: neighbours of a huge integer have the same float

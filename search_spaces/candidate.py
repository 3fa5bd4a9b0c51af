"""A candidate: architecture and hyperparameters, explored as one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from search_spaces.domain import Domain
from search_spaces.layout import nearest
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture, Value, Values

if TYPE_CHECKING:
    from numpy.random import Generator

_PARTS = ("architecture", "hyperparameters")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a trial trains: an architecture of the space, and the hyperparameters to train it with."""

    architecture: Architecture
    hyperparameters: Values = Values({})

    def __str__(self) -> str:
        return "; ".join(filter(None, map(str, (self.architecture, self.hyperparameters))))


@dataclass(frozen=True)
class CandidateSpace:
    """The joint genome that strategies see: decisions of the space and hyperparameters alike."""

    space: SearchSpace
    hyperparameters: Domain | None = None

    def sample(self, rng: "Generator") -> Candidate:
        """A random candidate: both parts as `Domain.sample`, independently."""
        architecture = self.space.sample(rng)
        hyperparameters = self.hyperparameters.sample(rng) if self.hyperparameters else Values({})
        return Candidate(architecture, hyperparameters)

    def mutate(self, candidate: Candidate, rng: "Generator") -> Candidate:
        """Change one decision of either part, each active decision that can change with the same chance."""
        if self.hyperparameters is None:
            return replace(candidate, architecture=self.space.mutate(candidate.architecture, rng))
        ours = self.space.domain.changeable(candidate.architecture)
        theirs = self.hyperparameters.changeable(candidate.hyperparameters)
        if rng.random() * (ours + theirs) < ours:
            return replace(candidate, architecture=self.space.mutate(candidate.architecture, rng))
        return replace(candidate, hyperparameters=self.hyperparameters.mutate(candidate.hyperparameters.plain(), rng))

    def nudge(self, candidate: Candidate, spread: float, rng: "Generator") -> Candidate:
        """Move numbers a little, as `Domain.nudge`: of one part or of both, each as often."""
        ours = bool(self.space.domain.numbers)
        theirs = self.hyperparameters is not None and bool(self.hyperparameters.numbers)
        part = int(rng.random() * 3) if ours and theirs else 2
        if ours and part != 1:
            candidate = replace(candidate, architecture=self.space.nudge(candidate.architecture, spread, rng))
        if theirs and part != 0:
            assert self.hyperparameters is not None
            values = self.hyperparameters.nudge(candidate.hyperparameters, spread, rng)
            candidate = replace(candidate, hyperparameters=values)
        return candidate

    def crossover(self, a: Candidate, b: Candidate, rng: "Generator") -> Candidate:
        """Uniform crossover of both parts, as `Domain.crossover`."""
        architecture = self.space.crossover(a.architecture, b.architecture, rng)
        if self.hyperparameters is None:
            return Candidate(architecture)
        return Candidate(architecture, self.hyperparameters.crossover(a.hyperparameters, b.hyperparameters, rng))

    def fewest_neighbours(self, candidate: Candidate) -> int:
        """A lower bound of their number, as `Domain.fewest_neighbours`."""
        fewest = self.space.domain.fewest_neighbours(candidate.architecture)
        if self.hyperparameters is None:
            return fewest
        return fewest + self.hyperparameters.fewest_neighbours(candidate.hyperparameters)

    def neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        """All candidates that differ in one decision, floats left out, as `Domain.neighbours`."""
        for architecture in self.space.neighbours(candidate.architecture):
            yield replace(candidate, architecture=architecture)
        if self.hyperparameters is not None:
            for values in self.hyperparameters.neighbours(candidate.hyperparameters):
                yield replace(candidate, hyperparameters=values)

    def size(self) -> int | float:
        """Number of candidates: exact, or infinity where there is a float with a range."""
        sizes = self.space.size(), self.hyperparameters.size() if self.hyperparameters else 1
        return inf if inf in sizes else sizes[0] * sizes[1]

    def check(self, candidate: Candidate) -> None:
        """Raise ValueError, with name, value and what is allowed, for what is no candidate of these parts."""
        self.space.check(candidate.architecture)
        if self.hyperparameters is not None:
            self.hyperparameters.check(candidate.hyperparameters)
        else:
            _refuse_hyperparameters(candidate.hyperparameters)

    def from_plain(self, plain: Mapping[str, Any]) -> Candidate:
        """Checked candidate from parsed JSON, ``{"architecture": {...}, "hyperparameters": {...}}``."""
        for part in plain:
            if part not in _PARTS:
                raise ValueError(f"candidate: {part!r} is no part of it; {nearest(part, dict.fromkeys(_PARTS))}")
        for part in _PARTS:
            if not isinstance(plain.get(part, {}), Mapping):
                raise ValueError(f"candidate: {part} = {plain[part]!r} must map names to values")
        architecture = self.space.from_plain(plain.get("architecture", {}))
        if self.hyperparameters is None:
            _refuse_hyperparameters(plain.get("hyperparameters", {}))
            return Candidate(architecture)
        return Candidate(architecture, self.hyperparameters.from_plain(plain.get("hyperparameters", {})))

    def to_plain(self, candidate: Candidate) -> dict[str, dict[str, Value]]:
        """Inverse of `from_plain`, ready for JSON."""
        return {
            "architecture": candidate.architecture.plain(),
            "hyperparameters": candidate.hyperparameters.plain(),
        }

    def canonical(self, candidate: Candidate) -> Candidate:
        """The candidate with the canonical form of its architecture."""
        return replace(candidate, architecture=self.space.canonical(candidate.architecture))

    def schema(self) -> dict[str, Any]:
        """Both declarations as plain JSON."""
        return {
            "space": self.space.schema(),
            "hyperparameters": self.hyperparameters.schema() if self.hyperparameters else None,
        }


def _refuse_hyperparameters(values: Mapping[str, Any]) -> None:
    if values:
        raise ValueError(f"hyperparameters.{next(iter(values))}: this search declares no hyperparameters")

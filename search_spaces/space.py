"""A search space: a declaration of decisions, and how a network is built from their values."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson

from search_spaces.decisions import Decision
from search_spaces.domain import Domain
from search_spaces.signature import Signature
from search_spaces.summed_cells import MOST_PATHS, Features, SummedCell
from search_spaces.values import Architecture, Value, Values

if TYPE_CHECKING:
    from numpy.random import Generator
    from torch.nn import Module


class SearchSpace:
    """Subclass it, give `decisions` (in the class, or in ``__init__`` where it has arguments) and `build`.

    Everything else follows from the declaration. ``build`` imports torch inside, or from a module beside the
    space, so that a space can be declared, sampled and listed without torch.

        class Tiny(SearchSpace):
            decisions = {"width": Choice(16, 32, 64, ordered=True)}

            def build(self, architecture, signature):
                from torch import nn

                width = architecture["width"]
                return nn.Sequential(
                    nn.Flatten(),
                    nn.Linear(signature.input.elements, width),
                    nn.ReLU(),
                    nn.Linear(width, signature.output.elements),
                )
    """

    decisions: Mapping[str, Decision]

    def build(self, architecture: Architecture, signature: Signature) -> "Module":
        """Build the network: [batch, *input shape] to [batch, *output shape].

        Weights come from torch's default generator. Raise `search_spaces.Infeasible` for an architecture that
        cannot be a network; any other exception is the space's error.
        """
        raise NotImplementedError(f"space {self.name} has no build(self, architecture, signature)")

    def canonical(self, architecture: Architecture) -> Architecture:
        """One representative of all architectures that build the same network; itself unless overridden.

        Cells that say what their operations are need none: `key` knows which of them are the same network.
        """
        return architecture

    def features(self, architecture: Architecture) -> Features:
        """Numbers that describe the network, for surrogate models, beside its decisions.

        In groups: a model learns how much each group matters, and begins with all alike, so let a number's standard
        deviation be about 1/2. The same sizes for every architecture, equal numbers for equal keys. Unless overridden
        those of all cells that say what their operations are: which sequences of operations lead through each, and half
        the number of each operation with weights.
        """
        return tuple(group for cell in self._cells for group in cell.features(architecture))

    def check_signature(self, signature: Signature) -> None:
        """Raise ValueError where the space has no network for ``signature``; needs no torch."""

    @property
    def name(self) -> str:
        """The class's name, used in messages and in the schema."""
        return type(self).__name__

    @cached_property
    def domain(self) -> Domain:
        """The decisions as a domain; ValueError naming space and decision where they are malformed."""
        decisions = getattr(self, "decisions", None)
        if decisions is None:
            raise ValueError(
                f"space {self.name} declares no decisions; give decisions = {{...}} in the class or in __init__"
            )
        return Domain(decisions, self.name)

    def sample(self, rng: "Generator") -> Architecture:
        """A random architecture, as `Domain.sample`."""
        return _architecture(self.domain.sample(rng))

    def mutate(self, architecture: Architecture, rng: "Generator") -> Architecture:
        """Change one decision, as `Domain.mutate`."""
        return _architecture(self.domain.mutate(architecture.plain(), rng))

    def nudge(self, architecture: Architecture, spread: float, rng: "Generator") -> Architecture:
        """Move numbers a little, as `Domain.nudge`."""
        return _architecture(self.domain.nudge(architecture.plain(), spread, rng))

    def crossover(self, a: Architecture, b: Architecture, rng: "Generator") -> Architecture:
        """Uniform crossover, as `Domain.crossover`."""
        return _architecture(self.domain.crossover(a.plain(), b.plain(), rng))

    def neighbours(self, architecture: Architecture) -> Iterator[Architecture]:
        """All architectures that differ in one decision, as `Domain.neighbours`."""
        return map(_architecture, self.domain.neighbours(architecture.plain()))

    def size(self) -> int | float:
        """Number of architectures, as `Domain.size`."""
        return self.domain.size()

    def check(self, architecture: Mapping[str, Value]) -> None:
        """Raise ValueError, with name, value and what is allowed, for what is no architecture of this space."""
        self.domain.check(architecture)

    def from_plain(self, plain: Mapping[str, Any]) -> Architecture:
        """Checked architecture from parsed JSON."""
        return _architecture(self.domain.from_plain(plain))

    def parse(self, text: str) -> Architecture:
        """Checked architecture from its text form; raises ValueError with the position or the name at fault."""
        return self.from_plain(Values.parse(text).plain())

    def schema(self) -> dict[str, Any]:
        """The declaration as plain JSON, read back by `Domain.from_schema`."""
        return {"space": self.name, **self.domain.schema()}

    def schema_hash(self) -> str:
        """Hash of `schema`, 32 hex digits."""
        return _digest(orjson.dumps(self.schema(), option=orjson.OPT_SORT_KEYS))

    def key(self, architecture: Architecture) -> str:
        """Hash of the network, 32 hex digits: equal for architectures that build the same one."""
        return _digest(self.network(architecture))

    def network(self, architecture: Architecture) -> bytes:
        """JSON that is equal for architectures that build the same network, as far as the space says it.

        The canonical form, in which cells that say what their operations are stand by their `canonical_form`.
        """
        canonical = self.canonical(architecture)
        if not self._cells:
            return canonical.json()
        inside = frozenset().union(*(cell.leaves for cell in self._cells))
        outside = {name: value for name, value in canonical.items() if name not in inside}
        forms = [cell.form(canonical) for cell in self._cells]
        return orjson.dumps([outside, forms], option=orjson.OPT_SORT_KEYS)

    @cached_property
    def _cells(self) -> "tuple[SummedCell, ...]":
        sums = {name: cell for name, cell in self.domain.cells.items() if cell.sums}
        return tuple(SummedCell(name, cell, MOST_PATHS // len(sums)) for name, cell in sums.items())


def _architecture(values: Values) -> Architecture:
    return Architecture(values.plain())


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()

"""Hard constraints as values: a name and a limit. Whoever measures the name judges the bound."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan

_FORM = re.compile(r"\s*(<=|>=)\s*([-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?)\s*")
_LARGEST = sys.float_info.max


class Infeasible(Exception):  # noqa: N818 - a verdict on a candidate, not an error
    """Raised by a space's ``build`` for an architecture that cannot be a network; its text is the reason."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``name <= limit`` or ``name >= limit``, e.g. ``Bound("parameters", "<=", 100_000)``.

    Raises ValueError for another relation, and for a limit that is no finite float.
    """

    name: str
    relation: str
    limit: float

    def __post_init__(self) -> None:
        if self.relation not in ("<=", ">="):
            raise ValueError(f'{self.name}: relation = {self.relation!r} must be "<=" or ">="')
        if not abs(self.limit) <= _LARGEST:
            raise ValueError(f"{self.name}: the limit of a constraint must be a finite number, at most {_LARGEST:.4g}")

    @classmethod
    def parse(cls, name: str, text: str) -> "Bound":
        """Read ``"<= 100_000"``; raise ValueError where it is no bound, or one beyond what a float can hold."""
        form = _FORM.fullmatch(text)
        if form is None:
            raise ValueError(f'{name} = {text!r}: a constraint is "<= NUMBER" or ">= NUMBER"')
        limit = float(form[2].replace("_", ""))
        if abs(limit) == inf:
            raise ValueError(
                f"{name} = {text!r}: the limit must be finite, at most {_LARGEST:.4g}; leave it out for none"
            )
        return cls(name, form[1], limit)

    def holds(self, value: float) -> bool:
        """Whether ``value`` keeps the bound; NaN never does."""
        return not isnan(value) and (value <= self.limit if self.relation == "<=" else value >= self.limit)

    def __str__(self) -> str:
        return f"{self.name} {self.relation} {self.limit:.15g}"


def broken(bounds: tuple[Bound, ...], metrics: Mapping[str, float]) -> list[str]:
    """One sentence for each bound that ``metrics`` breaks; a bound on a name not in ``metrics`` is not judged."""
    return [
        f"{bound.name} is {metrics[bound.name]:.15g}, the constraint is {bound}"
        for bound in bounds
        if bound.name in metrics and not bound.holds(metrics[bound.name])
    ]

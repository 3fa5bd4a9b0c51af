"""Constraints that no measured trial met: which they are, and how near the nearest trial came."""

from dataclasses import dataclass
from math import isnan

from nas.display import counted, number
from nas.study import Study
from search_spaces import Bound


@dataclass(frozen=True, slots=True)
class Unmet:
    """A constraint where no trial met all: how many of the ``of`` trials compared ``met`` it.

    ``nearest`` is the value nearest to its limit and ``trial`` whose that is, both None where no value was a number.
    """

    by: str
    met: int
    of: int
    nearest: float | None
    trial: int | None

    def __str__(self) -> str:
        some = f"met by {self.met:,} of {counted(self.of, 'measured trial')}"
        if self.nearest is None:
            return f"{self.by}: {some}, and measured as no number"
        if self.met:
            return f"{self.by}: {some}"
        return f"{self.by}: {some}; the nearest is {number(self.nearest)} (trial {self.trial})"


def unmet(study: Study) -> list[Unmet]:
    """All constraints, the least met first, where trials were measured and none met them together; else nothing."""
    if not study.objectives.constraints or not study.compared() or study.feasible():
        return []
    found = [_unmet(study, bound) for bound in study.objectives.constraints]
    return sorted(found, key=lambda one: one.met)


def explained(study: Study) -> list[str]:
    """The same as sentences, with the trial that came nearest to all; nothing where some trial met them."""
    found = unmet(study)
    if not found:
        return []
    alone = [one for one in found if not one.met]
    if alone:
        return [
            "No trial met this constraint:" if len(alone) == 1 else "No trial met these constraints:",
            *map(str, alone),
        ]
    nearest = min(study.compared(), key=lambda trial: (study.objectives.violation(trial.metrics), trial.number))
    broken = "; ".join(study.objectives.violations(nearest.metrics))
    return [
        "No trial met all constraints together:",
        *map(str, found),
        f"the nearest to all is trial {nearest.number}: {broken}",
    ]


def _unmet(study: Study, bound: Bound) -> Unmet:
    trials = study.compared()
    met = sum(bound.holds(trial.metrics[bound.name]) for trial in trials)
    values = [(trial.metrics[bound.name], trial.number) for trial in trials if not isnan(trial.metrics[bound.name])]
    if not values:
        return Unmet(str(bound), met, len(trials), None, None)
    sign = 1 if bound.relation == "<=" else -1
    value, number = min(values, key=lambda pair: (sign * pair[0], pair[1]))
    return Unmet(str(bound), met, len(trials), value, number)

"""What the static stage refused, and why: counts by constraint, with the nearest value that was seen."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan

from nas.display import counted, number
from nas.study import Study
from nas.trial import Outcome, Trial
from search_spaces import Bound

INFEASIBLE = "Infeasible"
"""What refuses where no constraint does: raised by the space or by a user's static metric, with a reason."""
FAILED = "a static metric that failed"


@dataclass(slots=True)
class Refusal:
    """Who refused ``count`` candidates; ``nearest`` is the value nearest to a constraint's limit among them.

    A candidate that breaks several constraints counts for each. ``reason`` is the last one given in words.
    """

    by: str
    count: int = 0
    nearest: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.nearest is not None:
            return f"{self.count:,} refused by {self.by}, the nearest value seen is {number(self.nearest)}"
        return f"{self.count:,} refused by {self.by}, the last reason: {self.reason}"


def refusals(study: Study, trials: Iterable[Trial] | None = None) -> list[Refusal]:
    """Who refused how many of ``trials`` (all of the study's), the most first."""
    found: dict[str, Refusal] = {}
    for trial in study.trials() if trials is None else trials:
        if not _refused(trial):
            continue
        broken = [bound for bound in study.objectives.constraints if _breaks(trial, bound)]
        for bound in broken:
            refusal = found.setdefault(str(bound), Refusal(str(bound)))
            refusal.count += 1
            refusal.nearest = _nearest(bound, refusal.nearest, trial.static[bound.name])
        if not broken:
            by = FAILED if trial.outcome is Outcome.ERROR else INFEASIBLE
            refusal = found.setdefault(by, Refusal(by))
            refusal.count += 1
            refusal.reason = trial.reason
    return sorted(found.values(), key=lambda refusal: -refusal.count)


def barren(study: Study, count: int) -> str:
    """Why the last ``count`` proposals came to nothing, and what can be done."""
    last = [study[at] for at in range(len(study) - count, len(study))]
    repeated = sum(trial.duplicate_of is not None for trial in last)
    found = refusals(study, last)
    told = [*map(str, found), *([counted(repeated, "duplicate")] if repeated else [])]
    remedies = []
    if any(refusal.nearest is not None for refusal in found):
        remedies.append("loosen the constraint or widen the space towards it")
    if any(refusal.by in (INFEASIBLE, FAILED) for refusal in found):
        remedies.append("see their reasons by nas report")
    if repeated > count / 2:
        remedies.append("the space may have been searched through")
    return f"{count:,} proposals in a row came to nothing: {'; '.join(told)}; {', '.join(remedies)}"


def _refused(trial: Trial) -> bool:
    return trial.outcome is not None and not trial.launches and trial.duplicate_of is None


def _breaks(trial: Trial, bound: Bound) -> bool:
    return bound.name in trial.static and not bound.holds(trial.static[bound.name])


def _nearest(bound: Bound, nearest: float | None, value: float) -> float | None:
    if nearest is None or isnan(value):
        return nearest if isnan(value) else value
    return min(nearest, value) if bound.relation == "<=" else max(nearest, value)

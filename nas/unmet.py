"""Constraints that no trial met at the highest fidelity: which they are, and how near the nearest trial came."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from nas.display import counted, number, reach
from nas.study import Study
from nas.trial import Trial
from search_spaces import Bound
from trainers import Fidelity


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


def unmet(study: Study) -> list[Unmet]:
    """All constraints, the least met first, where trials were compared and none met them together; else nothing."""
    return _unmet(study, study.compared())


def explained(study: Study) -> list[str]:
    """The same as sentences, with the trial that came nearest to all; nothing where some trial met them.

    Trials that early stopping left at a lower fidelity, and what was measured on the way, are named where they met it.
    """
    trials = study.compared()
    found = _unmet(study, trials)
    if not found:
        return []
    reached = reach(study, study.highest())
    alone = [one for one in found if not one.met]
    if alone:
        which = "this constraint" if len(alone) == 1 else "these constraints"
        bounds = {str(bound): bound for bound in study.objectives.constraints}
        told = [f"{_told(one, reached)}{_before(study, [bounds[one.by]], 'it')}" for one in alone]
        return [f"No trial met {which} at {reached}:", *told]
    nearest = min(trials, key=lambda trial: (study.objectives.violation(trial.metrics), trial.number))
    broken = "; ".join(study.objectives.violations(nearest.metrics))
    before = _before(study, study.objectives.constraints, "all")
    return [
        f"No trial met all constraints together at {reached}:",
        *(_told(one, reached) for one in found),
        f"the nearest to all is trial {nearest.number}: {broken}{before}",
    ]


def _told(one: Unmet, reached: str) -> str:
    some = f"{one.by}: met by {one.met:,} of the {counted(one.of, 'trial')} that reached {reached}"
    if one.nearest is None:
        return f"{some}, and measured as no number"
    return some if one.met else f"{some}; the nearest is {number(one.nearest)} (trial {one.trial})"


def _before(study: Study, bounds: Sequence[Bound], what: str) -> str:
    """The trial that met ``bounds`` at the highest of the lower fidelities, as the end of a sentence."""
    met: list[tuple[Fidelity, int]] = [
        (-fidelity, trial.number)
        for trial in study.trials()
        if trial.outcome is None or not trial.outcome.useless
        for fidelity, measurement in trial.rungs.items()
        if fidelity < study.highest()
        if all(bound.name in measurement.metrics and bound.holds(measurement.metrics[bound.name]) for bound in bounds)
    ]
    if not met:
        return ""
    fidelity, trial_number = min(met)
    return f"; trial {trial_number} met {what} at {reach(study, -fidelity)}"


def _unmet(study: Study, trials: Sequence[Trial]) -> list[Unmet]:
    objectives = study.objectives
    if not objectives.constraints or not trials or any(not objectives.violations(trial.metrics) for trial in trials):
        return []
    return sorted((_of(bound, trials) for bound in objectives.constraints), key=lambda one: one.met)


def _of(bound: Bound, trials: Sequence[Trial]) -> Unmet:
    met = sum(bound.holds(trial.metrics[bound.name]) for trial in trials)
    values = [(trial.metrics[bound.name], trial.number) for trial in trials if not isnan(trial.metrics[bound.name])]
    if not values:
        return Unmet(str(bound), met, len(trials), None, None)
    sign = 1 if bound.relation == "<=" else -1
    nearest, trial = min(values, key=lambda pair: (sign * pair[0], pair[1]))
    return Unmet(str(bound), met, len(trials), nearest, trial)

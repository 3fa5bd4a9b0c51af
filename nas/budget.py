"""When a search stops asking."""

from dataclasses import dataclass
from math import inf

from nas.objective import Objectives
from nas.study import Study


@dataclass(frozen=True, slots=True)
class Budget:
    """The first limit reached ends asking. ``trials`` counts candidates launched, each once.

    ``hours`` of the executor's clock over all sessions, ``device_hours`` of allocated devices; ``target`` is a value of
    the first objective that is good enough.
    """

    trials: int | None = None
    hours: float | None = None
    device_hours: float | None = None
    target: float | None = None

    @property
    def limits_time(self) -> bool:
        """Whether seconds are what a search has to spend; beside a number of trials they are a safeguard."""
        return self.trials is None and (self.hours is not None or self.device_hours is not None)

    def proposals_over(self, study: Study) -> str | None:
        """Why no new candidate may be proposed, or None."""
        if self.trials is not None and study.accepted >= self.trials:
            return f"{self.trials} trials"
        return self.over(study)

    def over(self, study: Study) -> str | None:
        """Why nothing at all may begin any more, promotions included, or None."""
        if self.hours is not None and study.seconds >= self.hours * 3600:
            return f"{self.hours:g} hours"
        if self.device_hours is not None and study.allocated_seconds() >= self.device_hours * 3600:
            return f"{self.device_hours:g} device-hours"
        if self.target is not None and study.leading_cost <= self._target_cost(study.objectives):
            return f"target {study.objectives.objectives[0].name} = {self.target:g} reached"
        return None

    def larger(self, study: Study, size: int | float = inf) -> list[str]:
        """Settings under which a study that this budget ended would go on: limits that are reached, well above use.

        ``size`` is the number of candidates there are: more trials are offered only while some are untried.
        """
        found = []
        hours, device_hours = study.seconds / 3600, study.allocated_seconds() / 3600
        if self.trials is not None and study.accepted >= self.trials and _tried(study) < size:
            found.append(f"search.trials={min(2 * max(self.trials, study.accepted), size)}")
        if self.hours is not None and hours >= self.hours:
            found.append(f"search.hours={2 * max(self.hours, hours):g}")
        if self.device_hours is not None and device_hours >= self.device_hours:
            found.append(f"search.device_hours={2 * max(self.device_hours, device_hours):g}")
        if self.target is not None and study.leading_cost <= self._target_cost(study.objectives):
            found.append("search.target=BETTER")
        return found

    def _target_cost(self, objectives: Objectives) -> float:
        assert self.target is not None
        name = objectives.objectives[0].name
        return objectives.objectives[0].cost({name: self.target})


def _tried(study: Study) -> int:
    """Candidates proposed so far, each once: those that were rejected or are equivalent to another count too."""
    return len({trial.proposal.candidate for trial in study.trials()})

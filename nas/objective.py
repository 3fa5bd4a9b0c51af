"""Objectives and constraints: how the metrics of two trials compare."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import inf, isfinite, isnan

from search_spaces import Bound, broken


class Direction(StrEnum):
    """Which way an objective is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric to optimise."""

    name: str
    direction: Direction

    def cost(self, metrics: Mapping[str, float]) -> float:
        """The metric as a cost to minimise; what is not finite is the worst, +inf."""
        value = metrics[self.name]
        if not isfinite(value):
            return inf
        return -value if self.direction is Direction.MAXIMIZE else value

    def value(self, cost: float) -> float:
        """Inverse of `cost`."""
        return -cost if self.direction is Direction.MAXIMIZE else cost


@dataclass(frozen=True)
class Objectives:
    """The objectives of a study, the first one leading, and its hard constraints."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Bound, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The metrics that a trial must have: objectives, then constraints."""
        return (*(objective.name for objective in self.objectives), *(bound.name for bound in self.constraints))

    def costs(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """Cost vector, all to be minimised; KeyError where a metric is missing (see `missing`)."""
        return tuple(objective.cost(metrics) for objective in self.objectives)

    def missing(self, metrics: Mapping[str, float]) -> list[str]:
        """Objectives and constraints that ``metrics`` lacks."""
        return [name for name in self.names if name not in metrics]

    def violations(self, metrics: Mapping[str, float]) -> list[str]:
        """One sentence for each constraint that ``metrics`` breaks."""
        return broken(self.constraints, metrics) if self.constraints else []

    def violation(self, metrics: Mapping[str, float]) -> float:
        """How far the known metrics are from keeping all constraints: the sum of each excess as a share of its limit.

        As in Deb et al. 2002, section VI. Infinite for NaN; a limit of 0 counts as 1; what is missing is passed over.
        """
        total = 0.0
        for bound in self.constraints:
            value = metrics.get(bound.name)
            if value is not None and not bound.holds(value):
                total += inf if isnan(value) else abs(value - bound.limit) / (abs(bound.limit) or 1.0)
        return total

    def total_violation(self, metrics: Mapping[str, float]) -> float:
        """The `violation` of ``metrics`` that have all objectives: infinite, too, where one of these is not finite."""
        return inf if inf in self.costs(metrics) else self.violation(metrics)

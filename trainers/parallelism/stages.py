"""Cuts of a chain of units into stages of which the largest is as small as can be, with a certificate.

A contiguous partition of a chain (Bokhari 1988) by dynamic programming over the last cut:
``best[k][i] = min over j < i of max(best[k-1][j], cost(j, i))``. A stage costs its units and what passes its borders,
so a longer stage may cost less, and every last cut is looked at.
"""

from dataclasses import dataclass

import numpy as np

from trainers.parallelism.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Cuts:
    """Units before which a new stage starts, the cost of each stage, and a bound for every order of the units."""

    starts: tuple[int, ...]
    stage_costs: tuple[float, ...]
    lower_bound: float
    """The mean stage or the largest unit: no cut into as many stages has a smaller largest stage, in any order."""

    @property
    def largest(self) -> float:
        """Cost of the largest stage."""
        return max(self.stage_costs)


def cut(unit_costs: FloatArray, border_costs: FloatArray, stages: int) -> Cuts:
    """The cut of ``unit_costs`` [units] into exactly ``stages`` with the smallest largest stage.

    ``border_costs`` [units + 1] is what a border before each unit costs the stages on both of its sides; 0 at both
    ends. Raises ValueError where there are fewer units than stages.
    """
    units = len(unit_costs)
    if not 1 <= stages <= units:
        raise ValueError(f"pipeline: {stages} stages of {units} units; a stage holds at least one, so at most {units}")
    costs = _interval_costs(unit_costs, border_costs)
    best, chosen = costs[0], []
    for _ in range(stages - 1):
        every = np.maximum(best[:, None], costs)
        chosen.append(every.argmin(0))
        best = every.min(0)
    starts = [units]
    for last in reversed(chosen):
        starts.append(int(last[starts[-1]]))
    own = tuple(reversed(starts[1:]))
    bound = max(float(unit_costs.sum()) / stages, float(unit_costs.max()))
    return Cuts(own, stage_costs(unit_costs, border_costs, own), bound)


def stage_costs(unit_costs: FloatArray, border_costs: FloatArray, starts: tuple[int, ...]) -> tuple[float, ...]:
    """Cost of each stage of a cut: its units and both of its borders."""
    edges = [0, *starts, len(unit_costs)]
    return tuple(
        float(unit_costs[first:last].sum() + border_costs[first] + border_costs[last])
        for first, last in zip(edges, edges[1:], strict=False)
    )


def fewest_stages(unit_costs: FloatArray, border_costs: FloatArray, limit: float) -> float:
    """Fewest stages that each cost less than ``limit``, infinite where there are none: the certificate of a cut.

    A cut into k stages whose largest costs c is best in its order iff this is above k for a limit of c.
    """
    allowed = _interval_costs(unit_costs, border_costs) < limit
    needed = np.full(len(unit_costs) + 1, np.inf)
    needed[0] = 0
    for end in range(1, len(needed)):
        needed[end] = 1 + min(needed[:end][allowed[:end, end]], default=np.inf)
    return float(needed[-1])


def _interval_costs(unit_costs: FloatArray, border_costs: FloatArray) -> FloatArray:
    """[units + 1, units + 1] cost of a stage from one unit to before another; infinite where it would be empty."""
    before = np.concatenate([[0.0], np.cumsum(unit_costs)])
    costs = before[None, :] - before[:, None] + border_costs[:, None] + border_costs[None, :]
    return np.where(np.tri(len(before), dtype=bool), np.inf, costs)

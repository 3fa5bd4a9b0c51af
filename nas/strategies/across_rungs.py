"""One order of results that were measured at several fidelities.

A rung says more of those that reach it than the rungs below, and nothing of the others. So it permutes the places that
these gave them, and moves nobody else: who is promoted early, for want of better ones, is no better for it.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from nas.surrogate import Array

_BEYOND = 0.5
"""How far beyond all others in a rung they are placed whom no lower rung knows."""


def across_rungs(rungs: Sequence[Array]) -> Array:
    """Places [n], the smaller the better, infinite where nothing is measured.

    ``rungs`` are costs [n], infinite where not measured, from the lowest fidelity up. Whom no lower rung knows stands
    between those whom one does; where there are none, before all whom other rungs know. Equal costs at the same highest
    rung share the mean of their places.
    """
    places = np.full(len(rungs[0]), inf)
    highest = np.full((len(places), 2), inf)
    for number, costs in enumerate(rungs):
        here = np.flatnonzero(costs < inf)
        ordered = here[np.argsort(costs[here], kind="stable")]
        known = places[ordered] < inf
        if known.any():
            places[ordered] = _filled(np.sort(places[ordered[known]]), known)
        else:
            first = places.min(initial=0.0, where=places < inf)
            places[ordered] = np.arange(len(ordered)) + first - len(ordered)
        highest[here, 0], highest[here, 1] = number, costs[here]
    _, group = np.unique(highest, axis=0, return_inverse=True)
    return np.asarray((np.bincount(group.ravel(), places) / np.bincount(group.ravel()))[group.ravel()])


def _filled(places: Array, known: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Array:
    """Increasing places [m]: the given ones where ``known`` [m], others evenly between them and a little beyond."""
    at = np.concatenate([[-1], np.flatnonzero(known), [len(known)]])
    around = np.concatenate([[places[0] - _BEYOND], places, [places[-1] + _BEYOND]])
    return np.asarray(np.interp(np.arange(len(known)), at, around))

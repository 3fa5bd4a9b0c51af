"""One order of results that were measured at several fidelities.

A rung says more of those that reach it than the rungs below, and nothing of the others. So it permutes the places that
these gave them, and moves nobody else: who is promoted early, for want of better ones, is no better for it.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from scipy.stats import rankdata

from nas.surrogate import Array

_BEYOND = 0.5
"""How far beyond all others in a rung somebody is placed whom no lower rung knows."""


def across_rungs(rungs: Sequence[Array]) -> Array:
    """Places [n], the smaller the better, infinite where nothing is measured.

    ``rungs`` are costs [n], infinite where not measured, from the lowest fidelity up. Whom no lower rung knows stands
    between those whom one does; where there are none, before all whom other rungs know.
    """
    places = np.full(len(rungs[0]), inf)
    for costs in rungs:
        here = costs < inf
        old, new = here & (places < inf), here & (places == inf)
        if old.any():
            known = np.sort(places[old])
            between = (np.sort(costs[old]), known, known[0] - _BEYOND, known[-1] + _BEYOND)
            places[new] = np.interp(costs[new], *between)
            places[old] = np.interp(rankdata(costs[old]) - 1, np.arange(len(known)), known)
        elif new.any():
            first = places.min(initial=0.0, where=places < inf)
            places[new] = rankdata(costs[new]) - 1 + first - new.sum()
    return places

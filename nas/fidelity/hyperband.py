"""Hyperband (Li et al. 2018, algorithm 1): brackets of successive halving from many short trials to few whole ones."""

from math import ceil

from nas.fidelity.synchronous import SynchronousHalving, power


class Hyperband(SynchronousHalving):
    """Brackets s = s_max, ..., 0, then again.

    Bracket s begins s rungs below the maximum, r = R eta^-s, with n = ceil((s_max + 1) / (s + 1) * eta^s) trials. The
    rungs are the study's; where the maximum is no power of eta times the minimum, the last step is a smaller one.
    """

    def shape(self, bracket: int) -> tuple[int, int]:
        """Places n and first rung of a bracket."""
        s_max = len(self.rungs) - 1
        s = s_max - bracket % (s_max + 1)
        return ceil((s_max + 1) * power(self.eta, s) / (s + 1)), s_max - s

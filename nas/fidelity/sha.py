"""Successive halving (Jamieson and Talwalkar 2016), synchronous: the top 1/eta of a rung go on when it is full."""

from nas.fidelity.synchronous import SynchronousHalving, places_for


class SuccessiveHalving(SynchronousHalving):
    """Every bracket begins at the lowest rung, with as many trials as it takes for one to reach the maximum."""

    def shape(self, bracket: int) -> tuple[int, int]:
        """``eta^k`` places for ``k + 1`` rungs."""
        return places_for(len(self.rungs) - 1, self.eta), 0

"""A bracket of synchronous successive halving (Jamieson and Talwalkar 2016, figure 2).

A number of trials begin together. Of each rung the best 1/eta go on, once nobody is under way to it any more.
"""

from nas.objective import Objectives
from nas.rung import Rung
from nas.trial import State, Trial
from trainers import Fidelity, Measurement


class Bracket:
    """``places`` trials on ``levels[0]``, a share of 1/eta of them on ``levels[1]``, and so on.

    A trial that fails, diverges or is infeasible has filled its place. It takes no promotion: the best of those that
    are left do.
    """

    def __init__(self, objectives: Objectives, levels: tuple[Fidelity, ...], places: int, eta: float) -> None:
        self.levels = levels
        self._places = places
        self._rungs = {level: _SynchronousRung(objectives, eta) for level in levels}

    @property
    def has_room(self) -> bool:
        """Whether another trial may enter: a place is free, and the first rung has not been decided with fewer."""
        first = self._rungs[self.levels[0]]
        return first.entered < self._places and not first.promoted

    @property
    def over(self) -> bool:
        """Whether nothing can happen here any more."""
        return not (self.has_room or any(rung.under_way for rung in self._rungs.values()) or self.promotion())

    def promotion(self, final: bool = False) -> tuple[int, Fidelity] | None:
        """The next trial to go on, and how far; with ``final`` no trial will enter any more."""
        if self.has_room and not final:
            return None
        for level, above in zip(self.levels, self.levels[1:], strict=False):
            rung = self._rungs[level]
            if rung.decided:
                continue
            if rung.under_way:
                return None
            winner = rung.winner()
            if winner is not None:
                return winner, above
        return None

    def enter(self, trial: Trial) -> None:
        """A new trial is on its way to the first rung."""
        self._rungs[self.levels[0]].enter(trial)

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """A trial reached a rung."""
        self._rungs[measurement.fidelity].measured(trial, measurement)

    def promoted(self, trial: Trial) -> None:
        """A trial went on, to ``trial.until``."""
        self._rungs[self.levels[self.levels.index(trial.until) - 1]].leave(trial)
        self._rungs[trial.until].enter(trial)

    def ended(self, trial: Trial) -> None:
        """A trial ended, on its way to ``trial.until`` or there."""
        self._rungs[trial.until].ended(trial)


class _SynchronousRung:
    def __init__(self, objectives: Objectives, eta: float) -> None:
        self._ranking = Rung(objectives)
        self._eta = eta
        self._under_way: set[int] = set()
        self._held: dict[int, Trial] = {}
        self.entered = 0
        self.promoted = 0

    @property
    def under_way(self) -> bool:
        """Whether a trial has not been measured here yet, or the leg in which it was has not ended."""
        return bool(self._under_way) or any(trial.state is not State.PAUSED for trial in self._held.values())

    @property
    def decided(self) -> bool:
        """Whether as many have gone on as should, one at least."""
        return self.promoted >= max(1, int(self.entered / self._eta))

    def winner(self) -> int | None:
        """The best trial held."""
        return next((number for number in self._ranking.order() if number in self._held), None)

    def enter(self, trial: Trial) -> None:
        self.entered += 1
        self._under_way.add(trial.number)

    def measured(self, trial: Trial, measurement: Measurement) -> None:
        self._under_way.discard(trial.number)
        self._held[trial.number] = trial
        self._ranking.add(trial, measurement)

    def leave(self, trial: Trial) -> None:
        self.promoted += 1
        del self._held[trial.number]

    def ended(self, trial: Trial) -> None:
        self._under_way.discard(trial.number)
        self._held.pop(trial.number, None)

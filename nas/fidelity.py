"""Fidelity rules: how far each trial is trained, and which trial goes on.

A rule is asked (`first`, `on_report`, `promote`) only live, and told (`observe`, `promoted`, `ended`) live and on
replay alike: what it answered stands in the log, and is never computed anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import ceil, isclose
from typing import Protocol, TypeAlias

from nas.objective import Objectives
from nas.proposal import Proposal
from nas.rung import Rung
from nas.trial import Trial
from search_spaces import Registry
from trainers import Fidelity, Measurement


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on at once, to fidelity ``until``."""

    until: Fidelity


class Verdict(Enum):
    """End the leg: hold the trial for a later promotion, or stop it for good."""

    PAUSE = "pause"
    STOP = "stop"


Decision: TypeAlias = Continue | Verdict


class FidelityRule(Protocol):
    """The contract of a rule. ``rungs`` are its fidelities, increasing; the last one is the study's maximum."""

    rungs: tuple[Fidelity, ...]

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """Bracket and first fidelity of a new trial."""
        ...

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """What comes after a measurement below the maximum, which `observe` has seen."""
        ...

    def promote(self) -> tuple[int, Fidelity] | None:
        """A paused trial that should go on now, and how far; None when none should."""
        ...

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """A measurement came."""
        ...

    def promoted(self, trial: Trial) -> None:
        """A trial goes on, to ``trial.until``."""
        ...

    def ended(self, trial: Trial) -> None:
        """A trial ended; it will not go on."""
        ...


def rungs(minimum: Fidelity, maximum: Fidelity, eta: float) -> tuple[Fidelity, ...]:
    """``minimum * eta^k`` below ``maximum``, and ``maximum``; integers stay integers."""
    levels: list[Fidelity] = []
    level = minimum
    while level < maximum and not isclose(level, maximum):  # 0.09 * 10 is no rung below 0.9
        levels.append(level)
        level = level * eta
        level = int(level) if float(level).is_integer() else level
    return (*levels, maximum)


class FullFidelity:
    """Every trial is trained to the maximum (rule ``none``)."""

    def __init__(self, objectives: Objectives, minimum: Fidelity, maximum: Fidelity, eta: float) -> None:
        self.rungs = (maximum,)

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """The maximum."""
        return 0, self.rungs[-1]

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Go on to the maximum (a study resumed under this rule may hold trials below it)."""
        return Continue(self.rungs[-1])

    def promote(self) -> tuple[int, Fidelity] | None:
        """No trial is ever held."""
        return None

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """Nothing to learn."""

    def promoted(self, trial: Trial) -> None:
        """Nothing to learn."""

    def ended(self, trial: Trial) -> None:
        """Nothing to learn."""


class _Halving:
    """What both forms of asynchronous successive halving share: the rungs and who stands on them."""

    def __init__(self, objectives: Objectives, minimum: Fidelity, maximum: Fidelity, eta: float) -> None:
        self.rungs = rungs(minimum, maximum, eta)
        self.eta = eta
        self._rungs = {fidelity: Rung(objectives) for fidelity in self.rungs}

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """The lowest rung, in the only bracket."""
        return 0, self.rungs[0]

    def observe(self, trial: Trial, measurement: Measurement) -> None:
        """Enter the trial on its rung."""
        if measurement.fidelity in self._rungs:
            self._rungs[measurement.fidelity].add(trial, measurement)

    def promoted(self, trial: Trial) -> None:
        """Take the trial off the rung below ``trial.until``."""
        self._rungs[self._below(trial.until)].let_go(trial.number)

    def ended(self, trial: Trial) -> None:
        """Take the trial off its rung; its measurement still counts."""
        if trial.fidelity in self._rungs:
            self._rungs[trial.fidelity].let_go(trial.number)

    def _best_held(self, top: Callable[[int], int]) -> tuple[int, Fidelity] | None:
        """The best trial held among the ``top(size)`` best of a rung, from the highest rung down."""
        for fidelity, above in zip(self.rungs[-2::-1], self.rungs[:0:-1], strict=True):
            rung = self._rungs[fidelity]
            number = rung.best_held(top(len(rung)))
            if number is not None:
                return number, above
        return None

    def _below(self, fidelity: Fidelity) -> Fidelity:
        return self.rungs[self.rungs.index(fidelity) - 1]

    def _above(self, fidelity: Fidelity) -> Fidelity:
        return next(rung for rung in self.rungs if rung > fidelity)


class AsynchronousHalving(_Halving):
    """ASHA, the promotion form (Li et al. 2020, algorithm 2): the top 1/eta of a rung go on, highest rung first.

    A trial pauses at each rung. Several objectives are ranked by dominance, as in MO-ASHA (Schmucker et al. 2021).
    """

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Hold the trial."""
        return Verdict.PAUSE

    def promote(self) -> tuple[int, Fidelity] | None:
        """The best held trial of the highest rung whose top 1/eta holds one."""
        return self._best_held(lambda size: int(size / self.eta))


class StoppingHalving(_Halving):
    """ASHA, the stopping form: a trial goes on at once while it is in the top 1/eta of those that reached its rung."""

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """Go on when in the top 1/eta so far (the first to come always is), else stop."""
        rung = self._rungs.get(measurement.fidelity)
        if rung is None or rung.rank(trial.number) * self.eta < len(rung):
            return Continue(self._above(measurement.fidelity))
        return Verdict.STOP

    def promote(self) -> tuple[int, Fidelity] | None:
        """A trial that would have gone on, had not a budget ended; there is none before a resume with a larger one."""
        return self._best_held(lambda size: ceil(size / self.eta))


RULES = Registry(
    kind="fidelity rule",
    group="nas.fidelity_rules",
    builtin={
        "none": "nas.fidelity:FullFidelity",
        "asha": "nas.fidelity:AsynchronousHalving",
        "asha-stop": "nas.fidelity:StoppingHalving",
    },
)

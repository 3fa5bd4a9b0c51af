"""The contract of a fidelity rule: how far each trial is trained, and which trial goes on.

A rule is asked (`first`, `on_report`, `promote`) only live, and told (`proposed`, `observe`, `promoted`, `ended`) live
and on replay alike: what it answered stands in the log, and is never computed anew.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from nas.proposal import Proposal
from nas.trial import Trial
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
    """Made of ``(objectives, minimum, maximum, eta)``.

    ``rungs`` are its fidelities, increasing; the last one is the study's maximum.
    """

    rungs: tuple[Fidelity, ...]

    def first(self, proposal: Proposal) -> tuple[int, Fidelity]:
        """Bracket and first fidelity of a new trial; both come back with it."""
        ...

    def on_report(self, trial: Trial, measurement: Measurement) -> Decision:
        """What comes after a measurement below the maximum, which `observe` has seen."""
        ...

    def promote(self, final: bool = False) -> tuple[int, Fidelity] | None:
        """A paused trial that should go on now, and how far; None when none should.

        ``final`` says that no proposal is to come (a budget is spent, the strategy has nothing left, or waits for what
        is held): a rule that waits for more trials decides with those it has.
        """
        ...

    def proposed(self, trial: Trial) -> None:
        """A new trial is on its way, to ``trial.until``; duplicates and what the static stage refuses are not told."""
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

"""How long things may take before they are ended from outside, and how long workers are kept."""

from dataclasses import dataclass

from cluster.protocol import Halting


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds something may take before it is ended from outside.

    ``start``: a gang from its request to its first leg. ``rendezvous``: all ranks to meet at a leg's start.
    ``collective``: one collective operation. ``error``: the other ranks to end after one has failed. ``pause``,
    ``stop``, ``cancel``: a halted trial to reach its next report.
    """

    start: float = 120.0
    rendezvous: float = 30.0
    collective: float = 600.0
    error: float = 2.0
    pause: float = 30.0
    stop: float = 10.0
    cancel: float = 2.0

    def halt(self, how: Halting) -> float:
        """Return how long a trial halted with ``how`` may go on."""
        return {Halting.PAUSE: self.pause, Halting.STOP: self.stop, Halting.CANCEL: self.cancel}[how]


@dataclass(frozen=True, slots=True)
class Keep:
    """How long a gang is kept: until it ran ``legs`` or a rank grew by ``growth_bytes``."""

    legs: int = 2_000
    growth_bytes: int = 2 * 2**30

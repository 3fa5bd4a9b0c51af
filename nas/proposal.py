"""What a strategy answers when asked: a candidate and where it comes from, or that it has none."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from search_spaces import Candidate
from trainers import Fidelity


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate to try.

    ``parents`` are trial numbers, ``operator`` how the candidate was made of them; ``start_from`` is (trial, fidelity)
    of a checkpoint to start from. ``notes`` is a small JSON value of the algorithm that comes back with every ``tell``;
    ``fitted_on`` the last trial whose result its model has seen.
    """

    candidate: Candidate
    parents: tuple[int, ...] = ()
    operator: str = "sample"
    start_from: tuple[int, Fidelity] | None = None
    notes: Any = None
    fitted_on: int | None = None


class NoProposal(Enum):
    """Why a strategy proposes nothing: it waits for results, or there is nothing left to try."""

    WAIT = "wait"
    EXHAUSTED = "exhausted"


WAIT = NoProposal.WAIT
EXHAUSTED = NoProposal.EXHAUSTED

AFTER_REPEATS = "sample-after-repeats"
"""The operator of a candidate that was drawn at random because those before it were repeated or refused."""

"""Exhaustive search: every assignment of a finite space, once, in the order of its declaration."""

from collections import deque
from collections.abc import Iterator, Sequence

from numpy.random import Generator

from nas.objective import Objectives
from nas.proposal import EXHAUSTED, NoProposal, Proposal
from nas.trial import Outcome, Trial
from search_spaces import Architecture, Candidate, CandidateSpace, Domain, Values
from search_spaces.sizes import size_text
from trainers import Measurement

_MOST_CANDIDATES = 1_000_000


class ExhaustiveSearch:
    """The first decision changes slowest, hyperparameters fastest; no seed plays a part.

    Candidates that the search has tried already, known ones for example, are passed over. Raises ValueError for a
    space with a float that has a range, and for one of more than 1,000,000 candidates.
    """

    def __init__(self, space: CandidateSpace, objectives: Objectives) -> None:
        _check_listable(space)
        self._told: set[Candidate] = set()
        self._rest = _candidates(space)
        self._listed: deque[Candidate] = deque()  # from the first that was not told of when last asked

    def ask(self, pending: Sequence[Trial], rng: Generator) -> Proposal | NoProposal:
        """The first candidate that was neither told of nor is under way."""
        while self._listed and self._listed[0] in self._told:
            self._listed.popleft()
        under_way = {trial.proposal.candidate for trial in pending}
        for candidate in self._in_order():
            if candidate not in self._told and candidate not in under_way:
                return Proposal(candidate, operator="enumerate")
        return EXHAUSTED

    def tell(self, trial: Trial, measurement: Measurement | None, ended: Outcome | None) -> None:
        """Tick the candidate off; what an older study measured may be tried again."""
        if trial.number >= 0:
            self._told.add(trial.proposal.candidate)

    def _in_order(self) -> Iterator[Candidate]:
        yield from list(self._listed)
        for candidate in self._rest:
            self._listed.append(candidate)
            yield candidate


def _candidates(space: CandidateSpace) -> Iterator[Candidate]:
    for values in space.space.domain.assignments():
        architecture = Architecture(values.plain())
        for hyperparameters in space.hyperparameters.assignments() if space.hyperparameters else (Values({}),):
            yield Candidate(architecture, hyperparameters)


def _check_listable(space: CandidateSpace) -> None:
    size = space.size()
    if size <= _MOST_CANDIDATES:
        return
    if isinstance(size, int):
        raise ValueError(
            f"exhaustive search tries every candidate, at most {_MOST_CANDIDATES:,}, and this space has "
            f"{size_text(size)}; declare fewer options, or choose another strategy"
        )
    name, allowed = _first_float((space.space.domain, space.hyperparameters))
    raise ValueError(
        f"exhaustive search tries every candidate, and {name} is {allowed}, which has no end of values; "
        "list those to be tried, or choose another strategy"
    )


def _first_float(domains: Sequence[Domain | None]) -> tuple[str, str]:
    return next(
        (f"{domain.title}.{slot.name}" if domain.title else slot.name, slot.decision.allowed)
        for domain in domains
        if domain is not None
        for slot in domain.slots
        if slot.decision.options is None
    )

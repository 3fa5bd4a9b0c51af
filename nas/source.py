"""Where legs come from: a promotion first, else a new proposal, on record before anything runs."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from nas.budget import Budget
from nas.event_log import EventLog, Record
from nas.keys import KeyMaker
from nas.known import OPERATOR as START
from nas.proposal import AFTER_REPEATS, EXHAUSTED, Proposal
from nas.refusals import barren
from nas.search_state import SearchState
from nas.static_stage import StaticStage
from nas.streams import Streams
from nas.study import answers
from nas.trial import Outcome, State, Trial
from search_spaces import Candidate, CandidateSpace
from trainers import numbers_to_json

Recorder: TypeAlias = Callable[[Record], None]

_STALLED = 50
_BARREN = 1_000


def recorder(log: EventLog, state: SearchState) -> Recorder:
    """Put a record into the log's turn and fold it into the state: the one way in which a search changes."""

    def record(entry: Record) -> None:
        log.append(entry)
        state.apply(entry)

    return record


class Source:
    """Asks the fidelity rule, then the strategy, within the budget. Known candidates (``start``) come first of all.

    A proposal whose key the record answers, or whose trial is under way, is a duplicate; one that the static stage
    refuses is infeasible. Both are recorded and the strategy is asked again. After 50 of them in a row, as from a
    population that has converged, random candidates take its turn until one is accepted.

    ``over`` says why nothing comes any more, ``exhausted`` why only promotions do, ``failing`` that a user's static
    metric fails again and again (`Study.same_error`).
    """

    def __init__(
        self,
        state: SearchState,
        record: Recorder,
        space: CandidateSpace,
        keys: KeyMaker,
        static: StaticStage,
        budget: Budget,
        seed: int,
        max_same_errors: int = 20,
        start: Sequence[Candidate] = (),
    ) -> None:
        self._state = state
        self._study = state.study
        self._record = record
        self._space = space
        self._keys = keys
        self._static = static
        self._budget = budget
        self._streams = Streams(seed)
        self._max_same_errors = max_same_errors
        self._start = start
        self.failing = False
        self.over: str | None = None
        self.exhausted: str | None = None

    def next(self, at: float) -> Trial | None:
        """The trial that should have a leg now; None where there is none (now, or, with ``over``, any more)."""
        if self.ends():
            return None
        promoted = self._promote(at)
        if promoted is not None:
            return promoted
        while not self._no_more_proposals():
            proposal = self._ask()
            if proposal is None:
                break
            trial = self._propose(at, proposal)
            if trial.state is State.WAITING:
                return trial
            self.failing = trial.outcome is Outcome.ERROR and self._study.same_error(self._max_same_errors) is not None
            if self.failing:
                return None
        nothing_runs = not self._study.active()
        return self._promote(at, final=True) if nothing_runs or self._no_more_proposals() else None

    def _promote(self, at: float, final: bool = False) -> Trial | None:
        promotion = self._state.rule.promote(final)
        if promotion is None:
            return None
        number, until = promotion
        self._record({"event": "promoted", "at": at, "trial": number, "until": until})
        return self._study[number]

    def _no_more_proposals(self) -> bool:
        return self.exhausted is not None or self._budget.proposals_over(self._study) is not None

    def ends(self) -> bool:
        """Whether a budget is spent that ends promotions too; ``over`` then says which."""
        self.over = self._budget.over(self._study)
        return self.over is not None

    def resting(self) -> str:
        """Why nothing came, in words, where ``over`` does not say it."""
        return self.exhausted or self._budget.proposals_over(self._study) or "the strategy waits, and nothing runs"

    def _ask(self) -> Proposal | None:
        if self._study.barren >= _BARREN:
            self.exhausted = f"exhausted: {barren(self._study, _BARREN)}"
            return None
        number = len(self._study)
        if number < len(self._start):  # trial n is the n-th of them: the record tells which are still to come
            return Proposal(self._start[number], operator=START)
        if self._study.barren >= _STALLED:
            return Proposal(self._space.sample(self._streams.at(number)), operator=AFTER_REPEATS)
        answer = self._state.strategy.ask(self._study.pending(), self._streams.at(number))
        if answer is EXHAUSTED:
            self.exhausted = "exhausted: the strategy has nothing left to propose"
        return answer if isinstance(answer, Proposal) else None

    def _propose(self, at: float, proposal: Proposal) -> Trial:
        number = len(self._study)
        record = self._proposed(at, number, proposal)
        known = self._study.known(record["key"])
        if known is not None and (answers(known, record["until"]) or known.state in (State.WAITING, State.RUNNING)):
            self._record({**record, "verdict": "duplicate", "of": known.number})
            return self._study[number]
        verdict = self._static.judge(proposal.candidate)
        if verdict.metrics:
            record["static"] = numbers_to_json(verdict.metrics)
        if verdict.failure is not None:
            record |= {"verdict": "error", "reason": verdict.failure.message, "failure": verdict.failure.to_json()}
        elif verdict.reason:
            record |= {"verdict": "infeasible", "reason": verdict.reason}
        self._record(record)
        return self._study[number]

    def _proposed(self, at: float, number: int, proposal: Proposal) -> Record:
        bracket, until = self._state.rule.first(proposal)
        candidate = proposal.candidate
        record: Record = {
            "event": "proposed",
            "at": at,
            "trial": number,
            "architecture": candidate.architecture.plain(),
            "hyperparameters": candidate.hyperparameters.plain(),
            "key": self._keys.key(candidate),
            "operator": proposal.operator,
            "bracket": bracket,
            "until": until,
        }
        if proposal.parents:
            record["parents"] = proposal.parents
        for name in ("start_from", "notes", "fitted_on"):
            value = getattr(proposal, name)
            if value is not None:
                record[name] = value
        return record

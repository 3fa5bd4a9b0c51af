"""A search played by hand: the records that a controller would make, folded as it folds them; nothing runs.

Conformance suites and tests drive strategies and fidelity rules with it through everything that can become of a trial.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from nas.budget import Budget
from nas.event_log import Record
from nas.fidelity import Continue, Decision, FidelityRule, Verdict
from nas.keys import KeyMaker
from nas.objective import Objectives
from nas.outcomes import end_of
from nas.search_state import SearchState
from nas.source import Source
from nas.static_stage import StaticStage, StaticVerdict
from nas.strategies import Strategy
from nas.study import Study
from nas.trial import Outcome, State, Trial
from search_spaces import Candidate, CandidateSpace
from trainers import Failure, FailureKind, numbers_to_json

_UNBOUNDED = 10**9


class Rehearsal:
    """``start`` brings a trial on its way; then `report` and `finish`, or `fail`, say what became of its leg.

    `refuse` makes the static stage call the next proposals infeasible. ``trials`` is the budget,
    ``start`` the known candidates.
    """

    def __init__(
        self,
        space: CandidateSpace,
        objectives: Objectives,
        rule: FidelityRule,
        strategy: Strategy,
        seed: int = 0,
        trials: int = _UNBOUNDED,
        start: Sequence[Candidate] = (),
    ) -> None:
        self.state = SearchState(Study(Path("rehearsal")), rule, strategy)
        self.study = self.state.study
        self.records: list[Record] = []
        self._static = _Whim(space.space, _no_signature, (), ())
        keys = KeyMaker(space.space, ())
        self._source = Source(self.state, self.record, space, keys, self._static, Budget(trials), seed, start=start)
        self.record(
            {
                "event": "study",
                "schema": 1,
                "objectives": {one.name: one.direction.value for one in objectives.objectives},
                "constraints": {bound.name: f"{bound.relation} {bound.limit!r}" for bound in objectives.constraints},
            }
        )

    def refuse(self, proposals: int = 1) -> None:
        """Let the static stage find the next ``proposals`` infeasible."""
        self._static.refusals = proposals

    def record(self, entry: Record) -> None:
        """Fold a record, in the form in which the log gives it back."""
        entry = orjson.loads(orjson.dumps({"at": float(len(self.records)), **entry}))
        self.records.append(entry)
        self.state.apply(entry)

    def replay(self, records: list[Record]) -> None:
        """Fold what another rehearsal recorded, after its header."""
        for entry in records[1:]:
            self.record(entry)

    # What a controller does ---------------------------------------------------------------------------------------

    def start(self) -> Trial | None:
        """A promoted or a newly proposed trial, its leg launched; None where the search has none now."""
        trial = self._source.next(float(len(self.records)))
        if trial is not None:
            self.launch(trial)
        return trial

    @property
    def over(self) -> str | None:
        """Why nothing is proposed any more."""
        return self._source.over or self._source.exhausted

    def launch(self, trial: Trial) -> None:
        """Give a waiting trial its device."""
        place = {"until": trial.until, "plan": "data=1", "on": [["node", 1]]}
        self._about(trial, "launched", leg=trial.leg, attempt=trial.attempt + 1, **place)

    def report(self, trial: Trial, metrics: Mapping[str, float], seconds: float = 1.0) -> None:
        """Measure a running trial at the end of its leg, which took ``seconds``."""
        plain = numbers_to_json(metrics)
        self._about(trial, "reported", leg=trial.leg, fidelity=trial.until, metrics=plain, seconds=seconds)

    def finish(self, trial: Trial) -> Decision | Outcome:
        """End a leg that has reported; return what the rule, or the measurement, decides."""
        if self.study.objectives.missing(trial.metrics):
            self.fail(trial, FailureKind.ERROR)
            return Outcome.ERROR
        decision = self._decide(trial)
        then: dict[str, Any] = {"then": "paused"}
        if isinstance(decision, Continue):
            then = {"then": "promoted", "until": decision.until}
        elif decision is not Verdict.PAUSE:
            outcome = Outcome.STOPPED if decision is Verdict.STOP else decision
            then = {"then": "ended", "outcome": outcome.value}
        self._about(trial, "finished", leg=trial.leg, busy=1.0, **then)
        return decision

    def fail(self, trial: Trial, kind: FailureKind, retry: bool = False) -> None:
        """End a leg otherwise; with ``retry`` the trial waits for another attempt."""
        failure = Failure(kind, f"it {kind.value}")
        then = {"then": "retry"} if retry else {"then": "ended", "outcome": end_of(failure).value}
        self._about(trial, "failed", leg=trial.leg, attempt=trial.attempt, busy=1.0, failure=failure.to_json(), **then)

    def _decide(self, trial: Trial) -> Decision | Outcome:
        measurement = trial.rungs[trial.until]
        if not all(map(isfinite, self.study.objectives.costs(measurement.metrics))):
            return Outcome.DIVERGED
        if measurement.fidelity >= self.state.rule.rungs[-1]:
            return Outcome.COMPLETED
        return self.state.rule.on_report(trial, measurement)

    def _about(self, trial: Trial, event: str, **content: Any) -> None:
        self.record({"event": event, "trial": trial.number, **content})

    # A whole search -----------------------------------------------------------------------------------------------

    def advance(self, trial: Trial, metrics: Mapping[str, float], seconds: float = 1.0) -> None:
        """Report, finish, and launch the next leg where the rule has the trial go on at once."""
        self.report(trial, metrics, seconds)
        self.finish(trial)
        if trial.state is State.WAITING:
            self.launch(trial)


class _Whim(StaticStage):
    """A static stage that refuses when it is told to."""

    refusals = 0

    def judge(self, candidate: Any) -> StaticVerdict:
        if not self.refusals:
            return StaticVerdict()
        self.refusals -= 1
        return StaticVerdict(reason="refused by the rehearsal")


def _no_signature() -> Any:
    raise AssertionError("a rehearsal builds no network")

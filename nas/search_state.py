"""The study together with those who learn from it: one fold for a live search and for its replay."""

from nas.event_log import Record
from nas.fidelity import FidelityRule
from nas.strategies import Strategy
from nas.study import Study
from nas.trial import Trial


class SearchState:
    """Applies each record to the study, then tells the fidelity rule and the strategy what it means."""

    def __init__(self, study: Study, rule: FidelityRule, strategy: Strategy) -> None:
        self.study = study
        self.rule = rule
        self.strategy = strategy

    def apply(self, record: Record) -> None:
        """Fold one record."""
        event = record["event"]
        number = record.get("trial")
        waiting: list[Trial] = []
        if number is not None and number < len(self.study):
            waiting = self.study.followers(self.study[number])
        self.study.apply(record)
        if event == "inherited":
            self._tell_inherited()
        if number is None:
            return
        trial = self.study[number]
        if event == "proposed":
            self._proposed(trial, record.get("verdict"))
        elif event == "reported":
            measurement = trial.rungs[record["fidelity"]]
            self.rule.observe(trial, measurement)
            self.strategy.tell(trial, measurement, None)
            self._tell_followers(trial, [follower for follower in waiting if follower.outcome is not None])
        elif event == "promoted" or record.get("then") == "promoted":
            self.rule.promoted(trial)
        elif record.get("then") == "ended":
            self.rule.ended(trial)
            self.strategy.tell(trial, trial.measurement, trial.outcome)
            self._tell_followers(trial, waiting)

    def _tell_inherited(self) -> None:
        for trial in self.study.inherited:
            for measurement in trial.rungs.values():
                self.strategy.tell(trial, measurement, None)
            self.strategy.tell(trial, trial.measurement, trial.outcome)

    def _proposed(self, trial: Trial, verdict: str | None) -> None:
        if verdict is None:
            self.rule.proposed(trial)
        elif verdict in ("infeasible", "error"):
            self.strategy.tell(trial, None, trial.outcome)
        elif verdict == "duplicate" and trial.outcome is not None:
            self._tell_followers(self._original(trial), [trial])

    def _tell_followers(self, trial: Trial, followers: list[Trial]) -> None:
        for follower in followers:
            self.strategy.tell(follower, trial.measurement, follower.outcome)

    def _original(self, trial: Trial) -> Trial:
        assert trial.duplicate_of is not None
        return self.study[trial.duplicate_of]

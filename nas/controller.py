"""The controller: the loop between strategy, fidelity rule, scheduler, executor and log.

One turn takes the executor's events, folds what they mean into the study, asks for as many legs as the scheduler wants,
writes all of it to the log, and only then executes the turn's commands.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import inf, isfinite

from cluster import (
    Command,
    Ended,
    Executor,
    ExecutorEvent,
    Failed,
    Finished,
    Halt,
    Halting,
    Launch,
    Leg,
    LegId,
    Progress,
    Ready,
    Reported,
    Scheduler,
    Submitted,
    Want,
)
from nas.errors import StorageError
from nas.event_log import EventLog, Record
from nas.fidelity import Continue, Verdict
from nas.outcomes import Retry, end_of, next_attempt
from nas.retention import Retention
from nas.search_state import SearchState
from nas.source import Source, recorder
from nas.study import Study
from nas.trial import Outcome, State, Trial
from nas.trial_plans import ONE_DEVICE, Chosen, TrialPlans
from trainers import Failure, FailureKind, Measurement, Plan

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 0.4

Watch = Callable[[Study, Mapping[int, Measurement]], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ended; ``exit_code`` as in DESIGN, "Answers"."""

    reason: str
    exit_code: int
    study: Study


@dataclass(frozen=True, slots=True)
class Settings:
    """What a controller is told once. ``timeout`` are seconds of a trial's running time."""

    seed: int
    timeout: float | None = None
    max_same_errors: int = 20


class Controller:
    """Runs a search from wherever its study stands to its end.

    ``interrupted`` gives the number of a signal that asked for an end, 0 without one; ``watch`` is called after each
    turn with the study and the newest measurement of each running trial.
    """

    def __init__(
        self,
        state: SearchState,
        scheduler: Scheduler,
        executor: Executor,
        log: EventLog,
        source: Source,
        settings: Settings,
        retention: Retention,
        plans: TrialPlans = ONE_DEVICE,
        interrupted: Callable[[], int] = lambda: 0,
        watch: Watch = lambda study, live: None,
    ) -> None:
        self._state = state
        self._study = state.study
        self._scheduler = scheduler
        self._executor = executor
        self._log = log
        self._record = recorder(log, state)
        self._source = source
        self._settings = settings
        self._retention = retention
        self._plans = plans
        self._interrupted = interrupted
        self._watch = watch
        self._live: dict[int, Measurement] = {}
        self._commands: list[Launch | Halt] = []
        self._wanted = 0
        self._over: str | None = None
        self._storage: str | None = None
        self._same_errors = False
        self._ending = False
        self._moved: set[LegId] = set()

    # The loop -----------------------------------------------------------------------------------------------------

    def run(self, opened: Record) -> Ending:
        """Write ``opened``, take up what was left, and loop to the end. The log is closed when this returns."""
        try:
            self._record({"event": "opened", "at": self._executor.now(), **opened})
            self._take_up()
            self._finish_turn()
            while self._scheduler.busy and not self._interrupted() and self._storage is None:
                self._turn(self._executor.poll(_POLL_SECONDS))
            return self._close()
        finally:
            self._log.abandon()

    def _turn(self, events: Iterable[ExecutorEvent]) -> None:
        for event in events:
            self._on_event(event)
        self._finish_turn()

    def _finish_turn(self) -> None:
        self._fill()
        self._log.flush()
        commands, self._commands = self._commands, []
        for command in commands:
            self._executor.execute(command)
        self._watch(self._study, self._live)

    def _close(self) -> Ending:
        signal = self._interrupted()
        if signal or self._storage is not None:
            self._halt_running()
        reason, exit_code = self._reason(signal)
        self._record(
            {
                "event": "closed",
                "at": self._executor.now(),
                "reason": reason,
                "exit_code": exit_code,
                "final": not signal and self._storage is None,
            }
        )
        self._log.close()
        return Ending(reason, exit_code, self._study)

    def _reason(self, signal: int) -> tuple[str, int]:
        if self._storage is not None:
            return f"storage: {self._storage}", StorageError.exit_code
        if signal:
            return f"interrupted by signal {signal}", 128 + signal
        reason = self._over or self._source.resting()
        if self._same_errors:
            return reason, 3
        good = (*State, Outcome.COMPLETED, Outcome.STOPPED)
        if self._study.launched and not (self._study.any_measured and any(map(self._study.counts().get, good))):
            return f"all trials failed ({reason}){self._last_failure()}", 3
        return reason, 0

    def _last_failure(self) -> str:
        failures = [trial.failures[-1] for trial in self._study.trials() if trial.failures]
        return f"; the last: {failures[-1].error or failures[-1].kind}: {failures[-1].message}" if failures else ""

    def _halt_running(self) -> None:
        """Give running trials a moment to reach a report and write a checkpoint."""
        self._ending = True
        for command in self._scheduler.handle(Ended(self._executor.now(), Halting.CANCEL)):
            if isinstance(command, Halt):
                self._executor.execute(command)
        deadline = self._executor.now() + _GRACE_SECONDS
        while self._scheduler.busy and self._executor.now() < deadline:
            for event in self._executor.poll(0.1):
                self._on_event(event)
        self._log.flush()

    # Events -------------------------------------------------------------------------------------------------------

    def _on_event(self, event: ExecutorEvent) -> None:
        if isinstance(event, Progress):
            self._live[event.id.trial] = event.measurement
            return
        if isinstance(event, Reported):
            self._report(event.at, event.id, event.measurement)
            return
        following: Leg | None = None
        if isinstance(event, Finished | Failed):
            trial = self._study[event.id.trial]
            self._live.pop(trial.number, None)
            if isinstance(event, Finished):
                following = self._finish(event.at, trial, event.busy_seconds)
            else:
                following = self._fail(event)
            self._retention.look(self._study, trial)
        self._obey(self._scheduler.handle(event))
        if following is not None:
            self._submit(event.at, following)

    def _report(self, at: float, id: LegId, measurement: Measurement) -> None:
        trial = self._study[id.trial]
        self._live[id.trial] = measurement
        if measurement.fidelity in trial.rungs:
            return  # from a checkpoint whose measurement the log already has
        self._record(
            {
                "event": "reported",
                "at": at,
                "trial": id.trial,
                "leg": id.leg,
                **measurement.to_json(),
            }
        )
        self._plans.learn(trial, measurement)

    def _finish(self, at: float, trial: Trial, busy_seconds: float) -> Leg | None:
        """Decide, on the record, what comes after a leg."""
        missing = self._study.objectives.missing(trial.metrics)
        if missing:
            self._fail_missing(at, trial, missing, busy_seconds)
            return None
        record: Record = {
            "event": "finished",
            "at": at,
            "trial": trial.number,
            "leg": trial.leg,
            "busy": busy_seconds,
        }
        decision = self._decide(trial)
        if isinstance(decision, Continue):
            self._record({**record, "then": "promoted", "until": decision.until})
            return self._leg(trial, promoted=True)
        if decision is Verdict.PAUSE:
            self._record({**record, "then": "paused"})
        else:
            outcome = Outcome.STOPPED if decision is Verdict.STOP else decision
            self._record({**record, "then": "ended", "outcome": outcome.value})
        return None

    def _decide(self, trial: Trial) -> Continue | Verdict | Outcome:
        measurement = trial.rungs[trial.until]
        if not all(map(isfinite, self._study.objectives.costs(measurement.metrics))):
            return Outcome.DIVERGED
        if measurement.fidelity >= self._state.rule.rungs[-1]:
            return Outcome.COMPLETED
        decision = self._state.rule.on_report(trial, measurement)
        ends = self._over is not None or self._source.ends()
        return Verdict.PAUSE if ends and isinstance(decision, Continue) else decision

    def _fail_missing(self, at: float, trial: Trial, missing: list[str], busy_seconds: float) -> None:
        message = f"not reported: {', '.join(missing)}; the trainer reported {', '.join(sorted(trial.metrics))}"
        failure = Failure(FailureKind.ERROR, message, "report", "MissingMetric")
        self._fail(Failed(at, LegId(trial.number, trial.leg, trial.attempt), failure, busy_seconds))

    def _fail(self, event: Failed) -> Leg | None:
        trial = self._study[event.id.trial]
        failure = event.failure
        record: Record = {
            "event": "failed",
            "at": event.at,
            "trial": trial.number,
            "leg": trial.leg,
            "attempt": event.id.attempt,
            "busy": event.busy_seconds,
            "failure": failure.to_json(),
        }
        if failure.kind is FailureKind.STORAGE:
            self._storage = failure.message
        attempt = next_attempt(trial.failures, failure, Plan.parse(trial.plan), self._scheduler.widest)
        if failure.kind is FailureKind.INFEASIBLE and self._plans.refuse(trial):
            attempt = Retry(Plan())  # the plan was ours, and is no verdict on the candidate
        if isinstance(attempt, Retry):
            self._record({**record, "then": "retry", "plan": str(attempt.plan)})
            moved = event.id in self._moved and not self._ending
            rests = failure.kind in (FailureKind.CANCELLED, FailureKind.STORAGE) and not moved  # until a resume
            return None if rests else self._leg(trial, promoted=True)
        self._record({**record, "then": "ended", "outcome": end_of(failure).value})
        self._check_same_errors()
        return None

    def _check_same_errors(self) -> None:
        error = self._study.same_error(self._settings.max_same_errors)
        if error is not None and self._over is None:
            self._same_errors = True
            same = self._study.same_errors
            self._over = f"same error in {same} trials in a row: {error.error}: {error.message}"
            self._ending = True
            self._obey(self._scheduler.handle(Ended(self._executor.now(), Halting.STOP)))

    # Legs ---------------------------------------------------------------------------------------------------------

    def _take_up(self) -> None:
        """Submit again what a killed session had submitted, in the same order.

        A leg whose measurement is on record has nothing left to run: it is finished here.
        """
        now = self._executor.now()
        self._plans.recall(self._study.trials())
        active = sorted(self._study.active(), key=lambda trial: trial.launch_order if trial.broken_off else inf)
        done = [trial for trial in active if trial.until in trial.rungs]
        following = [self._finish(now, trial, trial.rungs[trial.until].seconds) for trial in done]
        for trial in active:
            if trial not in done:
                since = trial.leg_since if trial.broken_off else None
                self._submit(now, self._leg(trial, promoted=trial.launches > 0, since=since))
        for leg in filter(None, following):
            self._submit(now, leg)
        self._obey(self._scheduler.handle(Ready(now)))

    def _fill(self) -> None:
        """Ask for as many legs as the scheduler wants."""
        while self._wanted > 0 and self._over is None and self._storage is None and not self._interrupted():
            trial = self._source.next(self._executor.now())
            self._over = self._source.over
            if self._source.failing:
                self._check_same_errors()
            if trial is None:
                return
            self._submit(self._executor.now(), self._leg(trial, promoted=trial.leg > 0))

    def _leg(self, trial: Trial, promoted: bool = False, since: float | None = None) -> Leg:
        timeout, chosen = self._settings.timeout, self._chosen(trial)
        return Leg(
            id=LegId(trial.number, trial.leg, trial.attempt + 1),
            candidate=trial.proposal.candidate,
            start=trial.fidelity,
            until=trial.until,
            seed=trial_seed(self._settings.seed, trial.number),
            plan=chosen.plan,
            options=chosen.options,
            source=trial.proposal.start_from,
            promoted=promoted,
            time_limit=None if timeout is None else max(timeout - trial.busy_seconds, 0.1),
            since=since,
        )

    def _chosen(self, trial: Trial) -> Chosen:
        """A wider plan where memory ran out, as far as the cluster allows."""
        if trial.count(FailureKind.OUT_OF_MEMORY):
            widened = Plan.parse(trial.plan)
            if widened.width <= self._scheduler.widest:
                return Chosen(widened)
        return self._plans.choose(trial, self._scheduler.widest)

    def _submit(self, at: float, leg: Leg) -> None:
        self._obey(self._scheduler.handle(Submitted(at, leg)))

    def _obey(self, commands: Iterable[Command]) -> None:
        """Put launches on record and keep them for the turn's end."""
        self._wanted = 0
        for command in commands:
            if isinstance(command, Want):
                self._wanted = command.legs
                continue
            if isinstance(command, Launch):
                self._record_launch(command)
            elif command.how is Halting.PAUSE:
                self._moved.add(command.id)  # off a node that drains
            self._commands.append(command)

    def _record_launch(self, launch: Launch) -> None:
        for leg in launch.legs:
            record: Record = {
                "event": "launched",
                "at": launch.at,
                "trial": leg.id.trial,
                "leg": leg.id.leg,
                "attempt": leg.id.attempt,
                "until": leg.until,
                "plan": str(launch.plan),
                "on": launch.allocation.parts,
            }
            if leg.options:
                record["share"] = self._plans.share
                record["options"] = [option.to_json() for option in leg.options]
            if leg.since is not None:
                record["since"] = leg.since
            self._record(record)


def trial_seed(seed: int, trial: int) -> int:
    """Seed of a trial's training (31 bits), a function of the study's seed and the trial's number."""
    return int.from_bytes(blake2b(f"{seed}/{trial}".encode(), digest_size=4).digest()) >> 1

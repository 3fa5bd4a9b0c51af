"""A study: all trials of one search, folded from its event log.

`Study.apply` takes one record after another, live and on replay alike; nothing else changes a study. It imports no code
of the study, so that reports work long after the run.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from cluster import Node
from nas import event_log
from nas.errors import StudyError
from nas.event_log import Record
from nas.objective import Direction, Objective, Objectives
from nas.pareto import non_dominated_ranks
from nas.proposal import Proposal
from nas.trial import Outcome, State, Trial
from search_spaces import Architecture, Bound, Candidate, Values
from search_spaces.values import from_json
from trainers import Failure, FailureKind, Fidelity, Measurement, numbers_from_json

SCHEMA = 1
_FIRST_ERRORS = 3


class Study:
    """All trials of one search. Times are seconds on the executor's clock, which goes on over resumes.

    ``machines`` are those that the last session began with, none where the record does not say.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header: Mapping[str, Any] = {}
        self.objectives = Objectives(())
        self.closed: str | None = None
        self.exit_code: int | None = None
        self.seconds = 0.0
        self.sessions = 0
        self.launches_of_session = 0
        self.machines: tuple[Node, ...] = ()
        self.launched = 0
        self.rejected = 0
        self.duplicates = 0
        self.device_seconds = 0.0
        self.busy_seconds = 0.0
        self.barren = 0
        self.config: Mapping[str, Any] = {}
        self.same_errors = 0
        self.leading_cost = inf
        self.any_measured = False
        self._last_failure: Failure | None = None
        self._judged = 0
        self._highest: Fidelity = 0
        self._legs_launched = 0
        self.inherited_from: str | None = None
        self.inherited: list[Trial] = []
        self._trials: list[Trial] = []
        self._by_key: dict[str, Trial] = {}
        self._active: dict[int, Trial] = {}
        self._untold: dict[int, Trial] = {}
        self._paused: dict[int, Trial] = {}
        self._followers: dict[int, list[Trial]] = {}
        self._fold: dict[str, Callable[[Record], None]] = {
            "study": self._on_study,
            "inherited": self._on_inherited,
            "opened": self._on_opened,
            "proposed": self._on_proposed,
            "launched": self._on_launched,
            "reported": self._on_reported,
            "finished": self._on_finished,
            "failed": self._on_failed,
            "promoted": self._on_promoted,
            "closed": self._on_closed,
        }

    # What can be asked --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, number: int) -> Trial:
        """A trial of this study; below 0 one that it inherited, from -1 on."""
        return self._trials[number] if number >= 0 else self.inherited[-1 - number]

    def trials(self) -> list[Trial]:
        """All trials by number, the rejected and the duplicates included."""
        return list(self._trials)

    def active(self) -> list[Trial]:
        """Trials that are waiting or running, in the order in which their legs were submitted."""
        return list(self._active.values())

    def running(self) -> list[Trial]:
        """Trials that hold devices."""
        return [trial for trial in self._active.values() if trial.state is State.RUNNING]

    def paused(self) -> list[Trial]:
        """Trials between two legs."""
        return list(self._paused.values())

    def pending(self) -> list[Trial]:
        """Proposed trials of which a strategy has been told nothing yet, duplicates of them included."""
        return list(self._untold.values())

    def known(self, key: str) -> Trial | None:
        """The trial that answers for ``key``."""
        return self._by_key.get(key)

    def followers(self, trial: Trial) -> list[Trial]:
        """Duplicates that wait for the first answer of ``trial``."""
        return self._followers.get(trial.number, [])

    def same_error(self, limit: int) -> Failure | None:
        """The error that came ``limit`` times in a row, or the first 3 times where nothing else has come yet."""
        if self.same_errors == self._judged:
            limit = min(_FIRST_ERRORS, limit)
        return self._last_failure if self.same_errors >= limit else None

    def allocated_seconds(self) -> float:
        """Device-seconds allocated so far, those of running legs up to the last event included."""
        return self.device_seconds + sum(
            (self.seconds - trial.launched_at) * trial.devices
            for trial in self._active.values()
            if trial.launched_at is not None
        )

    def highest(self) -> Fidelity:
        """The highest fidelity that any trial reached."""
        return self._highest

    @property
    def accepted(self) -> int:
        """Proposals that were neither rejected nor duplicates: each is launched once, or waits for it."""
        return len(self._trials) - self.rejected - self.duplicates

    def compared(self) -> list[Trial]:
        """Trials that were measured whole at the highest fidelity any trial reached."""
        highest = self.highest()
        return [
            trial
            for trial in self._trials
            if highest and trial.fidelity == highest
            if trial.outcome is None or not trial.outcome.useless
            if not self.objectives.missing(trial.metrics)
        ]

    def feasible(self) -> list[Trial]:
        """Those of `compared` that met all constraints."""
        return [trial for trial in self.compared() if not self.objectives.violations(trial.metrics)]

    def best(self) -> Trial | None:
        """The best first objective at the highest fidelity, ties by the next objectives, then by number."""
        ranked = [(self.objectives.costs(trial.metrics), trial.number, trial) for trial in self.feasible()]
        return min(ranked)[-1] if ranked else None

    def front(self) -> list[Trial]:
        """The Pareto front at the highest fidelity, best first objective first; equals are kept."""
        trials = self.feasible()
        costs = [self.objectives.costs(trial.metrics) for trial in trials]
        ranks = non_dominated_ranks(costs)
        front = [
            (cost, trial.number, trial) for cost, trial, rank in zip(costs, trials, ranks, strict=True) if not rank
        ]
        return [trial for *_, trial in sorted(front)]

    def counts(self) -> dict[str, int]:
        """Launched trials by outcome, or by state where they have none yet."""
        counts: dict[str, int] = {}
        for trial in self._trials:
            if trial.launches:
                name = (trial.outcome or trial.state).value
                counts[name] = counts.get(name, 0) + 1
        return counts

    # The fold -----------------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Take one record. Records of a kind not known are left out: a newer version may have written them."""
        fold = self._fold.get(record["event"])
        if fold is not None:
            fold(record)
        at = record.get("at")
        if at is not None and at > self.seconds:
            self.seconds = at

    def _on_study(self, record: Record) -> None:
        if record["schema"] > SCHEMA:
            raise StudyError(
                f"{self.folder}: written in schema {record['schema']}, this version reads up to {SCHEMA}; "
                "upgrade ray-nas"
            )
        self.header = record
        self.objectives = objectives_from_plain(record["objectives"], record["constraints"])

    def _on_inherited(self, record: Record) -> None:
        """Trials of an older study: strategies know them, nothing here counts them."""
        self.inherited_from = record["from"]
        self.inherited = [_inherited(-1 - at, plain) for at, plain in enumerate(record["trials"])]

    def _on_opened(self, record: Record) -> None:
        """A session begins: what ran when the last one died holds no devices, what was stopped at its end may go on."""
        self.sessions += 1
        self.launches_of_session = 0
        self.machines = tuple(Node(*machine) for machine in record.get("cluster", ()))
        self.config = record["config"]
        self.closed = self.exit_code = None
        self._break_off(record["at"])
        for trial in self._paused.values():
            trial.state, trial.outcome = State.PAUSED, None

    def _break_off(self, at: float) -> None:
        for trial in self.running():
            self._release(trial, at)
            trial.state, trial.broken_off = State.WAITING, True

    def _on_proposed(self, record: Record) -> None:
        start_from = record.get("start_from")
        proposal = Proposal(
            candidate=Candidate(
                Architecture(_values(record["architecture"])),
                Values(_values(record["hyperparameters"])),
            ),
            parents=tuple(record.get("parents", ())),
            operator=record["operator"],
            start_from=(start_from[0], start_from[1]) if start_from else None,
            notes=record.get("notes"),
            fitted_on=record.get("fitted_on"),
        )
        number = record["trial"]
        if number != len(self._trials):
            raise StudyError(f"{self.folder}: trial {number} is proposed out of order, {len(self._trials)} was due")
        trial = Trial(
            number,
            proposal,
            record["key"],
            record["bracket"],
            record["until"],
            numbers_from_json(record["static"]) if "static" in record else {},
        )
        self._trials.append(trial)
        verdict = record.get("verdict")
        if verdict is None:
            self.barren = 0
            self._by_key[trial.key] = trial
            self._active[number] = self._untold[number] = trial
            return
        self.barren += 1
        trial.state, trial.reason, trial.ended_at = State.ENDED, record.get("reason", ""), record["at"]
        if verdict == "duplicate":
            self.duplicates += 1
            self._follow(trial, self._trials[record["of"]])
            return
        self.rejected += 1
        self._by_key.setdefault(trial.key, trial)
        trial.outcome = Outcome.INFEASIBLE
        if verdict == "error":
            trial.outcome = Outcome.ERROR
            trial.failures.append(Failure.from_json(record["failure"]))
            self._count_error(trial.failures[-1])

    def _follow(self, trial: Trial, original: Trial) -> None:
        trial.duplicate_of = original.number
        if answers(original, trial.until):
            trial.outcome = original.outcome or Outcome.STOPPED
        else:
            self._followers.setdefault(original.number, []).append(trial)
            self._untold[trial.number] = trial

    def _on_launched(self, record: Record) -> None:
        trial = self._trials[record["trial"]]
        if not trial.launches:
            self.launched += 1
            trial.first_launched_at = record["at"]
        trial.launches += 1
        self.launches_of_session += 1
        if "since" not in record:
            self._legs_launched += 1
            trial.leg_since, trial.launch_order = record["at"], self._legs_launched
        trial.attempt = record["attempt"]
        trial.state, trial.broken_off = State.RUNNING, False
        trial.launched_at = record["at"]
        trial.plan = record["plan"]
        trial.on = tuple((node, count) for node, count in record["on"])
        trial.devices = sum(count for _, count in trial.on)

    def _on_reported(self, record: Record) -> None:
        trial = self._trials[record["trial"]]
        measurement = Measurement.from_json(record)
        metrics = {**trial.static, **measurement.metrics}
        trial.rungs[record["fidelity"]] = replace(measurement, metrics=metrics)
        if not self.objectives.missing(metrics):
            self._count_measured(record["fidelity"], metrics)
        self._answer(trial, Outcome.STOPPED, record["fidelity"])

    def _count_measured(self, fidelity: Fidelity, metrics: Mapping[str, float]) -> None:
        self._judged, self.same_errors = self._judged + 1, 0
        costs = self.objectives.costs(metrics)
        if inf not in costs:  # else it has diverged
            self._highest, self.any_measured = max(self._highest, fidelity), True
        if not self.objectives.violations(metrics):
            self.leading_cost = min(self.leading_cost, costs[0])

    def _answer(self, trial: Trial, outcome: Outcome, fidelity: Fidelity = inf) -> None:
        """Tell the duplicates that asked for no more than ``fidelity``."""
        self._untold.pop(trial.number, None)
        waiting = self._followers.pop(trial.number, [])
        for follower in waiting:
            if follower.until <= fidelity:
                follower.outcome = outcome
                self._untold.pop(follower.number, None)
        still = [follower for follower in waiting if follower.until > fidelity]
        if still:
            self._followers[trial.number] = still

    def _on_finished(self, record: Record) -> None:
        trial = self._trials[record["trial"]]
        self._release(trial, record["at"])
        trial.broken_off = False
        trial.busy_seconds += record["busy"]
        self.busy_seconds += record["busy"] * trial.devices
        if record["then"] == "promoted":
            self._next_leg(trial, record["until"])
        elif record["then"] == "paused":
            del self._active[trial.number]
            trial.state = State.PAUSED
            self._paused[trial.number] = trial
        else:
            self._end(trial, Outcome(record["outcome"]), record)

    def _on_failed(self, record: Record) -> None:
        trial = self._trials[record["trial"]]
        self._release(trial, record["at"])
        trial.failures.append(Failure.from_json(record["failure"]))
        self.busy_seconds += record["busy"] * trial.devices
        if trial.failures[-1].kind not in (FailureKind.NODE_LOST, FailureKind.PREEMPTED):
            trial.busy_seconds += record["busy"]
        if record["then"] == "ended":
            self._count_error(trial.failures[-1])
            trial.reason = trial.failures[-1].message
            self._end(trial, Outcome(record["outcome"]), record)
            return
        trial.state, trial.plan = State.WAITING, record.get("plan", trial.plan)

    def _count_error(self, failure: Failure) -> None:
        """Count failures in a row that have one exception type and innermost frame."""
        last, self._last_failure = self._last_failure, failure
        same = last is not None and (failure.error, failure.frame) == (last.error, last.frame)
        error = failure.kind is FailureKind.ERROR
        self.same_errors = self.same_errors + 1 if error and same else int(error)
        self._judged += 1

    def _on_promoted(self, record: Record) -> None:
        trial = self._trials[record["trial"]]
        del self._paused[trial.number]
        self._active[trial.number] = trial
        self._next_leg(trial, record["until"])

    def _next_leg(self, trial: Trial, until: Fidelity) -> None:
        trial.state, trial.until = State.WAITING, until
        trial.leg, trial.attempt = trial.leg + 1, -1
        self._active[trial.number] = self._active.pop(trial.number)  # last submitted, last in order

    def _end(self, trial: Trial, outcome: Outcome, record: Record) -> None:
        del self._active[trial.number]
        trial.state, trial.outcome, trial.ended_at = State.ENDED, outcome, record["at"]
        self._answer(trial, outcome)

    def _release(self, trial: Trial, at: float) -> None:
        if trial.launched_at is not None:
            seconds = (at - trial.launched_at) * trial.devices
            trial.device_seconds += seconds
            self.device_seconds += seconds
            trial.launched_at, trial.on = None, ()

    def _on_closed(self, record: Record) -> None:
        self.closed, self.exit_code = record["reason"], record["exit_code"]
        self._break_off(record["at"])
        if record["final"]:
            for trial in self._paused.values():
                trial.state, trial.outcome = State.ENDED, Outcome.STOPPED


def _values(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values as the log has them, its lists as tuples."""
    if any(type(value) is list for value in plain.values()):
        return {name: from_json(value) for name, value in plain.items()}
    return plain


def _inherited(number: int, plain: Mapping[str, Any]) -> Trial:
    architecture = Architecture(_values(plain["architecture"]))
    proposal = Proposal(Candidate(architecture, Values(_values(plain["hyperparameters"]))), operator="inherited")
    rungs = {
        fidelity: Measurement(fidelity, numbers_from_json(metrics), seconds)
        for fidelity, metrics, seconds in plain["rungs"]
    }
    outcome = Outcome(plain["outcome"])
    return Trial(number, proposal, "", 0, max(rungs), {}, State.ENDED, outcome, rungs=rungs)


def answers(trial: Trial, until: Fidelity) -> bool:
    """Whether the record of ``trial`` answers a proposal of the same key that asks for fidelity ``until``."""
    return trial.fidelity >= until or (trial.state is State.ENDED and trial.outcome is not Outcome.STOPPED)


def objectives_from_plain(objectives: Mapping[str, str], constraints: Mapping[str, str]) -> Objectives:
    """Read the objectives and constraints as configuration and log write them."""
    return Objectives(
        tuple(Objective(name, Direction(direction)) for name, direction in objectives.items()),
        tuple(Bound.parse(name, text) for name, text in constraints.items()),
    )


def replay(folder: Path, apply: Callable[[Record], None], records: Iterable[Record] | None = None) -> None:
    """Give each record of the log in ``folder`` (or of ``records``) to ``apply``.

    Raises StudyError with the number of a record that does not fit those before it.
    """
    for number, record in enumerate(event_log.read(folder) if records is None else records, 1):
        try:
            apply(record)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise StudyError(
                f"{folder / event_log.FILE}, record {number} ({record['event']}) does not fit those before it "
                f"({type(error).__name__}: {error}); restore the file from a copy"
            ) from error


def fold(folder: Path, records: Iterable[Record] | None = None) -> Study:
    """A study from the log in ``folder``, or from ``records``, as `replay` gives them."""
    study = Study(folder)
    replay(folder, study.apply, records)
    return study


def load(folder: str | Path) -> Study:
    """Read the study in ``folder``; raise StudyError where there is none or its log is damaged."""
    study = fold(Path(folder))
    if not study.header:
        raise StudyError(f"{folder}: the event log has no header; it was ended before it began")
    return study

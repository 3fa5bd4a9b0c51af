"""The controller's loop, on the simulated and inline executors and on one that does as it is told."""

import os
from collections import Counter
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nas
from cluster import Node
from nas import Outcome, State
from nas.errors import AllFailedError, StorageError
from nas.proposal import EXHAUSTED, WAIT, Proposal
from search_spaces import Architecture, Candidate
from tests.nas.scripted import (
    CODE,
    HANG,
    Line,
    Quartet,
    Scripted,
    Told,
    failure,
    records,
    search,
    tables,
    value,
)
from trainers import Plan

ASHA = {"rule": "asha", "min": 1, "max": 9, "eta": 3}


def told_to(log):
    """A strategy class that tells ``log``."""
    return type(
        "Told", (Told,), {"__init__": lambda self, space, objectives: Told.__init__(self, space, objectives, log)}
    )


# The outcomes of DESIGN's table


@pytest.mark.parametrize(
    ("script", "launches", "outcome"),
    [
        (["crashed"] * 9, 3, Outcome.CRASHED),
        (["crashed", "crashed", "good"], 3, Outcome.COMPLETED),
        (["timed_out", "good"], 1, Outcome.TIMED_OUT),
        (["diverged", "good"], 1, Outcome.DIVERGED),
        (["infeasible", "good"], 1, Outcome.INFEASIBLE),
        (["error", "good"], 1, Outcome.ERROR),
        (["out_of_memory", "good"], 2, Outcome.COMPLETED),
        (["out_of_memory", "out_of_memory", "good"], 2, Outcome.OUT_OF_MEMORY),
        (["node_lost"] * 20 + ["good"], 21, Outcome.COMPLETED),
        (["preempted"] * 20 + ["good"], 21, Outcome.COMPLETED),
        (["crashed", "node_lost", "crashed", "preempted", "good"], 5, Outcome.COMPLETED),
        (["node_lost", "crashed", "preempted", "crashed", "node_lost", "crashed"], 6, Outcome.CRASHED),
        (["crashed", "crashed", "out_of_memory", "good"], 4, Outcome.COMPLETED),
    ],
)
def test_each_failure_has_its_policy(tmp_path, script, launches, outcome):
    log, parts = [], list(script)
    ending, executor = search(
        tmp_path,
        lambda leg, launch: value(leg) if (kind := parts.pop(0)) == "good" else failure(kind),
        devices=2,
        search={"trials": 1, "strategy": told_to(log)},
    )
    (trial,) = ending.study.trials()
    assert (trial.launches, trial.outcome) == (launches, outcome)
    assert [launch.legs[0].id for launch in executor.launches] == [(0, 0, attempt) for attempt in range(launches)]
    assert ending.study.launched == 1
    ends = [ended for _, _, ended in log if ended is not None]
    assert ends == [outcome]  # retries, losses and preemptions are not told
    assert ending.exit_code == (0 if outcome is Outcome.COMPLETED else 3)


def test_out_of_memory_is_tried_once_more_on_twice_the_devices(tmp_path):
    def outcome(leg, launch):
        return value(leg) if launch.plan.width > 1 else failure("out_of_memory")

    ending, executor = search(tmp_path, outcome, devices=2, search={"trials": 2}, fidelity=ASHA)
    for trial in ending.study.trials():
        plans = [launch.plan for launch in executor.launches if launch.legs[0].id.trial == trial.number]
        assert plans[:2] == [Plan(), Plan(data=2)]
        assert set(plans[2:]) <= {Plan(data=2)}  # later legs know better
    assert all(launch.allocation.devices == launch.plan.width for launch in executor.launches)
    assert ending.exit_code == 0


@pytest.mark.parametrize(("devices", "cluster"), [(1, {}), (2, {"max_devices": 1})])
def test_out_of_memory_ends_where_there_are_no_more_devices(tmp_path, devices, cluster):
    ending, _ = search(
        tmp_path, lambda leg, launch: failure("out_of_memory"), devices, search={"trials": 2}, cluster=cluster
    )
    assert [(trial.launches, trial.outcome) for trial in ending.study.trials()] == [(1, Outcome.OUT_OF_MEMORY)] * 2


def test_out_of_memory_ends_where_the_devices_are_of_two_kinds(tmp_path):
    nodes = (Node("a", 1), Node("b", 1, "gpu"))
    executor = Scripted(lambda leg, launch: failure("out_of_memory"), nodes=nodes)
    ending, _ = search(tmp_path, executor, search={"trials": 1})
    assert [(trial.launches, trial.outcome) for trial in ending.study.trials()] == [(1, Outcome.OUT_OF_MEMORY)]


def test_a_retry_goes_on_from_the_last_rung(tmp_path):
    crashes = {(0, 2): 1, (1, 1): 2}

    def outcome(leg, launch):
        if crashes.get((leg.id.trial, leg.id.leg), 0):
            crashes[leg.id.trial, leg.id.leg] -= 1
            return failure("crashed")
        return {"a": 1.0}

    ending, executor = search(tmp_path, outcome, search={"trials": 1}, fidelity={**ASHA, "rule": "asha-stop"})
    legs = [launch.legs[0] for launch in executor.launches]
    assert [(leg.id.leg, leg.id.attempt, leg.start, leg.until) for leg in legs] == [
        (0, 0, 0, 1),
        (1, 0, 1, 3),
        (2, 0, 3, 9),
        (2, 1, 3, 9),
    ]
    assert len({leg.seed for leg in legs}) == 1
    assert ending.study[0].outcome is Outcome.COMPLETED


@pytest.mark.parametrize("after", ["crashed", "node_lost", "error", "cancelled"])
def test_a_leg_that_fails_after_its_report_keeps_the_report(tmp_path, after):
    """The report stands; another attempt finds the checkpoint and reports the same again, which the log drops."""
    first = []

    def outcome(leg, launch):
        if not first:
            first.append(leg)
            return [value(leg), failure(after)]
        return value(leg)

    ending, _ = search(tmp_path, outcome, search={"trials": 1})
    trial = ending.study[0]
    assert list(trial.rungs) == [1]
    expected = {"error": Outcome.ERROR, "cancelled": None}.get(after, Outcome.COMPLETED)
    assert trial.outcome is expected
    assert sum(record["event"] == "reported" for record in records(tmp_path)) == 1


@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_an_objective_that_is_not_finite_is_divergence(tmp_path, bad):
    ending, _ = search(
        tmp_path,
        lambda leg, launch: {"a": bad} if leg.id.trial else value(leg),
        search={"trials": 3},
        fidelity=ASHA,
    )
    assert [trial.outcome for trial in ending.study.trials()[1:]] == [Outcome.DIVERGED] * 2
    assert ending.study.best().number == 0


def test_a_target_is_not_reached_by_a_number_that_is_not_finite(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: {"a": inf}, search={"trials": 4, "target": 50})
    assert ending.study.launched == 4


def test_when_every_trial_diverges_all_have_failed(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: {"a": nan}, search={"trials": 3})
    assert ending.exit_code == 3


# The same error again and again


def error(at="line 7"):
    return failure("error", "KeyError", at)


def test_the_first_three_with_the_same_error_end_the_search(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: error(), search={"trials": 50})
    assert (ending.study.launched, ending.exit_code) == (3, 3)
    assert "KeyError" in ending.reason


def test_after_a_success_it_takes_twenty_in_a_row(tmp_path):
    good = {0, 20}

    def outcome(leg, launch):
        return value(leg) if leg.id.trial in good else error()

    ending, _ = search(tmp_path, outcome, search={"trials": 90, "space": Line})
    assert ending.study.launched == 41  # 0, 19 errors, 20, 20 errors
    assert ending.exit_code == 3


def test_max_same_errors_is_what_the_user_says(tmp_path):
    def outcome(leg, launch):
        return error() if leg.id.trial else value(leg)

    ending, _ = search(tmp_path, outcome, search={"trials": 90, "max_same_errors": 5})
    assert (ending.study.launched, ending.exit_code) == (6, 3)


def test_errors_of_different_frames_or_kinds_never_end_a_search_early(tmp_path):
    def outcome(leg, launch):
        return [error("line 1"), error("line 2"), failure("timed_out")][leg.id.trial % 3]

    ending, _ = search(tmp_path, outcome, search={"trials": 30})
    assert (ending.study.launched, ending.exit_code) == (30, 3)
    assert "all trials failed" in ending.reason


def test_three_equal_errors_that_are_not_the_first_do_not_end_a_search(tmp_path):
    def outcome(leg, launch):
        return failure("timed_out") if leg.id.trial == 0 else error() if leg.id.trial < 15 else value(leg)

    ending, _ = search(tmp_path, outcome, search={"trials": 20})
    assert (ending.study.launched, ending.exit_code) == (20, 0)


def test_the_same_error_ends_a_search_that_has_legs_waiting_and_running(tmp_path):
    """A wide leg waits for devices, another one hangs, and their trials are kept for a resume."""

    def outcome(leg, launch):
        return {0: failure("out_of_memory"), 1: HANG}.get(leg.id.trial, error())

    ending, executor = search(tmp_path, outcome, devices=3, search={"trials": 30, "max_same_errors": 1})
    assert ending.exit_code == 3
    assert not ending.study.running()
    assert [halt.id.trial for halt in executor.halts].count(1) == 1


def test_a_halted_leg_that_ends_well_all_the_same_ends_the_search_too(tmp_path):
    class Deaf(Scripted):
        def execute(self, command):
            if not hasattr(command, "how"):
                super().execute(command)

    def outcome(leg, launch):
        return error() if leg.id.trial else {"a": 1.0}

    executor = Deaf(outcome, 4, tmp_path)
    ending, _ = search(
        tmp_path, executor, search={"trials": 9, "max_same_errors": 1}, fidelity={**ASHA, "rule": "asha-stop"}
    )
    assert ending.exit_code == 3
    assert not ending.study.running()


def test_a_metric_that_is_never_reported_ends_the_search_and_names_it(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: {"accuracy": 1.0, "loss": 0.1}, search={"trials": 50})
    assert (ending.study.launched, ending.exit_code) == (3, 3)
    failed = ending.study[0].failures[0]
    assert "a" in failed.message.split(":")[1]
    assert "accuracy, loss" in failed.message
    assert ending.study[0].outcome is Outcome.ERROR


# Constraints


def test_a_constraint_that_is_measured_late_keeps_a_trial_from_the_answers(tmp_path):
    def outcome(leg, launch):
        return {"a": float(leg.id.trial), "latency": 9.0 if leg.id.trial > 2 else 1.0}

    ending, _ = search(tmp_path, outcome, constraints={"latency": "<= 5"})
    study = ending.study
    assert {trial.outcome for trial in study.trials()} == {Outcome.COMPLETED}
    assert study.best().number == 2
    assert [trial.number for trial in study.front()] == [2]


def test_best_and_front_are_of_the_highest_fidelity(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: {"a": 100.0 / leg.until}, search={"trials": 9}, fidelity=ASHA)
    study = ending.study
    assert study.highest() == 9
    assert study.best().fidelity == 9


def test_ties_of_the_first_objective_go_to_the_next_then_to_the_number(tmp_path):
    def outcome(leg, launch):
        return {"a": 1.0, "b": 5.0 if leg.id.trial in (2, 4) else 7.0}

    ending, _ = search(tmp_path, outcome, objectives={"a": "maximize", "b": "minimize"})
    assert ending.study.best().number == 2
    assert [trial.number for trial in ending.study.front()] == [2, 4]


# Duplicates and the ends of a space


class Stuck:
    """Proposes the same for ever."""

    def __init__(self, space, objectives):
        self.space = space

    def ask(self, pending, rng):
        return Proposal(self.space.sample(np.random.default_rng(0)), operator="stuck")

    def tell(self, trial, measurement, ended):
        pass


def test_a_strategy_that_repeats_itself_is_helped_by_random_candidates(tmp_path):
    ending, _ = search(
        tmp_path, lambda leg, launch: value(leg), search={"space": Quartet, "strategy": Stuck, "trials": 50}
    )
    assert ending.study.launched == 4  # the whole space
    trials = ending.study.trials()
    launched = [trial for trial in trials if trial.launches]
    assert [trial.proposal.operator for trial in launched] == ["stuck"] + 3 * ["sample-after-repeats"]
    assert all(trial.number >= 51 for trial in launched[1:])
    assert "1,000 duplicates" in ending.reason


@pytest.mark.parametrize("rule", ["none", "asha", "asha-stop"])
def test_a_small_space_ends_as_exhausted_and_each_candidate_is_launched_once(tmp_path, rule):
    ending, executor = search(
        tmp_path,
        lambda leg, launch: value(leg),
        devices=2,
        search={"space": Quartet, "strategy": "random", "trials": 50},
        fidelity={**ASHA, "rule": rule},
    )
    study = ending.study
    assert (ending.exit_code, study.launched) == (0, 4)
    assert "exhausted" in ending.reason
    assert study.duplicates >= 1000
    assert study.barren == 1000
    assert len({launch.legs[0].candidate for launch in executor.launches}) == 4


def test_an_exhausted_space_still_promotes(tmp_path):
    """Nothing new can be proposed; what ASHA would promote goes on all the same."""
    ending, _ = search(
        tmp_path,
        lambda leg, launch: value(leg),
        devices=4,
        search={"space": Quartet, "strategy": "random", "trials": 50},
        fidelity=ASHA,
    )
    best = ending.study.best()
    assert (best.fidelity, best.proposal.candidate.architecture["x"]) == (3, 3)


class Listing(Told):
    """All of a space, once."""

    def ask(self, pending, rng):
        number = self.number(pending)
        return Proposal(Candidate(Architecture({"x": number}))) if number < 9 else EXHAUSTED


def test_an_exhausted_strategy_still_promotes(tmp_path):
    ending, _ = search(
        tmp_path,
        lambda leg, launch: value(leg),
        devices=9,
        search={"strategy": Listing, "trials": 50},
        fidelity=ASHA,
    )
    assert (ending.exit_code, ending.study.launched) == (0, 9)
    assert "nothing left to propose" in ending.reason
    fidelities = Counter(trial.fidelity for trial in ending.study.trials())
    assert fidelities[9] >= 1
    assert fidelities[3] + fidelities[9] >= 3


def test_a_strategy_that_waits_is_asked_again_and_never_ends_a_search_that_runs(tmp_path):
    class OneByOne(Told):
        def ask(self, pending, rng):
            return WAIT if pending else super().ask(pending, rng)

    ending, executor = search(tmp_path, lambda leg, launch: value(leg), devices=4, search={"strategy": OneByOne})
    assert (ending.study.launched, ending.exit_code) == (6, 0)


def test_a_strategy_that_waits_for_nothing_ends_the_search_with_the_reason(tmp_path):
    class Waiting(Told):
        def ask(self, pending, rng):
            return WAIT

    ending, _ = search(tmp_path, lambda leg, launch: value(leg), search={"strategy": Waiting})
    assert "waits" in ending.reason


class Repeating(Told):
    """Proposes the same two candidates for ever."""

    def number(self, pending):
        return super().number(pending) % 2


def test_duplicates_are_answered_from_the_record_and_told(tmp_path):
    log = []
    strategy = type(
        "Twice", (Repeating,), {"__init__": lambda self, space, objectives: Told.__init__(self, space, objectives, log)}
    )
    ending, executor = search(tmp_path, lambda leg, launch: {"a": 7.0}, search={"strategy": strategy, "trials": 3})
    assert (ending.study.launched, len(executor.launches)) == (3, 3)  # the third is drawn at random
    assert ending.study.duplicates >= 50
    answered = [(trial, measurement, ended) for trial, measurement, ended in log if trial.duplicate_of is not None]
    assert len(answered) == ending.study.duplicates
    assert all(measurement.metrics["a"] == 7.0 and ended is Outcome.COMPLETED for _, measurement, ended in answered)


@pytest.mark.parametrize("end", ["good", "error"])
def test_duplicates_of_a_trial_in_flight_wait_for_it(tmp_path, end):
    log = []

    class Twice(Told):
        def __init__(self, space, objectives):
            super().__init__(space, objectives, log)

        def ask(self, pending, rng):
            if not pending and not self.log:
                return super().ask(pending, rng)
            return Proposal(Candidate(Architecture({"x": 0}))) if len(pending) < 4 and not self.log else EXHAUSTED

    def outcome(leg, launch):
        assert log == []  # nothing is told before the trial has reported
        return {"a": 7.0} if end == "good" else error()

    ending, executor = search(tmp_path, outcome, devices=2, search={"strategy": Twice, "trials": 3})
    assert len(executor.launches) == 1
    duplicates = ending.study.trials()[1:]
    assert [trial.duplicate_of for trial in duplicates] == [0, 0, 0]
    for duplicate in duplicates:
        ((_, measurement, ended),) = [entry for entry in log if entry[0] is duplicate]
        if end == "good":
            assert measurement.metrics["a"] == 7.0
        else:
            assert (measurement, ended) == (None, Outcome.ERROR)


def test_infeasible_proposals_are_counted_beside_and_a_thousand_end_the_search(tmp_path):
    from search_spaces import Choice, Infeasible, SearchSpace

    class Never(SearchSpace):
        decisions = {"x": Choice(*range(2000))}

        def build(self, architecture, signature):
            raise Infeasible("no such network")

    ending, executor = search(
        tmp_path,
        lambda leg, launch: value(leg),
        search={"space": Never, "strategy": "random"},
        constraints={"parameters": "<= 10"},
    )
    study = ending.study
    assert not executor.launches
    assert (study.rejected + study.duplicates, study.launched, ending.exit_code) == (1000, 0, 0)
    assert "exhausted" in ending.reason


# Budgets


@settings(max_examples=40, deadline=None)
@given(
    trials=st.integers(1, 25),
    devices=st.integers(1, 5),
    rule=st.sampled_from(["none", "asha", "asha-stop"]),
    seed=st.integers(0, 1000),
    concurrent=st.sampled_from([None, 2]),
)
def test_trials_are_launched_exactly_as_often_as_asked_whatever_becomes_of_them(
    tmp_path_factory, trials, devices, rule, seed, concurrent
):
    kinds = ["good"] * 8 + ["crashed", "error", "timed_out", "diverged", "node_lost", "out_of_memory", "nan"]

    def outcome(leg, launch):
        kind = kinds[(leg.seed + 7 * leg.id.leg + 3 * leg.id.attempt) % len(kinds)]
        if kind == "good":
            return value(leg)
        return {"a": nan} if kind == "nan" else failure(kind, frame=str(leg.id.trial))

    folder = tmp_path_factory.mktemp("study")
    ending, executor = search(
        folder,
        outcome,
        devices,
        search={"trials": trials, "seed": seed, "strategy": "random"},
        fidelity={**ASHA, "rule": rule},
        cluster={"max_concurrent": concurrent} if concurrent else {},
        seed=seed,
    )
    study = ending.study
    assert study.launched == trials
    assert sum(study.counts().values()) == trials
    assert not study.active()
    assert {trial.state for trial in study.trials()} == {State.ENDED}
    times = [record["at"] for record in records(folder) if "at" in record]
    assert times == sorted(times)
    again = nas.load(folder)
    assert again.counts() == study.counts()
    assert again.device_seconds == pytest.approx(study.device_seconds)


def test_more_trials_than_devices_keep_all_devices_busy(tmp_path):
    held = []
    search(
        tmp_path,
        lambda leg, launch: value(leg),
        devices=4,
        search={"trials": 20},
        prepare=lambda executor, study: held.append((study.launched, len(study.running()))),
    )
    assert all(running == min(4, 20) for launched, running in held if 4 <= launched < 20)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [({"hours": 20 / 3600}, "hours"), ({"device_hours": 40 / 3600}, "device-hours"), ({"target": 95}, "target a = 95")],
)
def test_the_first_budget_that_is_reached_ends_asking(tmp_path, budget, reason):
    after = []

    def over(study):
        if "hours" in budget:
            return study.seconds >= 20
        if "device_hours" in budget:
            return study.allocated_seconds() >= 40
        return any(trial.metrics.get("a", 0) >= 95 for trial in study.trials())

    def prepare(executor, study):
        if over(study):
            after.append(len(executor.launches))

    ending, _ = search(
        tmp_path,
        lambda leg, launch: value(leg),
        devices=2,
        search={**budget, "trials": 10_000},
        prepare=prepare,
        fidelity=ASHA,
    )
    assert reason in ending.reason
    assert ending.exit_code == 0
    assert after[0] > 3
    assert len(set(after)) == 1  # nothing is launched any more, what runs runs to its end
    assert not ending.study.active()


def test_paused_trials_are_stopped_when_the_study_ends(tmp_path):
    ending, _ = search(tmp_path, lambda leg, launch: value(leg), fidelity=ASHA, search={"trials": 7})
    outcomes = Counter(trial.outcome for trial in ending.study.trials())
    assert set(outcomes) <= {Outcome.STOPPED, Outcome.COMPLETED}
    assert outcomes[Outcome.STOPPED] == sum(trial.fidelity < 9 for trial in ending.study.trials()) >= 4


# Signals and storage


@pytest.mark.parametrize("signal", [2, 15])
def test_a_signal_ends_the_search_with_its_record_whole(tmp_path, signal):
    came = []
    ending, executor = search(
        tmp_path,
        lambda leg, launch: HANG if leg.id.trial >= 4 else value(leg),
        devices=2,
        interrupted=lambda: signal if came else 0,
        prepare=lambda executor, study: came.append(1) if len(study.running()) == 2 and study.launched > 5 else None,
        search={"trials": 30},
        fidelity=ASHA,
    )
    assert ending.exit_code == 128 + signal
    last = records(tmp_path)[-1]
    assert (last["event"], last["final"], last["exit_code"]) == ("closed", False, 128 + signal)
    assert not any(trial.outcome is Outcome.STOPPED for trial in nas.load(tmp_path).trials())
    assert not (tmp_path / "lock").exists()
    study = nas.resume(tmp_path, code=CODE)
    assert study.launched == 30
    launched = Counter((r["trial"], r["leg"]) for r in records(tmp_path) if r["event"] == "finished")
    assert max(launched.values()) == 1


def test_legs_that_do_not_answer_hold_up_a_signal_for_a_second_at_most(tmp_path):
    class Deaf(Scripted):
        def execute(self, command):
            if not hasattr(command, "how"):
                super().execute(command)

    came = []
    executor = Deaf(lambda leg, launch: HANG, 2, tmp_path)
    ending, _ = search(
        tmp_path,
        executor,
        interrupted=lambda: 2 if came else 0,
        prepare=lambda executor, study: came.append(executor.now()),
    )
    assert ending.exit_code == 130
    assert executor.now() - came[0] < 1.0
    study = nas.resume(tmp_path, code=CODE)
    assert study.launched == 6


def test_a_storage_failure_stops_asking_pauses_the_rest_and_can_be_resumed(tmp_path):
    def outcome(leg, launch):
        if leg.id.trial == 3:
            return failure("storage")
        return HANG if leg.id.trial in (1, 2) else value(leg)

    ending, executor = search(tmp_path, outcome, devices=3, search={"trials": 20})
    assert ending.exit_code == 4
    assert "it storage" in ending.reason
    assert {halt.id.trial for halt in executor.halts} == {1, 2}
    assert max(launch.legs[0].id.trial for launch in executor.launches) <= 4
    study = nas.load(tmp_path)
    assert all(trial.outcome in (None, Outcome.COMPLETED) for trial in study.trials())
    assert not study.running()
    study = nas.resume(tmp_path, code=CODE)
    assert study.launched == 20
    assert {trial.outcome for trial in study.trials()} == {Outcome.COMPLETED}


@pytest.mark.parametrize("turns", [0, 1, 2, 9, 25])
def test_a_disk_that_fills_up_under_the_log_ends_the_search_and_it_can_be_resumed(tmp_path, monkeypatch, turns):
    real, left = os.write, [turns]

    def write(file, data):
        if bytes(data).startswith(b'{"at') or b'"event"' in bytes(data):
            left[0] -= 1
            if left[0] < 0:
                real(file, bytes(data)[:10])
                raise OSError(28, os.strerror(28))
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StorageError, match=r"No space left"):
        nas.search(folder=tmp_path, **tables(search={"trials": 20}, fidelity=ASHA))
    monkeypatch.undo()
    assert not (tmp_path / "lock").exists()
    if turns == 0:
        assert (tmp_path / "events.jsonl").read_bytes() == b""
        return
    assert nas.resume(tmp_path, code=CODE).launched == 20


def test_the_python_interface_raises_what_ended_the_search(tmp_path):
    def failing(candidate, context):
        raise KeyError("x")

    def full(candidate, context):
        raise OSError(28, "No space left on device")

    with pytest.raises(AllFailedError, match="KeyError") as caught:
        nas.search(folder=tmp_path / "a", **tables(search={"trainer": failing}))
    assert caught.value.exit_code == 3
    with pytest.raises(StorageError):
        nas.search(folder=tmp_path / "b", **tables(search={"trainer": full}, cluster={"executor": "inline"}))


# Nodes


def test_a_node_that_goes_and_comes_back_costs_nothing_and_is_never_overfull(tmp_path):
    lost = []

    def prepare(executor, study):
        if study.launched >= 5 and len(study.running()) == 4 and not lost:
            lost.append(True)
            executor.lose("b")
            executor.join(Node("b", 2))

    nodes = (Node("a", 2), Node("b", 2))
    executor = Scripted(lambda leg, launch: value(leg), folder=tmp_path, nodes=nodes)
    ending, _ = search(tmp_path, executor, search={"trials": 20}, prepare=prepare)
    assert lost
    assert {trial.outcome for trial in ending.study.trials()} == {Outcome.COMPLETED}
    assert any(trial.launches > 1 for trial in ending.study.trials())
    assert ending.study.launched == 20


def test_a_leg_that_a_drain_cancels_rests_until_a_resume(tmp_path):
    def outcome(leg, launch):
        return failure("cancelled") if leg.id.trial == 2 else value(leg)

    ending, _ = search(tmp_path, outcome, devices=2, search={"trials": 6})
    assert ending.exit_code == 0
    assert ending.study[2].outcome is None
    study = nas.resume(tmp_path, code=CODE)
    assert study[2].outcome is Outcome.COMPLETED
    assert study.launched == 6


def test_nothing_is_placed_on_a_node_that_drains(tmp_path):
    def prepare(executor, study):
        if study.launched == 4 and not drained:
            drained.append(len(executor.launches))
            executor.drain("b", 30)

    drained = []
    executor = Scripted(lambda leg, launch: value(leg), folder=tmp_path, nodes=(Node("a", 2), Node("b", 2)))
    ending, _ = search(tmp_path, executor, search={"trials": 20}, prepare=prepare)
    later = executor.launches[drained[0] + 1 :]
    assert {node for launch in later for node, _ in launch.allocation.parts} == {"a"}
    assert ending.study.launched == 20


# Resume


@pytest.mark.parametrize("rule", ["asha", "asha-stop"])
def test_no_log_is_left_that_a_resume_cannot_take_up(tmp_path, rule):
    """Cut after every record of a log with retries, losses and late failures; the count of trials stays exact."""
    kinds = ["good"] * 6 + ["crashed", "node_lost", "out_of_memory", "error", "late"]

    def outcome(leg, launch):
        kind = kinds[(leg.seed + 7 * leg.id.leg + 3 * leg.id.attempt) % len(kinds)]
        if kind in ("good", "late"):
            return value(leg) if kind == "good" else [value(leg), failure("crashed")]
        return failure(kind, frame=str(leg.id.trial))

    whole = tmp_path / "whole"
    whole.mkdir()
    search(whole, outcome, 3, search={"trials": 12}, fidelity={**ASHA, "rule": rule})
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > 50
    for count in range(2, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        study = nas.resume(folder, code=CODE)
        assert study.launched == 12, f"cut after line {count}"
        assert not study.active()
        assert [trial.number for trial in study.trials()] == list(range(len(study)))
        finished = Counter((r["trial"], r["leg"]) for r in records(folder) if r["event"] == "finished")
        assert max(finished.values()) == 1


def test_memory_that_runs_out_in_a_simulation_takes_its_time_and_resumes_equal(tmp_path):
    config = tables(
        search={"trainer": hungry, "trials": 8}, cluster={"executor": "simulated", "max_devices": 3}, fidelity=ASHA
    )
    whole = tmp_path / "whole"
    study = nas.search(folder=whole, **config)
    retried = [trial for trial in study.trials() if trial.failures]
    assert retried
    # 10 seconds on one device, then a leg of 5 seconds a unit on two
    assert all(trial.device_seconds == 10 + 2 * 5 * trial.fidelity for trial in retried)
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(2, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        again = nas.resume(folder, code={**CODE, "trainer": hungry})
        assert again.device_seconds == pytest.approx(study.device_seconds), f"cut after line {count}"
        assert again.seconds == study.seconds


def hungry(candidate, context):
    """Some candidates need two devices."""
    context.report(context.until / 2 + context.start / 2, {"a": 0.0}, seconds=10.0 if context.plan.width == 1 else 1.0)
    if candidate.architecture["x"] % 2 and context.plan.width == 1:
        raise MemoryError
    seconds = 20.0 if context.plan.width == 1 else 5.0 * (context.until - context.start)
    context.report(context.until, {"a": float(candidate.architecture["x"])}, seconds=seconds)


def test_a_resume_takes_up_what_another_process_wrote_while_it_started(tmp_path, monkeypatch):
    from nas import session

    nas.search(folder=tmp_path, **tables(search={"trials": 3}))
    real, raced = session.check, []

    def check(config):
        if not raced:
            raced.append(True)
            nas.resume(tmp_path, code=CODE, search={"trials": 5})
        real(config)

    monkeypatch.setattr(session, "check", check)
    study = nas.resume(tmp_path, code=CODE, search={"trials": 7})
    assert study.launched == 7
    assert nas.load(tmp_path).launched == 7


# One search, several executors


@pytest.mark.parametrize("executor", ["simulated", "inline"])
@pytest.mark.parametrize("rule", ["none", "asha", "asha-stop"])
def test_the_same_search_on_each_executor_trains_the_same_candidates(tmp_path, executor, rule):
    study = nas.search(
        folder=tmp_path,
        **tables(
            search={"trials": 9, "strategy": "evolution"},
            strategy={"population": 4, "sample": 2},
            fidelity={**ASHA, "rule": rule},
            cluster={"executor": executor, **({"max_devices": 1} if executor == "simulated" else {})},
        ),
    )
    assert study.launched == 9
    scripted = tmp_path / "scripted"
    scripted.mkdir()
    ending, _ = search(
        scripted,
        lambda leg, launch: value(leg),
        search={"trials": 9, "strategy": "evolution"},
        strategy={"population": 4, "sample": 2},
        fidelity={**ASHA, "rule": rule},
    )
    same = [
        [(trial.key, trial.fidelity, trial.outcome, dict(trial.metrics)) for trial in one.trials()]
        for one in (study, ending.study)
    ]
    assert same[0] == same[1]

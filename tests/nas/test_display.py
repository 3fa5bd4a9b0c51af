"""The progress line: what it says is true, and it never costs much."""

import io

import pytest
from rich.console import Console

from nas.display import Progress, counted, duration, fit, number, progress_parts, reach, time_left
from tests.nas import recorded
from trainers import Measurement


@pytest.fixture
def study(tmp_path):
    return recorded.write(tmp_path / "study", recorded.small(closed=False)[:-3])


def test_the_line_counts_every_launched_trial_once(study):
    line = progress_parts(study, {})
    assert line[0] == "4 of 4 trials: 2 done, 1 running, 1 paused, 0 failed"
    assert "best val_accuracy 0.9700 (trial 0 at 27 epochs)" in line
    assert "front 2" in line
    assert line[-1] == f"{number(35 / 3600)} device-hours"


def test_before_the_first_result_the_furthest_trial_is_shown(tmp_path):
    study = recorded.write(tmp_path, recorded.small(closed=False)[:4])
    assert "no result yet (trial 0 at 2 epochs)" in progress_parts(study, {0: Measurement(2, {}, 1.0)})


def test_the_time_left_follows_the_budget_spent(study):
    assert time_left(study, {"trials": 4}) == "finishing"
    assert time_left(study, {"trials": 7}) == "about 35 s left"  # 3.5 of 7 in 35 s
    assert time_left(study, {"hours": 35 / 3600 * 4}) == "about 2 min left"  # a quarter spent: 105 s
    assert time_left(study, {"trials": 7, "hours": 35 / 3600 * 4}) == "about 35 s left"  # the first to be reached
    assert time_left(study, {"target": 0.99}) == "time left not known yet"
    assert time_left(study, {"trials": 10_000}) == "time left not known yet"


def test_parts_that_do_not_fit_are_left_out():
    assert fit(["aaaa", "bbbb", "cccc"], 80) == "aaaa | bbbb | cccc"
    assert fit(["aaaa", "bbbb", "cccc"], 14) == "aaaa | bbbb"
    assert fit(["aaaa", "bbbb"], 3) == "aaaa"


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(("terminal", "shown"), [(False, 6), (True, 61)])
def test_it_is_printed_every_ten_seconds_and_on_a_terminal_in_place(study, terminal, shown):
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200)
    with Progress(console, clock) as progress:
        for _ in range(60):
            clock.now += 1
            progress(study, {})
    assert out.getvalue().count("4 of 4 trials") == shown  # the last line of a terminal is drawn twice, then removed
    assert ("\x1b[" in out.getvalue()) == terminal
    assert out.getvalue().count("\n") == (1 if terminal else shown)


def test_it_takes_a_twentieth_of_the_time_at_most(study):
    clock, out = Clock(), io.StringIO()

    class SlowStudy:
        def __getattr__(self, name):
            if name == "best":
                clock.now += 5
            return getattr(study, name)

    progress = Progress(Console(file=out), clock)
    for _ in range(1000):
        clock.now += 1
        progress(SlowStudy(), {})
    lines = out.getvalue().count("4 of 4 trials")
    assert 5 <= lines <= 12  # 5 s a line, a line at most every 105 s, over some 1,050 s


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (4, "4 s"), (43, "45 s"), (100, "2 min"), (5300, "88 min"), (9000, "2.5 h"), (180_000, "2.1 days")],
)
def test_times_are_said_as_a_person_would(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (27, "27"),
        (27.0, "27"),
        (12345, "12,345"),
        (0.98765, "0.9877"),
        (0.00012345, "0.0001234"),
        (12345.6, "1.235e+04"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (-1.5, "-1.5000"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_counts_have_their_noun():
    assert (counted(1, "trial"), counted(0, "trial"), counted(1200, "trial")) == ("1 trial", "0 trials", "1,200 trials")


def test_a_fidelity_has_its_unit(study):
    assert [reach(study, fidelity) for fidelity in (1, 27, 0.5)] == ["1 epoch", "27 epochs", "0.5000 epochs"]

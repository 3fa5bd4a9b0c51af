"""Legs on a real, local Ray: what ends how, what is kept warm, and that nothing stays behind."""

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from cluster import Executor, Failed, Finished, Halt, Halting, Progress, Reported
from search_spaces import Reference
from tests.cluster.ray_bench import DEADLINE_SECONDS, ENDS, Bench, recipe
from trainers import FailureKind

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


def metrics(bench: Bench) -> dict[str, float]:
    """Metrics of the newest report."""
    return dict(next(event.measurement.metrics for event in reversed(bench.events) if isinstance(event, Reported)))


# Executors of their own, before that of the other tests holds the devices ---------------------------------------------


def test_code_given_by_value_runs_on_the_workers(local_ray: None, tmp_path: Path) -> None:
    from cluster.ray_backend import RayExecutor

    def train(candidate: object, context: object) -> None:
        context.report(context.until, {"answer": 42})  # type: ignore[attr-defined]

    mine = RayExecutor(replace(recipe(tmp_path), trainer=Reference(train)), address="auto", max_devices=2)
    own = Bench(mine)
    assert isinstance(own.run("any"), Finished)
    assert metrics(own) == {"answer": 42}
    mine.close(5.0)


@pytest.mark.clock
def test_two_workers_pass_hundreds_of_empty_trials_a_second(
    local_ray: None, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    from cluster.ray_backend import RayExecutor

    executor = RayExecutor(recipe(tmp_path), address="auto", max_devices=2)
    bench = Bench(executor)
    for _ in range(2):
        bench.launch("report")
    began, ended, trials = monotonic(), 0, 300
    while ended < trials and monotonic() - began < DEADLINE_SECONDS:
        for event in executor.poll(1.0):
            if isinstance(event, ENDS):
                assert isinstance(event, Finished)
                began, ended = (monotonic() if ended == 1 else began), ended + 1
                bench.launch("report")
    rate = ended / (monotonic() - began)
    record_property("trials_per_second", rate)
    print(f"{rate:.0f} empty trials a second")
    executor.close(5.0)
    assert ended >= trials


# One executor for many tests ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def executor(local_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    from cluster.patience import Patience
    from cluster.ray_backend import RayExecutor

    study = tmp_path_factory.mktemp("study")
    made = RayExecutor(recipe(study), address="auto", max_devices=2, patience=Patience(stop=0.5))
    made.study = study  # type: ignore[attr-defined]
    yield made
    made.close(5.0)


@pytest.fixture
def bench(executor: Executor) -> Bench:
    return Bench(executor)


def failure(bench: Bench, act: str, width: int = 1, limit: float | None = None) -> Failed:
    end = bench.run(act, width, limit)
    assert isinstance(end, Failed)
    return end


def test_a_leg_reports_at_its_rung_then_finishes_and_its_worker_is_kept(bench: Bench) -> None:
    assert isinstance(bench.run("report"), Finished)
    assert [type(event) for event in bench.events] == [Reported, Finished]
    first = metrics(bench)["pid"]
    assert isinstance(bench.run("report"), Finished)
    assert metrics(bench)["pid"] == first != os.getpid()
    times = [event.at for event in bench.events]
    assert times == sorted(times)


def test_the_next_trial_sees_nothing_of_the_last_one_whose_output_is_in_its_log(bench: Bench) -> None:
    end = bench.run("litter")
    worker, child = metrics(bench)["pid"], int(metrics(bench)["child"])
    log = bench.executor.study / "trials" / f"{end.id.trial:05d}" / "rank0.log"  # type: ignore[attr-defined]
    assert log.read_text() == "printed by python\nwritten to descriptor 2\n"
    assert not Path(f"/proc/{child}").exists()
    bench.run("inspect")
    assert metrics(bench) == {"left": 0, "pid": worker}


def test_two_single_legs_run_at_once(bench: Bench) -> None:
    spinning = bench.launch("spin")
    bench.until(lambda event: isinstance(event, Progress) and event.id == spinning)
    assert isinstance(bench.run("report"), Finished)
    bench.executor.execute(Halt(spinning, Halting.STOP))
    bench.until(lambda event: isinstance(event, Failed) and event.id == spinning)


def test_a_gang_of_two_talks_through_a_process_group_and_is_kept(bench: Bench) -> None:
    assert isinstance(bench.run("sum", width=2), Finished)
    first = metrics(bench)
    assert first["total"] == 1 + 2
    assert isinstance(bench.run("sum", width=2), Finished)
    assert metrics(bench) == first


def test_a_rank_that_raises_is_blamed_and_its_gang_goes_on(bench: Bench) -> None:
    bench.run("sum", width=2)
    worker = metrics(bench)["pid"]
    began = monotonic()
    failed = failure(bench, "raise", width=2).failure
    assert monotonic() - began < 10  # it would wait for ever; 0.05 s on an idle machine
    assert (failed.kind, failed.error, failed.message) == (FailureKind.ERROR, "LookupError", "rank 1: the real reason")
    bench.run("sum", width=2)
    assert metrics(bench)["pid"] == worker


def test_a_peer_that_sees_nothing_of_an_error_is_ended_after_its_grace(bench: Bench) -> None:
    failed = failure(bench, "stick", width=2).failure
    assert (failed.kind, failed.message) == (FailureKind.ERROR, "rank 1: the real reason")
    assert isinstance(bench.run("sum", width=2), Finished)


@pytest.mark.parametrize("width", [1, 2])
def test_a_killed_rank_is_a_crash_and_the_next_leg_gets_a_fresh_gang(bench: Bench, width: int) -> None:
    bench.run("sum", width)
    before = metrics(bench)["pid"]
    crashed = failure(bench, "kill", width)
    assert crashed.failure.kind is FailureKind.CRASHED
    assert f"rank{width - 1}.log" in crashed.failure.message
    assert isinstance(bench.run("sum", width), Finished)
    assert metrics(bench)["pid"] != before


def test_a_time_limit_ends_what_never_reports(bench: Bench) -> None:
    late = failure(bench, "block", limit=0.3)
    assert late.failure.kind is FailureKind.TIMED_OUT
    assert "0.3 s" in late.failure.message
    assert late.busy_seconds >= 0.3


@pytest.mark.parametrize("width", [1, 2])
def test_a_halted_trial_ends_at_its_next_report_and_its_gang_is_kept(bench: Bench, width: int) -> None:
    bench.run("sum", width)
    worker = metrics(bench)["pid"]
    spinning = bench.launch("spin", width)
    bench.until(lambda event: isinstance(event, Progress) and event.id == spinning)
    bench.executor.execute(Halt(spinning, Halting.PAUSE))
    bench.until(lambda event: isinstance(event, ENDS) and event.id == spinning)
    assert bench.events[-1].failure.kind is FailureKind.CANCELLED  # type: ignore[union-attr]
    bench.run("sum", width)
    assert metrics(bench)["pid"] == worker


def test_a_halted_trial_that_comes_to_no_report_is_ended(bench: Bench) -> None:
    bench.run("report")
    blocked = bench.launch("block")
    bench.executor.execute(Halt(blocked, Halting.STOP))
    bench.until(lambda event: isinstance(event, ENDS) and event.id == blocked)
    assert bench.events[-1].failure.kind is FailureKind.CANCELLED  # type: ignore[union-attr]


def test_halting_an_ended_leg_does_nothing(bench: Bench) -> None:
    bench.executor.execute(Halt(bench.run("report").id, Halting.STOP))
    assert list(bench.executor.poll(0.1)) == []


def test_a_trainer_that_returns_early_is_an_error(bench: Bench) -> None:
    failed = failure(bench, "silent").failure
    assert failed.kind is FailureKind.ERROR
    assert "reported fidelity 1" in failed.message


# Drivers in processes of their own ------------------------------------------------------------------------------------


class Driver:
    """A module of these tests as a process with a home, a temporary folder and a study of its own."""

    def __init__(self, folder: Path, module: str, *arguments: str) -> None:
        self.home, self.temporary, study = folder / "home", folder / "tmp", folder / "study"
        for path in (self.home, self.temporary, study):
            path.mkdir()
        self.home.chmod(0o500)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", f"tests.cluster.{module}", str(study), *arguments],
            cwd=ROOT,
            env={**kept, "HOME": str(self.home), "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Return the next line that the driver prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a short name: a socket's path has at most 107 bytes."""
    from shutil import rmtree
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix="t-"))
    yield folder
    folder.joinpath("home").chmod(0o700)
    rmtree(folder)


def test_after_close_no_process_no_file_and_nothing_in_the_home_is_left(short_path: Path) -> None:
    driver = Driver(short_path, "ray_driver", "close")
    assert driver.line() == "Finished"
    assert driver.line() == "ready"
    pids = below(driver.process.pid)
    assert len(pids) >= 3  # head, raylet, worker
    driver.process.communicate("", timeout=DEADLINE_SECONDS)
    assert driver.process.returncode == 0
    gone_within(0.0, pids)
    assert list(driver.home.iterdir()) == []
    assert list(driver.temporary.iterdir()) == []


def test_after_kill_9_of_the_driver_no_process_is_left(short_path: Path) -> None:
    driver = Driver(short_path, "ray_driver", "wait")
    assert driver.line() == "Finished"
    assert driver.line() == "ready"
    pids = below(driver.process.pid)
    driver.process.kill()
    driver.process.communicate(timeout=DEADLINE_SECONDS)
    gone_within(15.0, pids)
    assert list(driver.home.iterdir()) == []
    assert list(driver.temporary.iterdir()) == []


def test_a_gang_spans_nodes_and_what_a_lost_or_drained_node_held_is_told_apart(short_path: Path) -> None:
    driver = Driver(short_path, "ray_nodes")
    output, _ = driver.process.communicate(timeout=2 * DEADLINE_SECONDS)
    scenes = [line for line in output.splitlines() if line.startswith(("gang", "lost", "drained"))]
    assert scenes == ["gang over both: finished", "lost: node_lost True", "drained: preempted True"]
    assert list(driver.home.iterdir()) == []


def below(root: int) -> list[int]:
    """Return the descendants of a process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [root]
    for parent in found:
        found += [pid for pid, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def gone_within(seconds: float, pids: list[int]) -> None:
    """Wait for all of ``pids`` to end."""
    deadline = monotonic() + seconds
    for pid in pids:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            assert waiting.poll(max(0.0, deadline - monotonic()) * 1000), f"process {pid} lives"
            os.close(handle)

"""One rank of a gang, in a process of its own: it runs legs, one after another, and knows nothing of Ray."""

import os
import pickle
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Event
from time import monotonic
from typing import TYPE_CHECKING, Any

from cluster.collectives import HaltSwitch, Post, RendezvousError, join_store, open_store, process_group
from cluster.installation import Installation, InstallationError
from cluster.protocol import Leg
from cluster.scrub import Baseline
from cluster.trial_log import TrialLog
from cluster.user_code import use
from trainers import Failure, FailureKind, Fidelity, Measurement, Plan, Recipe, Runner

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

_LAUNCHER_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""Left by torchrun and kin in the driver's environment; they would mislead code that looks for them."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a rank is told to run; ``token`` is unique to the leg, its attempt and this try at it."""

    token: str
    leg: Leg
    plan: Plan


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How a rank's leg ended: its failure or None, its newest measurement (rank 0), and what it took."""

    failure: Failure | None
    last: Measurement | None
    busy_seconds: float
    resident_bytes: int


class Worker:
    """A rank that keeps task, data and the last model between legs.

    `run` is called in one thread; `watch` and `halt` meanwhile in others.
    """

    def __init__(self, recipe: Recipe, post: Post, log_bytes: int) -> None:
        if post.device == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray shows all GPUs to a process that asked for none
        for name in _LAUNCHER_VARIABLES:
            os.environ.pop(name, None)
        self._post = post
        self._folder = recipe.folder
        self._runner = Runner(recipe)
        self._log = TrialLog(log_bytes)
        self._store = open_store(post) if post.world_size > 1 and post.rank == 0 else None
        self._answers: TCPStore | None = None
        if self._store is not None:
            self.join(self._store.port)
        self._news = Condition()
        self._token = ""
        self._last: Measurement | None = None
        self._pulled: dict[str, Event] = {}
        self._baseline = Baseline(post.threads)
        self._baseline.restore()

    @property
    def port(self) -> int:
        """Port of the gang's store; 0 where this rank has none open."""
        return self._store.port if self._store else 0

    def join(self, port: int) -> None:
        """Connect to rank 0's store; twice, so that waiting for a halt's answer blocks no collective."""
        self._store = self._store or join_store(self._post, port)
        self._answers = join_store(self._post, port)

    def run(self, order: Order) -> RankEnd:
        """Run one leg; nothing that it raises gets out."""
        began = monotonic()
        self._begin(order.token)
        log = self._folder / "trials" / f"{order.leg.id.trial:05d}" / f"rank{self._post.rank}.log"
        with self._log.into(log):
            failure = self._attempt(order)
            busy = monotonic() - began
            self._baseline.restore()
        return RankEnd(failure, self._finish(order.token), busy, resident_bytes())

    def watch(self, token: str, after: Fidelity, pause: float, patience: float) -> tuple[str, Measurement | None]:
        """Wait for a newer measurement than that at ``after``.

        Answers not before ``pause`` seconds and not after ``patience`` seconds more; with None where there is none.
        """
        with self._news:
            self._news.wait_for(lambda: self._token != token, pause)
            self._news.wait_for(lambda: self._token != token or self._newer(after), patience)
            return token, self._last if self._token == token and self._newer(after) else None

    def halt(self, token: str) -> None:
        """End the leg of ``token`` at its next report, also where it has not begun."""
        with self._news:
            self._pulled.setdefault(token, Event()).set()

    def _newer(self, after: Fidelity) -> bool:
        return self._last is not None and self._last.fidelity > after

    def _begin(self, token: str) -> None:
        with self._news:
            self._token, self._last = token, None
            self._pulled.setdefault(token, Event())

    def _emit(self, measurement: Measurement) -> None:
        with self._news:
            self._last = measurement
            self._news.notify_all()

    def _finish(self, token: str) -> Measurement | None:
        with self._news:
            last, self._token, self._last = self._last, "", None
            self._pulled.pop(token)
            self._news.notify_all()
        return last

    def _attempt(self, order: Order) -> Failure | None:
        leg, post = order.leg, self._post
        group = process_group(post, self._store, order.token) if self._store else nullcontext()
        switch = HaltSwitch(post, self._answers, order.token, self._pulled[order.token])
        try:
            with warnings.catch_warnings(), group:
                return self._runner.run(
                    leg.candidate,
                    trial=leg.id.trial,
                    until=leg.until,
                    seed=leg.seed,
                    plan=order.plan,
                    attempt=leg.id.attempt,
                    source=leg.source,
                    rank=post.rank,
                    world_size=post.world_size,
                    device=post.device,
                    emit=self._emit,
                    halted=switch,
                    reseed=self._baseline.seed,
                )
        except RendezvousError as error:
            return Failure.of(error, "start", FailureKind.CRASHED)
        except BaseException as error:  # a KeyboardInterrupt of the user's code included: it must not cross the wire
            return Failure.of(error, "start")
        finally:
            switch.release()


def begin(plain: Mapping[str, Any]) -> tuple[Worker | None, dict[str, Any]]:
    """Make the worker of a freshly started process.

    The answer holds the process id and the store's port; or ``mismatch``, why this process cannot work for that
    driver; or ``failure``, where the user's code does not load here.
    """
    try:
        Installation.here().check(plain["installation"])
    except InstallationError as error:
        return None, {"mismatch": str(error)}
    try:
        use(plain["code"])
        recipe: Recipe = pickle.loads(plain["recipe"])
        worker = Worker(recipe, Post(**plain["post"]), plain["log_bytes"])
    except Exception as error:
        return None, {"failure": Failure.of(error, "start").to_json()}
    return worker, {"pid": os.getpid(), "port": worker.port}


def resident_bytes() -> int:
    """Memory that this process holds now; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")

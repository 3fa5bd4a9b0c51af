"""An executor that does as it is told, and a search on it: every turn of fate without a process that dies."""

from collections import Counter, deque

import numpy as np
import orjson

from cluster import ClusterSpec, Failed, Finished, Halt, Node, NodeDraining, NodeGone, NodeJoined, Reported
from nas.config import SearchConfig
from nas.config_check import check
from nas.config_text import complete
from nas.event_log import FILE, EventLog
from nas.parts import Parts
from nas.proposal import Proposal
from nas.session import _header
from search_spaces import Architecture, Candidate, Choice, SearchSpace
from trainers import Failure, FailureKind, Measurement

HANG = "hang"


class Line(SearchSpace):
    """A hundred candidates, the better the larger."""

    decisions = {"x": Choice(*range(100), ordered=True)}


class Quartet(SearchSpace):
    """Four candidates."""

    decisions = {"x": Choice(0, 1, 2, 3)}


class Told:
    """A strategy that goes through the values of x, and keeps what it is told in ``log``."""

    def __init__(self, space, objectives, log=None):
        self.log = log if log is not None else []

    def ask(self, pending, rng):
        return Proposal(Candidate(Architecture({"x": self.number(pending)})))

    def number(self, pending):
        return len({trial.number for trial, *_ in self.log} | {trial.number for trial in pending}) % 100

    def tell(self, trial, measurement, ended):
        self.log.append((trial, measurement, ended))


def trainer(candidate, context):
    """A trainer for the configuration; a scripted executor never calls it."""
    context.report(context.until, {"a": float(candidate.architecture["x"])}, seconds=1.0)


def failure(kind, error="", frame=""):
    """A failure of ``kind``."""
    return Failure(FailureKind(kind), f"it {kind}", error=error, frame=frame)


class Scripted:
    """``outcome(leg, launch)`` says what becomes of a leg: metrics, a Failure, HANG, or a list of them for the
    report and what follows it. Each poll yields one event, of a leg drawn at random, and takes a second.
    """

    def __init__(self, outcome, devices=1, folder=None, seed=0, nodes=None):
        self._cluster = ClusterSpec(nodes or (Node("n", devices),))
        self._free = {node.name: node.devices for node in self._cluster}
        self._outcome = outcome
        self._folder = folder
        self._rng = np.random.default_rng(seed)
        self._now = 0.0
        self._legs = {}
        self._held = {}
        self._script = deque()
        self.launches = []
        self.halts = []

    @property
    def cluster(self):
        return self._cluster

    def now(self):
        return self._now

    def execute(self, command):
        if isinstance(command, Halt):
            self.halts.append(command)
            if command.id in self._legs:
                self._legs[command.id] = deque([failure("cancelled")])
            return
        if self._folder is not None:
            self._check_recorded(command)
        for node, count in command.allocation.parts:
            self._free[node] -= count
            assert self._free[node] >= 0, f"{node} holds more than it has"
        for leg in command.legs:
            assert leg.id not in [launch.legs[0].id for launch in self.launches], f"{leg.id} is launched twice"
            self._held[leg.id] = command.allocation
            self._legs[leg.id] = self._events(leg, command)
        self.launches.append(command)

    def _check_recorded(self, launch):
        records = [orjson.loads(line) for line in (self._folder / FILE).read_bytes().splitlines()]
        for leg in launch.legs:
            trial, number, attempt = leg.id
            assert any(r["event"] == "proposed" and r["trial"] == trial for r in records)
            assert any(
                r["event"] == "launched" and (r["trial"], r["leg"], r["attempt"]) == (trial, number, attempt)
                for r in records
            ), "a leg runs before its launch is on record"

    def _events(self, leg, launch):
        outcome = self._outcome(leg, launch)
        if outcome is HANG:
            return deque()
        events = deque()
        for part in outcome if isinstance(outcome, list) else [outcome]:
            events.append(Measurement(leg.until, part, 1.0) if isinstance(part, dict) else part)
        if isinstance(events[-1], Measurement):
            events.append("finished")
        return events

    def poll(self, timeout):
        ready = [id for id, events in self._legs.items() if events]
        if not self._script and not ready:
            self._now += timeout
            return []
        if self._script:
            return [self._script.popleft()(self._now)]
        id = ready[self._rng.integers(len(ready))]
        event = self._legs[id].popleft()
        self._now += 0.01 if isinstance(event, Failure) and event.kind is FailureKind.CANCELLED else 1.0
        if isinstance(event, Measurement):
            return [Reported(self._now, id, event)]
        del self._legs[id]
        for node, count in self._held.pop(id).parts:
            if node in self._free:
                self._free[node] += count
        if event == "finished":
            return [Finished(self._now, id, 1.0)]
        return [Failed(self._now, id, event, 1.0)]

    def drain(self, name, seconds):
        """Say at the next poll that a node will go."""
        self._script.append(lambda at: NodeDraining(at, name, seconds))

    def lose(self, name):
        """Let a node go, and its legs fail one by one afterwards."""
        self._cluster = ClusterSpec(tuple(node for node in self._cluster if node.name != name))
        del self._free[name]
        self._script.append(lambda at: NodeGone(at, name))
        for id, allocation in self._held.items():
            if name in dict(allocation.parts):
                self._legs[id] = deque([failure("node_lost")])

    def join(self, node):
        """Let a node come."""
        self._cluster = ClusterSpec((*self._cluster, node))
        self._free[node.name] = node.devices
        self._script.append(lambda at: NodeJoined(at, node))

    def close(self, seconds):
        self._legs.clear()


CODE = {"space": Line, "strategy": Told, "trainer": trainer}


def tables(**changes):
    """Configuration of a search of `Line` for a large ``a``; each table given is put onto the default."""
    plain = {
        "search": {"space": Line, "task": "digits", "trainer": trainer, "strategy": Told, "trials": 6, "seed": 0},
        "objectives": {"a": "maximize"},
        "fidelity": {"rule": "none", "min": 1, "max": 1},
        "cluster": {"executor": "simulated"},
        "trial": {"timeout": 600},
    }
    for name, table in changes.items():
        plain[name] = {**plain[name], **table} if name in plain and name != "objectives" else table
    return plain


def search(folder, outcome, devices=1, interrupted=lambda: 0, seed=0, prepare=lambda executor, study: None, **changes):
    """Run a search on a `Scripted` executor; return its ending and the executor. ``prepare`` is called each turn."""
    config = SearchConfig.from_plain(complete(tables(**changes)))
    check(config)
    parts = Parts(config, folder)
    state, log = parts.state(), EventLog(folder)
    header = _header(parts)
    log.append(header)
    state.apply(header)
    executor = outcome if isinstance(outcome, Scripted) else Scripted(outcome, devices, folder, seed)
    turns = Counter()

    def watch(study, live):
        turns["turn"] += 1
        assert turns["turn"] < 30_000, "the search does not end"
        prepare(executor, study)

    controller = parts.controller(state, executor, log, interrupted, watch)
    return controller.run({"config": config.to_plain()}), executor


def value(leg):
    """The good outcome: what `trainer` would report."""
    return {"a": float(leg.candidate.architecture["x"])}


def records(folder):
    """All records of a study's log."""
    return [orjson.loads(line) for line in (folder / FILE).read_bytes().splitlines()]

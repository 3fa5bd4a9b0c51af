"""Why trials wait: for devices, for a place among those that run, for another attempt, or for the search to go on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nas.display import counted, reach
from nas.study import Study
from nas.trial import State, Trial
from trainers import Fidelity, Plan


@dataclass(frozen=True, slots=True)
class Waiting:
    """A trial whose next leg, to ``until``, has no devices yet, and ``why``."""

    trial: int
    until: Fidelity
    why: str


def waiting(study: Study, written: bool) -> list[Waiting]:
    """All trials that wait, in the order in which they asked; ``written`` says that a process goes on with the study.

    Without one, what ran when the last process ended waits too. What the record knows decides: limits of the
    configuration, the devices that running trials hold, the machines that the session began with.
    """
    trials = [trial for trial in study.active() if trial.state is State.WAITING or not written]
    return [Waiting(trial.number, trial.until, _why(study, trial, written)) for trial in trials]


def paused(study: Study) -> list[str]:
    """One sentence for each fidelity at which trials pause."""
    counts = Counter(trial.fidelity for trial in study.paused() if trial.outcome is None)
    return [
        f"{counted(count, 'trial')} paused at {reach(study, fidelity)}: those that prove the better ones go on"
        for fidelity, count in sorted(counts.items())
    ]


def _why(study: Study, trial: Trial, written: bool) -> str:
    begun = "it was broken off" if trial.broken_off or trial.state is State.RUNNING else "it has not begun"
    after = f"another attempt after {trial.failures[-1].kind.value.replace('_', ' ')}" if trial.failures else ""
    if not written:
        return f"{after or begun}, and nobody goes on with the search"
    return f"{after}: {_needs(study, trial)}" if after else _needs(study, trial)


def _needs(study: Study, trial: Trial) -> str:
    cluster: Mapping[str, Any] = study.config.get("cluster", {})
    running, width = study.running(), _width(study, trial)
    held = sum(other.devices for other in running)
    most, places = cluster.get("max_devices"), cluster.get("max_concurrent")
    if places is not None and len(running) >= places:
        return f"cluster.max_concurrent = {places}, and so many trials run"
    takes = f"it needs {counted(width, 'device')}"
    if most is not None and held + width > most:
        return f"{takes}, and {held} of cluster.max_devices = {most} in use"
    if not study.devices:
        return f"{takes}, and {held} in use by {counted(len(running), 'trial')}"
    if held + width > study.devices:
        return f"{takes}, and {held} of {study.devices} in use by {counted(len(running), 'trial')}"
    return f"{takes} of one kind, and {held} of {study.devices} in use; the others differ in kind or have gone"


def _width(study: Study, trial: Trial) -> int:
    chosen = study.config.get("trial", {}).get("plan", "auto")
    plan = trial.plan or ("" if chosen == "auto" else chosen)
    return Plan.parse(plan).width if plan else 1

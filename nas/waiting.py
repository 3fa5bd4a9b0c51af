"""Why trials wait: for devices, for a place among those that run, for another attempt, or for the search to go on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.placement import first_fit
from nas.display import counted, number, reach
from nas.fidelity import rungs
from nas.study import Study
from nas.trial import State, Trial
from trainers import Fidelity, Plan

_HALVING = ("asha", "sha", "hyperband")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A trial whose next leg, to ``until``, has no devices yet, and ``why``."""

    trial: int
    until: Fidelity
    why: str


def waiting(study: Study, written: bool) -> list[Waiting]:
    """All trials that wait, in the order in which they asked; ``written`` says that a process goes on with the study.

    Without one, what ran when the last process ended waits too. What the record knows decides: limits of the
    configuration, the devices that running trials hold and where, the machines that the session began with.
    """
    trials = [trial for trial in study.active() if trial.state is State.WAITING or not written]
    return [Waiting(trial.number, trial.until, _why(study, trial, written)) for trial in trials]


def paused(study: Study, written: bool) -> list[str]:
    """One sentence for each fidelity at which trials pause; what comes next only where a process writes the study."""
    counts = Counter(trial.fidelity for trial in study.paused() if trial.outcome is None)
    return [
        f"{counted(count, 'trial')} paused at {reach(study, fidelity)}{_prospect(study, fidelity) if written else ''}"
        for fidelity, count in sorted(counts.items())
    ]


def _prospect(study: Study, fidelity: Fidelity) -> str:
    chosen = study.config["fidelity"]
    levels = rungs(chosen["min"], chosen["max"], chosen["eta"]) if chosen["rule"] in _HALVING else ()
    following = next((level for level in levels if level > fidelity), None)
    return "; the better ones will go on" + ("" if following is None else f" to {number(following)}")


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
    return f"{takes}, and {_taken(study, running, held, width)}"


def _taken(study: Study, running: Sequence[Trial], held: int, width: int) -> str:
    """Why the machines of the record have no place for ``width`` devices, as far as it knows them."""
    nodes, total = study.machines, sum(node.devices for node in study.machines)
    free = Counter({node.name: node.devices for node in nodes})
    free.subtract(Counter(node for trial in running for node, count in trial.on for _ in range(count)))
    several = len({node.kind for node in nodes}) > 1
    if first_fit(width, [(node, free[node.name]) for node in nodes]):
        return "devices are free: it is about to begin" + (", unless machines have gone" if len(nodes) > 1 else "")
    if not nodes or min(free.values()) < 0:  # more machines than the record knows of
        return f"{held} in use by {counted(len(running), 'trial')}"
    if first_fit(width, [(node, node.devices) for node in nodes]) is None:
        return f"the machines have {f'{total}, not all of one kind' if several else total}: it never fits"
    kind = ", no more of one kind being free" if several and total - held >= width else ""
    return f"{held} of {total} in use by {counted(len(running), 'trial')}{kind}"


def _width(study: Study, trial: Trial) -> int:
    chosen = study.config.get("trial", {}).get("plan", "auto")
    plan = trial.plan or ("" if chosen == "auto" else chosen)
    return Plan.parse(plan).width if plan else 1

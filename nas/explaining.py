"""Why a trial ran as it did: its network's work and depth, the plans it could have, what was predicted and measured."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nas import event_log
from nas.choosing import choose
from nas.config import SearchConfig
from nas.display import counted
from nas.errors import StudyError
from nas.event_log import Record
from nas.parts import Parts
from nas.study import Study, load
from nas.study_rates import kept_rates
from nas.trained import check_trained
from nas.trial import Trial
from search_spaces import meta_network
from trainers import Fidelity, MeasuredStep, Measurement
from trainers.parallelism.option import Option

if TYPE_CHECKING:
    from nas.analysis import Analysis


@dataclass(frozen=True, slots=True)
class RunLeg:
    """A leg to ``until`` under the ``plan`` of its last launch, chosen from ``options`` for ``share`` devices if any.

    ``step`` is what was measured, None where the trainer says nothing. ``predicted`` is the option of the plan, as
    priced at its launch or else now. ``before`` are the plans of earlier launches.
    """

    until: Fidelity
    plan: str
    options: tuple[Option, ...] = ()
    share: int = 1
    predicted: Option | None = None
    step: MeasuredStep | None = None
    before: tuple[str, ...] = ()

    def seconds(self, batch: int) -> float | None:
        """Measured for a step of ``batch`` samples, in proportion where steps had others."""
        return None if self.step is None else self.step.seconds * batch / self.step.samples

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "until": self.until,
            "plan": self.plan,
            "before": list(self.before),
            "share": self.share,
            "options": [option.to_json() for option in self.options],
            "predicted": None if self.predicted is None else self.predicted.to_json(),
            "step": None if self.step is None else {"seconds": self.step.seconds, "samples": self.step.samples},
        }


@dataclass(frozen=True)
class Explained:
    """``analysis`` is of the trial's network, with its plans on as many devices as the cluster had.

    None where the network cannot be built without data, for the reason ``unknown``.
    """

    trial: Trial
    why: str
    legs: tuple[RunLeg, ...]
    analysis: "Analysis | None"
    unknown: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        found = self.analysis
        counts: dict[str, Any] = {}
        if found is not None and found.graph is not None:
            step = found.step
            counts = {
                "work": step.concurrency.work,
                "depth": step.concurrency.depth,
                "parallelism": step.concurrency.parallelism,
                "memory_bytes": step.memory.peak_bytes,
            }
        return {
            "trial": self.trial.number,
            "candidate": str(self.trial.proposal.candidate),
            "batch": found.of.size.batch if found else None,
            "why": self.why,
            "legs": [leg.plain() for leg in self.legs],
            **counts,
            "plans": found.planned.plain() if found and found.planned else None,
            "unknown": self.unknown or None,
        }


def explain(folder: Path, number: int | None, say: Callable[[str], None] = lambda line: None) -> Explained:
    """Explain trial ``number`` (None: the best) of the study in ``folder``.

    Plans are priced by the rates that the study kept, else by this machine's. Raises StudyError where there is no such
    trial, or none of its network.
    """
    study = load(folder)
    check_trained(study)
    trial = choose(study, number)
    if trial.duplicate_of is not None:
        raise StudyError(f"trial {trial.number} repeats trial {trial.duplicate_of}: explain that one")
    config = SearchConfig.from_plain(study.config)
    legs = _legs(event_log.read(folder), trial.number)
    analysis, unknown = _analysis(Parts(config, folder), trial, _devices(study, trial), say)
    return Explained(
        trial, _why(config, legs, unknown), tuple(_priced(leg, analysis) for leg in legs), analysis, unknown
    )


def _legs(records: Iterable[Record], trial: int) -> list[RunLeg]:
    """The legs that were launched, each by its last attempt."""
    legs: dict[int, RunLeg] = {}
    for record in records:
        if record.get("trial") != trial:
            continue
        if record["event"] == "launched":
            old = legs.get(record["leg"])
            before, step = ((*old.before, old.plan), old.step) if old else ((), None)
            options = tuple(map(Option.from_json, record.get("options", ())))
            share = record.get("share", 1)
            legs[record["leg"]] = RunLeg(record["until"], record["plan"], options, share, step=step, before=before)
        elif record["event"] == "reported":
            measured = Measurement.from_json(record)
            legs[record["leg"]] = replace(legs[record["leg"]], step=measured.step)
    return [legs[leg] for leg in sorted(legs)]


def _devices(study: Study, trial: Trial) -> int:
    """As many as a trial of the study could have had, all of one kind."""
    limit = study.config.get("cluster", {}).get("max_devices")
    kinds: Counter[str] = Counter()
    for node in study.machines:
        kinds[node.kind] += node.devices
    there = max(kinds.values(), default=1)
    return max(1, trial.devices, there if limit is None else min(there, limit))


def _analysis(parts: Parts, trial: Trial, devices: int, say: Callable[[str], None]) -> "tuple[Analysis | None, str]":
    from nas.analysed import Analysed
    from nas.analysis import analyze
    from nas.planned import plan_network

    subject, candidate = parts.subject(), trial.proposal.candidate
    try:
        network = meta_network(subject.space, candidate.architecture, subject.signature)
        loss = subject.loss()
    except Exception as error:  # of the user's space, or of the task's data, which need not be here
        return None, f"{type(error).__name__}: {error}"
    what = {"trial": trial.number, "architecture": str(candidate.architecture)}
    of = Analysed(what, network, subject.signature, subject.size(candidate), parts.config, loss)
    found = analyze(of)
    if found.graph is None:
        return found, found.unknown or ""
    planned = plan_network(of, found.graph, devices, say, kept_rates(parts.folder))
    return replace(found, planned=planned), ""


def _priced(leg: RunLeg, analysis: "Analysis | None") -> RunLeg:
    """The leg with what was predicted at its launch, or else is now."""
    planned = analysis.planned if analysis else None
    options = leg.options or (planned.every if planned else ())
    return replace(leg, predicted=next((option for option in options if str(option.plan) == leg.plan), None))


def _why(config: SearchConfig, legs: Sequence[RunLeg], unknown: str) -> str:
    """Why the last leg had its plan, in a sentence."""
    if not legs:
        return "it was never launched, so it had no plan"
    last = legs[-1]
    if last.options:
        return (
            f"cluster.max_concurrent left it {counted(last.share, 'device')}, and of its plans that fit on them this "
            "one was predicted to be the fastest"
        )
    if last.before and last.plan != last.before[-1]:
        return f"the attempt before, under {last.before[-1]}, could not be trained so"
    if config.plan is not None:
        return f'trial.plan = "{config.plan}" is given for all trials'
    if unknown:
        return "one device: its graph is unknown, so nothing could be predicted before it had measured a step"
    if config.cluster.max_concurrent is None:
        return (
            "one device: any number of trials may run at once (no cluster.max_concurrent), and a plan rarely speeds "
            "one up by more than the devices it takes"
        )
    return "one device: no more fell to it, or its plans could not be priced"

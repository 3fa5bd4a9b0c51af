"""Retraining: a trial's candidate from nothing, on train and validation data, measured on the test split.

The only place where the test split is read. Each seed is one leg, in the same scheduler and executors as a search.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import nan, sqrt
from pathlib import Path
from shutil import rmtree
from statistics import fmean, stdev
from typing import Any

import orjson

from cluster import (
    Executor,
    ExecutorEvent,
    Failed,
    Finished,
    Launch,
    Leg,
    LegId,
    Progress,
    Reported,
    Scheduler,
    Submitted,
)
from nas.answers import write_whole
from nas.choosing import choose
from nas.config import SearchConfig
from nas.config_check import check
from nas.errors import AllFailedError, ConfigError, Interrupted
from nas.parts import CLOSE_SECONDS, make_executor, make_recipe
from nas.signals import Interrupts
from nas.study import load
from trainers import Failure, Measurement, Plan

_POLL_SECONDS = 0.2
_REQUEST = "request.json"


@dataclass(frozen=True, slots=True)
class RetrainResult:
    """Test metrics of each seed, their mean and its standard error (NaN for one seed); ``folder`` holds the weights."""

    trial: int
    metrics: tuple[Mapping[str, float], ...]
    mean: Mapping[str, float]
    standard_error: Mapping[str, float]
    seconds: float
    folder: Path


def retrained_folder(folder: Path, trial: int) -> Path:
    """Where the retrained weights of ``trial`` are, as those of a study: seed k is its trial k."""
    return folder / "retrain" / f"{trial:05d}"


def retrain(
    folder: Path,
    trial: int | None = None,
    seeds: int = 1,
    plan: str | None = None,
    watch: Callable[[str], None] = lambda line: None,
) -> RetrainResult:
    """Train ``trial`` (None: the best) anew to the study's maximum fidelity, once with each of ``seeds`` seeds.

    A seed that an earlier call of the same plan has finished is not trained again. ``plan`` is like ``"data=2"``, None
    the study's. ``watch`` takes lines of progress. Raises ConfigError for a plan or
    trial that cannot be, CapacityError where the plan does not fit, AllFailedError where a seed's training fails, with
    its message.
    """
    study = load(folder)
    chosen = choose(study, trial)
    config = SearchConfig.from_plain(study.config)
    check(config)
    try:
        degrees = Plan.parse(plan) if plan else config.plan or Plan()
    except ValueError as error:
        raise ConfigError(str(error)) from error
    place = retrained_folder(folder, chosen.number)
    _prepare(place, {"plan": str(degrees), "maximum": config.fidelity.max, "trainer": config.trainer})
    recipe = replace(make_recipe(config, place), test=True, bounds=())
    with Interrupts() as interrupts:
        executor = make_executor(config, recipe, degrees, 0.0, interrupts)
        try:
            legs = [
                Leg(
                    LegId(seed, 0, 0),
                    chosen.proposal.candidate,
                    0,
                    recipe.maximum,
                    _seed(config.search.seed, chosen.number, seed),
                    degrees,
                )
                for seed in range(seeds)
            ]
            measurements = _Running(executor, legs, watch).measure(interrupts)
            seconds = executor.now()
        finally:
            executor.close(CLOSE_SECONDS)
    metrics = tuple(measurement.metrics for measurement in measurements)
    names = list(metrics[0])
    columns = {name: [of_seed[name] for of_seed in metrics] for name in names}
    return RetrainResult(
        trial=chosen.number,
        metrics=metrics,
        mean={name: fmean(values) for name, values in columns.items()},
        standard_error={
            name: stdev(values) / sqrt(len(values)) if len(values) > 1 else nan for name, values in columns.items()
        },
        seconds=seconds,
        folder=place,
    )


class _Running:
    """Runs legs to their end: the controller's loop without a search around it."""

    def __init__(self, executor: Executor, legs: Sequence[Leg], watch: Callable[[str], None]) -> None:
        self._executor = executor
        self._legs = legs
        self._watch = watch
        self._scheduler = Scheduler(executor.cluster)
        self._measured: dict[int, Measurement] = {}

    def measure(self, interrupts: Interrupts) -> list[Measurement]:
        """The last measurement of each leg, in their order; AllFailedError where one fails."""
        for leg in self._legs:
            self._execute(Submitted(self._executor.now(), leg))
        open_legs = {leg.id for leg in self._legs}
        while open_legs:
            if interrupts():
                raise Interrupted(interrupts())
            for event in self._executor.poll(_POLL_SECONDS):
                if isinstance(event, Failed):
                    raise AllFailedError(f"seed {event.id.trial}: {_told(event.failure)}")
                if isinstance(event, Reported | Progress):
                    self._measured[event.id.trial] = event.measurement
                if isinstance(event, Finished):
                    open_legs.discard(event.id)
                    self._watch(f"seed {event.id.trial}: {_shown(self._measured[event.id.trial])}")
                self._execute(event)
        return [self._measured[leg.id.trial] for leg in self._legs]

    def _execute(self, event: Submitted | ExecutorEvent) -> None:
        for command in self._scheduler.handle(event):
            if isinstance(command, Launch):
                self._executor.execute(command)


def _prepare(place: Path, request: Mapping[str, Any]) -> None:
    """Make the folder; what another request left there goes, the seeds that this one has finished are kept."""
    content = orjson.dumps(request, option=orjson.OPT_SORT_KEYS, default=repr)
    path = place / _REQUEST
    if place.is_dir() and (not path.is_file() or path.read_bytes() != content):
        rmtree(place)
    if not path.is_file():
        write_whole(path, content)


def _seed(seed: int, trial: int, repetition: int) -> int:
    return int.from_bytes(blake2b(f"{seed}/{trial}/retrain {repetition}".encode(), digest_size=4).digest()) >> 1


def _shown(measurement: Measurement) -> str:
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in measurement.metrics.items())
    return f"{metrics} after {measurement.seconds:.1f} s"


def _told(failure: Failure) -> str:
    return f"{failure.kind} at {failure.stage}: {failure.message}"

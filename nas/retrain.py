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
from nas.config_check import SUPERVISED, check
from nas.display import counted, number
from nas.errors import AllFailedError, ConfigError, Interrupted, StorageError
from nas.outcomes import next_attempt
from nas.parts import CLOSE_SECONDS, check_capacity, check_fits, make_executor, make_recipe
from nas.plan_check import CutsInto, check_plan
from nas.signals import AtOnce, Interrupts
from nas.static_stage import StaticStage
from nas.study import load
from nas.trained import check_trained
from search_spaces import Candidate
from trainers import Failure, FailureKind, Measurement, Plan, Recipe
from trainers.materials import Materials

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
    the study's. ``watch`` takes lines of progress. Raises StudyError where the search trained no network, ConfigError
    for a plan or trial that cannot be, CapacityError where the plan does not fit, StorageError, and AllFailedError
    where a seed's training fails for good.
    """
    study = load(folder)
    check_trained(study)
    chosen = choose(study, trial)
    config = SearchConfig.from_plain(study.config)
    check(config)
    try:
        degrees = Plan.parse(plan) if plan else config.plan or Plan()
    except ValueError as error:
        raise ConfigError(str(error)) from error
    check_plan(config, degrees)
    place = retrained_folder(folder, chosen.number)
    recipe = replace(make_recipe(config, place), test=True, bounds=(), replicates=1)
    _check_cut(recipe, chosen.proposal.candidate, degrees)
    check_capacity(config, degrees)
    watch(f"training trial {chosen.number} anew with {counted(seeds, 'seed')}, to be measured on the test split")
    _prepare(place, {"plan": str(degrees), "maximum": config.fidelity.max, "trainer": config.trainer})
    legs = [
        Leg(
            LegId(seed, 0, 0),
            chosen.proposal.candidate,
            start=0,
            until=recipe.maximum,
            seed=_seed(config.search.seed, chosen.number, seed),
            plan=degrees,
        )
        for seed in range(seeds)
    ]
    with Interrupts() as interrupts:
        try:
            with interrupts.at_once():
                executor = make_executor(config, recipe, 0.0, interrupts)
        except AtOnce as signal:
            raise Interrupted(signal.number) from None
        try:
            measurements = _Running(executor, legs, watch).measure(interrupts)
            seconds = executor.now()
        finally:
            executor.close(CLOSE_SECONDS)
    metrics = tuple(measurement.metrics for measurement in measurements)
    return RetrainResult(chosen.number, metrics, *_statistics(metrics), seconds, place)


def _check_cut(recipe: Recipe, candidate: Candidate, plan: Plan) -> None:
    """Raise ConfigError where the network cannot be cut as ``plan`` says."""
    if plan.pipeline > 1:
        made = Materials(recipe.space, recipe.task)
        cut = CutsInto(plan.pipeline, (lambda: made.traced_loss) if recipe.trainer.code == SUPERVISED else None)
        stage = StaticStage(made.space, lambda: made.task.signature, [("plan", cut)], ())
        reason = stage.judge(candidate).reason
        if reason:
            raise ConfigError(f'plan = "{plan}": {reason}')


def _statistics(metrics: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and standard error of each metric over the seeds."""
    columns = {name: [of_seed[name] for of_seed in metrics] for name in metrics[0]}
    mean = {name: fmean(values) for name, values in columns.items()}
    error = {name: stdev(values) / sqrt(len(values)) if len(values) > 1 else nan for name, values in columns.items()}
    return mean, error


class _Running:
    """Runs legs to their end: the controller's loop without a search around it, under the same policy of failures."""

    def __init__(self, executor: Executor, legs: Sequence[Leg], watch: Callable[[str], None]) -> None:
        self._executor = executor
        self._legs = {leg.id.trial: leg for leg in legs}
        self._watch = watch
        self._scheduler = Scheduler(executor.cluster)
        self._measured: dict[int, Measurement] = {}
        self._failures: dict[int, list[Failure]] = {leg.id.trial: [] for leg in legs}
        if legs:
            check_fits(self._scheduler, legs[0].plan)

    def measure(self, interrupts: Interrupts) -> list[Measurement]:
        """The last measurement of each leg, in their order; AllFailedError where one ends without it."""
        for leg in self._legs.values():
            self._execute(Submitted(self._executor.now(), leg))
        while self._scheduler.busy:
            if interrupts():
                raise Interrupted(interrupts())
            for event in self._executor.poll(_POLL_SECONDS):
                self._on_event(event)
        return [self._measured[seed] for seed in self._legs]

    def _on_event(self, event: ExecutorEvent) -> None:
        if isinstance(event, Reported | Progress):
            self._measured[event.id.trial] = event.measurement
        if isinstance(event, Finished):
            self._watch(f"seed {event.id.trial}: {_shown(self._measured[event.id.trial])}")
        again = self._again(event) if isinstance(event, Failed) else None
        self._execute(event)
        if again is not None:
            self._execute(Submitted(event.at, again))

    def _again(self, event: Failed) -> Leg:
        """The next attempt at a leg that failed; AllFailedError where there is none."""
        seed, failure = event.id.trial, event.failure
        leg = self._legs[seed]
        if failure.kind is FailureKind.STORAGE:
            raise StorageError(failure.message)
        attempt = next_attempt(self._failures[seed], failure, leg.plan, self._scheduler.widest)
        self._failures[seed].append(failure)
        if attempt is None:
            raise AllFailedError(f"seed {seed}: {_told(failure)}")
        self._watch(f"seed {seed}: {_told(failure)}; another attempt")
        id = LegId(seed, 0, event.id.attempt + 1)
        self._legs[seed] = replace(leg, id=id, plan=attempt.plan, promoted=True)
        return self._legs[seed]

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
    metrics = ", ".join(f"{name} {number(value)}" for name, value in measurement.metrics.items())
    return f"{metrics} after {measurement.seconds:.1f} s"


def _told(failure: Failure) -> str:
    return f"{failure.kind} at {failure.stage}: {failure.message}"

"""Plans of one and two ranks, really trained on this machine: predicted before, then measured by the trials themselves.

Candidates of three built-in spaces learn noise, one at a time, each under every plan, as searches of the product on
Ray. An epoch's steps are one measurement: the first epoch is left out, the others say how far repeats differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import nas
from benchmarks.planner import Measure, Row
from cluster.known_machine import known_machine
from cluster.planner import priced
from nas.graph_metrics import StepSize
from nas.study import Study
from nas.trial import Trial
from search_spaces import SPACES, Signature, TensorType, meta_network
from trainers import Plan, curve
from trainers.parallelism.calibrated import Calibrated
from trainers.parallelism.rates import Machine
from trainers.parallelism.traced_step import TracedStep
from trainers.task import Data, Split
from trainers.tasks.classification import Classification

PLANS = tuple(map(Plan.parse, ("data=1", "data=2", "pipeline=2")))
EACH = 5
"""Architectures of a space."""
EPOCHS = 5
STEPS = 8
"""Of an epoch, at the largest batch."""
BATCHES = [32, 128]
_IMAGES = Signature(TensorType((3, 32, 32)), TensorType((10,)))
_TOKENS = Signature(TensorType((64,), "int64", vocabulary=256), TensorType((10,)))


@dataclass(frozen=True)
class Noise(Classification):
    """Inputs and classes at random."""

    signature: Signature = field(default=_IMAGES)

    def load(self) -> Data:
        """Enough for ``STEPS`` of the largest batch."""
        rng, given = np.random.default_rng(0), self.signature.input
        count = STEPS * max(BATCHES)

        def split(samples: int) -> Split:
            shape = (samples, *given.shape)
            inputs = rng.integers(given.vocabulary or 2, size=shape) if given.of_integers else rng.normal(size=shape)
            return Split(inputs.astype(given.dtype), rng.integers(10, size=samples))

        return Data(split(count), split(64), split(64))


class Images(Noise):
    """32 x 32 in three colours."""


@dataclass(frozen=True)
class Tokens(Noise):
    """Sequences of 64."""

    signature: Signature = field(default=_TOKENS)


FAMILIES: Mapping[str, type[Noise]] = {"convnet": Images, "mobile": Images, "transformer": Tokens}


def measure(each: int = EACH) -> tuple[list[Measure], list[Row]]:
    """Calibrate if need be, train all, predict."""
    machine = known_machine("cpu", devices=2)
    with TemporaryDirectory() as place:
        rows = [row for family in FAMILIES for row in _family(family, Path(place), each, machine)]
    return judge(rows), rows


def _family(family: str, place: Path, each: int, machine: Machine) -> Iterator[Row]:
    """A row for each candidate that could be trained under all plans."""
    studies = {plan: _train(family, plan, place / f"{family}-{plan}", each) for plan in PLANS}
    trials = {
        plan: {str(trial.proposal.candidate): trial for trial in study.trials() if trial.rungs}
        for plan, study in studies.items()
    }
    for candidate, trial in trials[PLANS[0]].items():
        if all(candidate in own for own in trials.values()):
            measured = {plan: _epochs(studies[plan].folder, trials[plan][candidate]) for plan in PLANS}
            yield _row(family, trial, measured, _predicted(family, trial, machine))


def _train(family: str, plan: Plan, folder: Path, each: int) -> Study:
    return nas.search(
        folder=folder,
        search={"space": family, "task": FAMILIES[family], "strategy": "random", "trials": each},
        objectives={"val_accuracy": "maximize"},
        constraints={"flops": "<= 3e7"},
        hyperparameters={"batch_size": BATCHES},
        fidelity={"rule": "none", "max": EPOCHS},
        trial={"plan": str(plan)},
        cluster={"max_concurrent": 1, "max_devices": 2},
    )


def _epochs(folder: Path, trial: Trial) -> list[float]:
    """Seconds of a step in each epoch but the first."""
    points = curve.read(folder / "trials" / f"{trial.number:05d}")
    return [point.step.seconds for point in points[1:] if point.step is not None]


def _predicted(family: str, trial: Trial, machine: Machine) -> dict[Plan, float]:
    """Seconds of a step by plan."""
    candidate, signature = trial.proposal.candidate, FAMILIES[family]().signature
    network = meta_network(SPACES.load(family)(), candidate.architecture, signature)
    size = StepSize.of({}, candidate.hyperparameters)
    step = TracedStep.of(network, signature, size.batch, (2,))
    options = priced(step.work, Calibrated(machine, size.optimizer), 2, size.batch, cuts=step.starts)
    return {option.plan: option.seconds for option in options if option.plan in PLANS}


def _row(family: str, trial: Trial, measured: Mapping[Plan, Sequence[float]], predicted: Mapping[Plan, float]) -> Row:
    return {
        "family": family,
        "candidate": str(trial.proposal.candidate),
        "flops": trial.static["flops"],
        "batch": trial.proposal.candidate.hyperparameters["batch_size"],
        "plans": {
            str(plan): {"predicted_seconds": predicted[plan], "measured_seconds": list(epochs)}
            for plan, epochs in measured.items()
        },
    }


def judge(rows: Sequence[Row]) -> list[Measure]:
    """Errors, and which of two plans is faster where repeats tell them apart."""
    errors = {
        str(plan): [abs(_of(row, plan).predicted / _of(row, plan).measured - 1) for row in rows] for plan in PLANS
    }
    every = [error for own in errors.values() for error in own]
    regrets = [_regret(row) for row in rows]
    noise = [_of(row, plan).noise for row in rows for plan in PLANS]
    return [
        Measure("architectures of three spaces", float(len(rows)), (">=", 12.0)),
        Measure("step time, median error of all plans", float(np.median(every)), ("<=", 0.25)),
        *(Measure(f"step time under {plan}, median error", float(np.median(own))) for plan, own in errors.items()),
        *_pairs(rows),
        Measure("fastest of the three chosen", float(np.mean([regret == 0 for regret in regrets]))),
        Measure("regret of the choice, mean", float(np.mean(regrets))),
        Measure("regret of one device always, mean", float(np.mean([_regret(row, PLANS[0]) for row in rows]))),
        Measure("regret of data=2 always, mean", float(np.mean([_regret(row, PLANS[1]) for row in rows]))),
        Measure("repeat noise, median of half the range", float(np.median(noise))),
    ]


def _pairs(rows: Sequence[Row]) -> Iterator[Measure]:
    """For one rank and each plan of two, the share of right choices, and of how many."""
    every: list[bool] = []
    for plan in PLANS[1:]:
        right = [
            (one.predicted < two.predicted) == (one.measured < two.measured)
            for one, two in ((_of(row, PLANS[0]), _of(row, plan)) for row in rows)
            if abs(np.log(one.measured / two.measured)) > one.noise + two.noise
        ]
        yield Measure(f"faster of data=1 and {plan} chosen, of {len(right)} that differ", float(np.mean(right)))
        every += right
    yield Measure(f"faster of both chosen, of {len(every)} that differ", float(np.mean(every)), (">=", 10 / 12))


@dataclass(frozen=True, slots=True)
class _Seconds:
    predicted: float
    measured: float
    noise: float
    """Half the range of the epochs' logarithms."""


def _of(row: Row, plan: Plan) -> _Seconds:
    own: dict[str, Any] = row["plans"][str(plan)]
    epochs = own["measured_seconds"]
    return _Seconds(own["predicted_seconds"], float(np.median(epochs)), float(np.log(max(epochs) / min(epochs))) / 2)


def _regret(row: Row, chosen: Plan | None = None) -> float:
    """How much longer a step takes under the plan predicted to be fastest, or the ``chosen`` one."""
    chosen = chosen or min(PLANS, key=lambda plan: _of(row, plan).predicted)
    return _of(row, chosen).measured / min(_of(row, plan).measured for plan in PLANS) - 1

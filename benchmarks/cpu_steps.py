"""Steps of training on one core: predicted from a calibration that saw none of these networks, then measured.

Candidates of three built-in spaces are sampled, each with a task's shapes and a batch size. What is measured is the
product's own training loop (`trainers.learner`), an epoch of a few steps, several times, the candidates in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from benchmarks.planner import Measure, Row
from cluster.calibration import LONG, Calibration, calibrate
from cluster.operator_timing import TimedDevice
from cluster.planner import model_of
from search_spaces import SPACES, Architecture, SearchSpace, Signature, TensorType
from search_spaces.statics import meta_network
from search_spaces.tracing import trace
from trainers.batches import Tensors
from trainers.learner import Learner
from trainers.parallelism.plan import Plan
from trainers.parallelism.workload import Workload, columns, torch_operator
from trainers.settings import Settings
from trainers.tasks.classification import Classification

IMAGES = (Signature(TensorType((1, 8, 8)), TensorType((10,))), Signature(TensorType((3, 32, 32)), TensorType((10,))))
SEQUENCES = (
    Signature(TensorType((1, 8, 8)), TensorType((10,))),
    Signature(TensorType((64,), "int64", vocabulary=256), TensorType((10,))),
    Signature(TensorType((32, 24)), TensorType((10,))),
)
FAMILIES = {"convnet": IMAGES, "mobile": IMAGES, "transformer": SEQUENCES}
EACH = 32
"""Candidates of a family."""
BATCHES = (16, 32, 64, 128)
MOST_FLOPS = 5e9
"""Of a step: larger candidates are left out, by what is known before they run, for they would take most of the time."""
STEPS, ROUNDS = 4, 5


@dataclass
class Case:
    """A candidate with its batch, and the seconds of a step that were measured, by the wall and by the thread."""

    family: str
    architecture: Architecture
    signature: Signature
    batch: int
    work: Workload
    learner: Learner
    data: Tensors
    wall: list[float] = field(default_factory=list)
    thread: list[float] = field(default_factory=list)

    @classmethod
    def draw(cls, family: str, space: SearchSpace, signature: Signature, rng: np.random.Generator) -> "Case":
        """A candidate whose step is not too large."""
        while True:
            architecture, batch = space.sample(rng), int(rng.choice(BATCHES))
            graph = trace(meta_network(space, architecture, signature), signature, batch)
            if sum(operator.flops for operator in graph.operators) <= MOST_FLOPS:
                break
        learner = Learner(space.build(architecture, signature), Settings(batch_size=batch), seed=0, epochs=1000)
        work = columns(graph, kind=torch_operator)
        return cls(family, architecture, signature, batch, work, learner, _data(signature, batch * STEPS))

    @property
    def one_batch(self) -> Tensors:
        """The first batch."""
        return Tensors(self.data.inputs[: self.batch], self.data.targets[: self.batch])

    def measure(self) -> None:
        """One epoch of the product's loop, after one batch to come back to this network."""
        thread, wall = (TimedDevice("cpu", threads) for threads in (1, 2))
        task, epoch = Classification(), len(self.wall)
        self.learner.train_epoch(self.one_batch, task, epoch)
        began = wall.now()
        self.thread.append(thread.of(lambda: self.learner.train_epoch(self.data, task, epoch)) / STEPS)
        self.wall.append((wall.now() - began) / STEPS)


def measure() -> tuple[list[Measure], list[Row]]:
    """Calibrate, predict, then run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        calibration = calibrate(seconds=LONG, devices=1)
        cases = draw(np.random.default_rng(0))
        predicted = predict(calibration, cases)
        for _ in range(ROUNDS + 1):
            for case in cases:
                case.measure()
    finally:
        torch.set_num_threads(threads)
    rows = [row(case, seconds, error) for case, (seconds, error) in zip(cases, predicted, strict=True)]
    return judge(rows, calibration), rows


def draw(rng: np.random.Generator, each: int = EACH) -> list[Case]:
    """Candidates of all families in turn."""
    spaces = {family: SPACES.load(family)() for family in FAMILIES}
    return [
        Case.draw(family, spaces[family], signatures[number % len(signatures)], rng)
        for number in range(each)
        for family, signatures in FAMILIES.items()
    ]


def predict(calibration: Calibration, cases: Sequence[Case]) -> list[tuple[float, float]]:
    """Seconds of a step of each case, and the standard deviation of their logarithm."""
    model = model_of(calibration.machine, Settings().optimizer, Settings().momentum)
    costs = [model.price(case.work, Plan()) for case in cases]
    return [(cost.seconds, cost.log_error) for cost in costs]


def row(case: Case, predicted: float, log_error: float) -> Row:
    """Prediction and truth of a case: the median over epochs, but for the first."""
    wall, thread = case.wall[1:], case.thread[1:]
    return {
        "family": case.family,
        "candidate": str(case.architecture),
        "input": list(case.signature.input.shape),
        "batch": case.batch,
        "operators": len(case.work.flops),
        "flops": float(case.work.flops.sum()),
        "predicted_seconds": predicted,
        "log_error": log_error,
        "measured_seconds": median(wall),
        "measured_thread_seconds": median(thread),
        "wall": wall,
        "thread": thread,
    }


def judge(rows: Sequence[Row], calibration: Calibration) -> list[Measure]:
    """Errors and order by the wall's time; beside them by the thread's, which a busy machine disturbs less."""
    predicted, wall, thread = (
        np.array([one[name] for one in rows])
        for name in ("predicted_seconds", "measured_seconds", "measured_thread_seconds")
    )
    flops = [one["flops"] for one in rows]
    error, of_thread = abs(predicted / wall - 1), abs(predicted / thread - 1)
    measures = [
        Measure("step time, median error", float(np.median(error)), ("<=", 0.12), 0.16),
        Measure("step time, Spearman", float(spearmanr(predicted, wall)[0]), (">=", 0.97), 0.97),
        Measure("repeat noise, median |epoch / median - 1|", noise(rows, "wall")),
        Measure("the same by the thread's time: median error", float(np.median(of_thread))),
        Measure("the same by the thread's time: Spearman", float(spearmanr(predicted, thread)[0])),
        Measure("repeat noise of the thread's time", noise(rows, "thread")),
        Measure("wall / thread time, median: how busy the machine was", float(np.median(wall / thread))),
        Measure("FLOPs alone, Spearman", float(spearmanr(flops, wall)[0])),
        Measure("truth within two standard deviations", float(np.mean(abs(np.log(predicted / wall)) <= _two(rows)))),
        Measure("candidates", float(len(rows)), (">=", 90.0)),
        Measure("calibration, seconds", calibration.seconds, ("<=", 60.0)),
        Measure("calibration, networks", float(calibration.networks)),
    ]
    for family in FAMILIES:
        own = [place for place, one in enumerate(rows) if one["family"] == family]
        measures.append(Measure(f"{family}, median error", float(np.median(error[own]))))
        measures.append(Measure(f"{family}, median error by the thread's time", float(np.median(of_thread[own]))))
        measures.append(Measure(f"{family}, median of predicted / measured", float(np.median((predicted / wall)[own]))))
    return measures


def noise(rows: Sequence[Row], name: str) -> float:
    """How far an epoch is from the median of its case, median over all."""
    return float(np.median([abs(seconds / median(one[name]) - 1) for one in rows for seconds in one[name]]))


def _two(rows: Sequence[Row]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return 2 * np.array([one["log_error"] for one in rows])


def _data(signature: Signature, samples: int) -> Tensors:
    given = signature.input
    if given.of_integers:
        inputs = torch.randint(given.vocabulary or 2, (samples, *given.shape))
    else:
        inputs = torch.randn(samples, *given.shape)
    return Tensors(inputs, torch.randint(signature.output.elements, (samples,)))

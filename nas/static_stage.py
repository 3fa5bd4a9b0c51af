"""The static stage: what can be said of a candidate before any device is used."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

from nas.graph_metrics import NAMES as GRAPH_NAMES
from nas.graph_metrics import GraphMetrics, GraphUnknownError
from search_spaces import (
    Bound,
    Candidate,
    Infeasible,
    MetaBuildError,
    Registry,
    SearchSpace,
    Signature,
    broken,
    count_parameters,
    meta_network,
)
from trainers import Failure

if TYPE_CHECKING:
    from torch.nn import Module

StaticMetric: TypeAlias = "Callable[[Candidate, Module | None, Signature], Mapping[str, float]]"
"""Metrics by name from a candidate, its network on torch's meta device and the task's signature.

The network is None where it cannot be built without data. `Infeasible` refuses the candidate, its text is the reason.
"""


def parameters(candidate: Candidate, network: "Module | None", signature: Signature) -> dict[str, float]:
    """Number of parameters; nothing where there is no network, for the trial then counts its own."""
    return {} if network is None else {"parameters": count_parameters(network)}


STATIC_METRICS = Registry(
    kind="static metric",
    group="nas.static_metrics",
    builtin={
        "parameters": "nas.static_stage:parameters",
        **{name: f"nas.graph_metrics:{name}" for name in GRAPH_NAMES},
    },
)
"""Built-in ones go by the name of their metric, and are counted where an objective or a constraint has it."""


_NO_GRAPH = GraphMetrics(())


@dataclass(frozen=True, slots=True)
class StaticVerdict:
    """Static metrics of a candidate, why it is infeasible ("" if it is not), and how a user's metric failed."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    failure: Failure | None = None


class StaticStage:
    """Builds candidates on the meta device, measures them there by named ``functions``, and judges constraints.

    ``graph`` gives what no function gave, of a trace, unless a bound is broken already. Without either nothing is done.
    ``signature`` is called at the first candidate, since making a task may load its data. Where the meta build fails,
    the trial counts its own parameters and judges their bounds before it trains.
    """

    def __init__(
        self,
        space: SearchSpace,
        signature: Callable[[], Signature],
        functions: Sequence[tuple[str, StaticMetric]],
        bounds: tuple[Bound, ...],
        graph: GraphMetrics = _NO_GRAPH,
    ) -> None:
        self._space = space
        self._signature = signature
        self._bounds = bounds
        self._functions = functions
        self._graph = graph

    def prepare(self) -> None:
        """Load what judging takes, once; what fails here fails again, and is told, at the first candidate."""
        if self._needed:
            with suppress(Exception):
                import_module("search_spaces.tracing" if self._graph.names else "torch")
                self._signature()

    @property
    def _needed(self) -> bool:
        return bool(self._functions or self._graph.names)

    def judge(self, candidate: Candidate) -> StaticVerdict:
        """Metrics and verdict of ``candidate``."""
        if not self._needed:
            return StaticVerdict()
        signature = self._signature()
        try:
            network = meta_network(self._space, candidate.architecture, signature)
        except Infeasible as infeasible:
            return StaticVerdict(reason=str(infeasible) or "the space calls it infeasible")
        except MetaBuildError as error:
            return self._measure(candidate, None, signature, str(error))
        return self._measure(candidate, network, signature)

    def _measure(
        self, candidate: Candidate, network: "Module | None", signature: Signature, unbuilt: str = ""
    ) -> StaticVerdict:
        metrics: dict[str, float] = {}
        for name, function in self._functions:
            try:
                given = _numbers(function(candidate, network, signature))
                twice = given.keys() & metrics.keys()
                if twice:
                    raise ValueError(f"the metric {min(twice)!r} is given by another static metric too; rename one")
                metrics |= given
            except Infeasible as infeasible:
                return StaticVerdict(reason=str(infeasible) or f"{name} calls it infeasible")
            except (Exception, SystemExit) as error:
                return StaticVerdict(metrics, failure=_told(name, error))
        reasons = broken(self._bounds, metrics)
        if not reasons:
            try:
                metrics |= self._graph.without(metrics)(candidate, network, signature)
            except GraphUnknownError as error:
                failure = Failure.of(error, "static")
                message = f"{failure.message} ({unbuilt})" if unbuilt else failure.message
                return StaticVerdict(metrics, failure=replace(failure, message=message))
            reasons = broken(self._bounds, metrics)
        return StaticVerdict(metrics, "; ".join(reasons))


def _numbers(given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise ValueError(f"it returned {given!r}; give metrics by name, as {{'flops': 1e6}}")
    return {metric: _number(metric, value) for metric, value in given.items()}


def _number(metric: Any, value: Any) -> float:
    """A Python number (of numpy and torch scalars too); true is 1."""
    if not isinstance(metric, str):
        raise ValueError(f"the name of a metric is text, not {metric!r}")
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, int) and -(2**63) <= number < 2**63:
        return int(number)
    if not isinstance(number, Real):
        raise ValueError(f"the metric {metric!r} = {value!r} is no number")
    return float(number)


def _told(name: str, error: BaseException) -> Failure:
    failure = Failure.of(error, "static")
    return replace(failure, message=f"static metric {name} failed at {failure.frame}: {failure.message}")

"""The static stage: what can be said of a candidate before any device is used."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module

from search_spaces import Bound, Candidate, Infeasible, MetaBuildError, SearchSpace, Signature, broken, static_metrics

STATIC_METRICS = frozenset({"parameters"})
"""Metrics that `search_spaces.static_metrics` can give."""


@dataclass(frozen=True, slots=True)
class StaticVerdict:
    """Static metrics of a candidate, and why it is infeasible ("" if it is not)."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


class StaticStage:
    """Builds and counts candidates on the meta device, and judges constraints.

    With ``needed`` false nothing is done: the trainer builds no network, and no objective or constraint counts one.
    ``signature`` is called at the first candidate, since making a task may load its data. Where the meta build fails,
    nothing is said here: the trial counts its own network and judges the bounds before it trains.
    """

    def __init__(
        self,
        space: SearchSpace,
        signature: Callable[[], Signature],
        needed: bool,
        bounds: tuple[Bound, ...],
    ) -> None:
        self._space = space
        self._signature = signature
        self._bounds = bounds
        self._needed = needed

    def prepare(self) -> None:
        """Load what judging takes, once; what fails here fails again, and is told, at the first candidate."""
        if self._needed:
            with suppress(Exception):
                import_module("torch")
                self._signature()

    def judge(self, candidate: Candidate) -> StaticVerdict:
        """Metrics and verdict of ``candidate``."""
        if not self._needed:
            return StaticVerdict()
        try:
            metrics = static_metrics(self._space, candidate.architecture, self._signature())
        except Infeasible as infeasible:
            return StaticVerdict(reason=str(infeasible) or "the space calls it infeasible")
        except MetaBuildError:
            return StaticVerdict()
        return StaticVerdict(metrics, "; ".join(broken(self._bounds, metrics)))

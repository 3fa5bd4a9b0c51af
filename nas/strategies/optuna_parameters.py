"""Candidates as Optuna's parameters, define-by-run: active decisions only, in order, those of both parts as one.

Floats, and integers on a log scale, are themselves. Other integers, and options in an order, are the integers of their
places, whatever they are: neighbours are then alike, and 16, 32, 64 equally far apart. Options without order are
categories, by their places too, so that no two of them are equal that are not (1 and True). What has one option is no
parameter. Of more than 1,000 options, of which samplers would make arrays, a parameter is the share of them that stand
before the value: a real number from 0 to 1, in which a random value is uniform; without order they are then taken in
that of their declaration. A float is a share too where its range is so narrow that samplers would meet subnormal
numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from math import log1p, sqrt
from sys import float_info
from typing import Any, TypeAlias

from numpy.random import Generator
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial

from search_spaces import Architecture, Candidate, CandidateSpace, Choice, Decision, Domain, Float, Integer
from search_spaces.layout import Slot
from search_spaces.values import Value, Values

Point: TypeAlias = tuple[dict[str, Any], dict[str, BaseDistribution]]
"""Values and distributions by the name of their parameter."""

_CACHED = 1_024
_MOST_OPTIONS = 1_000
_MOST_TOLD_APART = 2**31
"""Samplers compare logarithms as floats: those of neighbours above it are too near."""
_NARROW = float_info.min / float_info.epsilon
_BELOW_ONE = 1 - 2**-53


class Parameters:
    """The parameters of a candidate space, ``count`` of them.

    ``conditional`` says that some are not always active, ``categorical`` that none is a number or in an order.
    """

    def __init__(self, space: CandidateSpace) -> None:
        self._domain = space.space.domain
        self._architecture = _parameters(self._domain, "")
        self._hyperparameters = _parameters(space.hyperparameters, "hyperparameters.") if space.hyperparameters else []
        every = [one for one in (*self._architecture, *self._hyperparameters) if one.distribution is not None]
        self.count = len(every)
        self.conditional = any(one.slot.conditions for one in every)
        self.categorical = all(isinstance(one.distribution, CategoricalDistribution) for one in every)
        self.point = lru_cache(_CACHED)(self._point)
        self._distributions = {one.name: one.distribution for one in every if one.distribution is not None}
        self._usual = {name: _usual(distribution) for name, distribution in self._distributions.items()}

    def _point(self, candidate: Candidate) -> Point:
        """What Optuna is told of a candidate; to be read only."""
        values: dict[str, Any] = {}
        distributions: dict[str, BaseDistribution] = {}
        parts = (self._architecture, candidate.architecture), (self._hyperparameters, candidate.hyperparameters)
        for parameters, given in parts:
            for parameter in parameters:
                name = parameter.slot.name
                if name in given and parameter.distribution is not None:
                    values[parameter.name] = parameter.encode(given[name])
                    distributions[parameter.name] = parameter.distribution
        return values, distributions

    def filled(self, candidate: Candidate) -> Point:
        """The same with every parameter: one that is not active has the middle of its range, or its first option."""
        return {**self._usual, **self.point(candidate)[0]}, self._distributions

    def suggest(self, trial: Trial, rng: Generator) -> Candidate:
        """The candidate that Optuna suggests, decision after decision; what breaks a limit is drawn anew."""
        suggested = _suggest(self._architecture, trial)
        if self._domain.limits:
            suggested = self._domain.complete(suggested, rng)
        architecture = Architecture(suggested)
        return Candidate(architecture, Values(_suggest(self._hyperparameters, trial)))


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    slot: Slot
    distribution: BaseDistribution | None
    encode: Callable[[Value], Any]
    decode: Callable[[Any], Value]


def _parameters(domain: Domain, prefix: str) -> list[_Parameter]:
    return [_parameter(slot, prefix) for slot in domain.slots]


def _parameter(slot: Slot, prefix: str) -> _Parameter:
    decision = slot.decision
    if (decision.count or 0) > _MOST_OPTIONS or _narrow(decision):
        assert isinstance(decision, Choice | Integer | Float)
        share = FloatDistribution(0.0, 1.0)
        return _Parameter(prefix + slot.name, slot, share, partial(_share, decision), partial(_at_share, decision))
    distribution = _distribution(decision) if slot.changeable else None
    if _is_itself(decision):
        return _Parameter(prefix + slot.name, slot, distribution, lambda value: value, lambda value: value)
    options = decision.options
    assert options is not None
    return _Parameter(prefix + slot.name, slot, distribution, decision.index, options.__getitem__)


def _distribution(decision: Decision) -> BaseDistribution:
    if isinstance(decision, Float):
        return FloatDistribution(decision.low, decision.high, log=decision.log)
    if isinstance(decision, Integer) and _is_itself(decision):
        return IntDistribution(decision.low, decision.high, log=True)
    assert isinstance(decision, Choice | Integer)
    if isinstance(decision, Integer) or decision.ordered:
        return IntDistribution(0, len(decision.options) - 1)
    return CategoricalDistribution(range(len(decision.options)))


def _is_itself(decision: Decision) -> bool:
    if isinstance(decision, Integer):
        return decision.log and decision.high <= _MOST_TOLD_APART
    return isinstance(decision, Float)


def _narrow(decision: Decision) -> bool:
    return isinstance(decision, Float) and not decision.log and 0 < decision.high - decision.low < _NARROW


def _share(decision: Choice | Integer | Float, value: Value) -> float:
    """The middle of the uniform numbers of which `Leaf.draw` makes ``value``."""
    if isinstance(decision, Float):
        assert isinstance(value, float)
        return (value - decision.low) / (decision.high - decision.low)
    middle, count = decision.index(value) + 0.5, decision.count
    assert count is not None
    if isinstance(decision, Integer) and decision.log:
        least = decision.low - 0.5
        return min(1.0, log1p(middle / least) / log1p(count / least))
    return min(1.0, middle / count)


def _at_share(decision: Choice | Integer | Float, share: float) -> Value:
    return decision.draw(min(share, _BELOW_ONE))


def _usual(distribution: BaseDistribution) -> Any:
    if isinstance(distribution, FloatDistribution):
        low, high = distribution.low, distribution.high
        return sqrt(low) * sqrt(high) if distribution.log else low / 2 + high / 2
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        if distribution.log:
            return round(sqrt(low * high))
        return low + (high - low) // distribution.step // 2 * distribution.step
    return 0


def _suggest(parameters: list[_Parameter], trial: Trial) -> Mapping[str, Value]:
    values: dict[str, Value] = {}
    places: dict[int, int] = {}
    for parameter in parameters:
        slot = parameter.slot
        if any(places.get(parent, -1) not in allowed for parent, allowed in slot.conditions):
            continue
        value = parameter.decode(_suggested(trial, parameter)) if parameter.distribution is not None else _only(slot)
        values[slot.name] = value
        if slot.controls:
            places[slot.index] = slot.decision.index(value)
    return values


def _suggested(trial: Trial, parameter: _Parameter) -> Any:
    name, distribution = parameter.name, parameter.distribution
    if isinstance(distribution, FloatDistribution):
        suggested = trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)
        return min(distribution.high, max(distribution.low, suggested))
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        return trial.suggest_int(name, low, high, step=distribution.step, log=distribution.log)
    assert isinstance(distribution, CategoricalDistribution)
    return trial.suggest_categorical(name, distribution.choices)


def _only(slot: Slot) -> Value:
    assert slot.decision.options is not None
    return slot.decision.options[0]

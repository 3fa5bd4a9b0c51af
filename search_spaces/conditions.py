"""Conditions as data: a decision applies only where decisions before it took certain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from search_spaces.values import Value, check_value


def typed_key(value: Any) -> bytes:
    """Key of a value under typed equality: ``1``, ``1.0``, ``True`` and ``"1"`` have four different ones."""
    return orjson.dumps(value)


def plain_value(value: Value) -> Any:
    """Return a value as JSON would return it: tuples become lists."""
    return [plain_value(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, init=False)
class When:
    """Holds where ``decision`` is active and took one of ``values``, e.g. ``When("optimizer", "sgd",
    "adam")``.
    """

    decision: str
    values: tuple[Value, ...]

    def __init__(self, decision: str, *values: Any) -> None:
        if not isinstance(decision, str):
            raise ValueError(f"When({decision!r}, ...): first the name of a decision, then the values it must take")
        if not values:
            raise ValueError(f"When({decision!r}): give at least one value that {decision!r} must take")
        object.__setattr__(self, "decision", decision)
        object.__setattr__(self, "values", tuple(check_value(value, f"When({decision!r})") for value in values))


ConditionLike: TypeAlias = "When | Mapping[str, Any] | Sequence[When] | None"
"""One condition, several that must all hold, or ``{"optimizer": "sgd"}``, where a list means "one of"."""


def read_conditions(when: ConditionLike) -> tuple[When, ...]:
    """All conditions that must hold; raise ValueError where ``when`` is of no known form."""
    if when is None:
        return ()
    if isinstance(when, When):
        return (when,)
    if isinstance(when, Mapping):
        return tuple(
            When(name, *values) if isinstance(values, list) else When(name, values) for name, values in when.items()
        )
    if not isinstance(when, Sequence) or not all(isinstance(condition, When) for condition in when):
        raise ValueError(f'when = {when!r}: write When("name", value, ...) or {{"name": value}}')
    named = [condition.decision for condition in when]
    if len(set(named)) < len(named):
        raise ValueError(f"when = {when!r}: name each decision once, with all the values it may take")
    return tuple(when)


def conditions_schema(conditions: tuple[When, ...]) -> dict[str, Any]:
    """Plain JSON: ``{"when": {name: [values]}}``, or nothing without conditions."""
    if not conditions:
        return {}
    return {"when": {condition.decision: [*map(plain_value, condition.values)] for condition in conditions}}

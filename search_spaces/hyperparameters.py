"""Hyperparameter domains read from configuration.

learning_rate = { low = 1e-3, high = 1e-1, log = true }     a float; an integer where both ends are ints
batch_size    = [32, 64, 128]                               a choice, ordered where all options are numbers
optimizer     = { choices = ["sgd", "adam"] }
momentum      = { low = 0.0, high = 0.99, when = { optimizer = "sgd" } }
epochs        = 20                                          a fixed value
"""

from collections.abc import Mapping
from typing import Any

from search_spaces.decisions import Choice, Decision, Float, Integer
from search_spaces.domain import Domain
from search_spaces.layout import nearest

_TITLE = "hyperparameters"
_RANGE = ("low", "high", "log", "step", "int", "when")
_CHOICE = ("choices", "ordered", "when")


def hyperparameter_domain(table: Mapping[str, Any]) -> Domain:
    """Read the ``[hyperparameters]`` table; raise ValueError naming ``hyperparameters.NAME`` where it is malformed."""
    return Domain({name: _decision(f"{_TITLE}.{name}", entry) for name, entry in table.items()}, _TITLE)


def _decision(where: str, entry: Any) -> Decision:
    if isinstance(entry, Decision):
        return entry
    if not isinstance(entry, Mapping):
        entry = {"choices": list(entry) if isinstance(entry, list | tuple) else [entry]}
    try:
        return _choice(entry) if "choices" in entry else _range(entry)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _choice(entry: Mapping[str, Any]) -> Choice:
    _check_keys(entry, _CHOICE)
    options = entry["choices"]
    if not isinstance(options, list | tuple):
        raise ValueError(f"choices = {options!r} must be a list of options")
    numbers = all(isinstance(option, int | float) and not isinstance(option, bool) for option in options)
    if "ordered" not in entry and numbers:
        options = sorted(options)
    return Choice(*options, ordered=_flag(entry, "ordered", numbers), when=_when(entry))


def _range(entry: Mapping[str, Any]) -> Integer | Float:
    _check_keys(entry, _RANGE)
    missing = [key for key in ("low", "high") if key not in entry]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing; give low and high, or choices")
    low, high, log = entry["low"], entry["high"], _flag(entry, "log", False)
    if _flag(entry, "int", isinstance(low, int) and isinstance(high, int)):
        return Integer(_whole("low", low), _whole("high", high), entry.get("step", 1), log, _when(entry))
    if "step" in entry:
        raise ValueError(f"step = {entry['step']!r} goes with integers; for floats list the values in choices")
    return Float(low, high, log, _when(entry))


def _whole(name: str, value: Any) -> Any:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{name} = {value!r} must be a whole number where int is true")
    return int(value) if isinstance(value, float) else value


def _flag(entry: Mapping[str, Any], name: str, default: bool) -> bool:
    value = entry.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{name} = {value!r} must be true or false")
    return value


def _when(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    when = entry.get("when")
    if when is not None and not isinstance(when, Mapping):
        raise ValueError(f'when = {when!r} must be a table such as {{ optimizer = "sgd" }}')
    return when


def _check_keys(entry: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in entry:
        if key not in known:
            raise ValueError(f"{key!r} is no key of {' or '.join(_forms(entry))}; {nearest(key, dict.fromkeys(known))}")


def _forms(entry: Mapping[str, Any]) -> list[str]:
    return ["a choice"] if "choices" in entry else ["a range"]

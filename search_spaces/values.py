"""Values of decisions: an immutable mapping whose text and JSON forms keep every type.

JSON has all the types that an option may have, once a list is read as a tuple: ``1``, ``1.0``, ``True``,
``"1"``, ``None`` and ``(1, 1)`` stay different through the log.
"""

import re
from collections.abc import ItemsView, Iterator, Mapping
from json import JSONDecoder
from math import isfinite
from typing import Any, TypeAlias

import orjson

Value: TypeAlias = "bool | int | float | str | None | tuple[Value, ...]"

_NAME = re.compile(r"[^\s=,\"\[\]{}]+")
_INT64 = 2**63
_DEEPEST = 32


def check_value(value: object, where: str, depth: int = 0) -> Value:
    """Return ``value`` as a Value; raise ValueError naming ``where`` if it is none.

    Lists become tuples, numpy and torch scalars become numbers. ``depth`` is how many tuples it stands in.
    """
    if getattr(value, "ndim", None) == 0 and callable(item := getattr(value, "item", None)):
        value = item()
    if isinstance(value, list | tuple):
        if depth == _DEEPEST:
            raise ValueError(f"{where}: tuples stand in each other more than {_DEEPEST} deep, or one in itself")
        return tuple(check_value(item, where, depth + 1) for item in value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return float(value)
    if isinstance(value, str) and value.isprintable():
        return str(value)
    raise ValueError(
        f"{where}: {value!r} cannot be an option; use None, a bool, an int of 64 bits, a finite float, "
        "printable text, or a tuple of these"
    )


def from_json(value: Any) -> Any:
    """Read a parsed JSON value as a Value: lists become tuples."""
    return tuple(map(from_json, value)) if isinstance(value, list) else value


class Values(Mapping[str, Value]):
    """Values by the name of their decision, in the order of the declaration; immutable and hashable.

    Two are equal when names, values and the values' types are equal (``1`` is not ``True``), in any order.
    """

    __slots__ = ("_values", "_json")

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)
        self._json: bytes | None = None

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> ItemsView[str, Value]:
        """Names with their values."""
        return self._values.items()

    def json(self) -> bytes:
        """Compact JSON with sorted names: equal exactly when the values are."""
        if self._json is None:
            self._json = orjson.dumps(self._values, option=orjson.OPT_SORT_KEYS)
        return self._json

    def plain(self) -> dict[str, Value]:
        """Return a new dict with the same content, ready for JSON."""
        return dict(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.json() == other.json()

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        """Text form: ``depth=2, activation="relu"``; `parse` reads it back with all types."""
        return ", ".join(f"{name}={_text(value)}" for name, value in self._values.items())

    @classmethod
    def parse(cls, text: str) -> "Values":
        """Read the text form; raise ValueError with the position where it is none."""
        values: dict[str, Value] = {}
        decoder, at, text = JSONDecoder(parse_constant=_refuse), 0, text.strip()
        while at < len(text):
            name = _NAME.match(text, at)
            if name is None or text[name.end() : name.end() + 1] != "=":
                raise ValueError(f"architecture text at {at}: expected name=value, found {text[at : at + 20]!r}")
            try:
                value, at = decoder.raw_decode(text, name.end() + 1)
            except (ValueError, RecursionError):
                raise ValueError(
                    f"architecture text at {name.end() + 1}: expected a JSON value for {name[0]!r}, "
                    f"found {text[name.end() + 1 : name.end() + 21]!r} (text needs double quotes)"
                ) from None
            if name[0] in values:
                raise ValueError(f"architecture text: {name[0]!r} is given twice")
            values[name[0]] = check_value(value, name[0])
            separator = re.compile(r"\s*(,\s*|$)").match(text, at)
            if separator is None:
                raise ValueError(f"architecture text at {at}: expected a comma, found {text[at : at + 20]!r}")
            at = separator.end()
        return cls(values)


def _refuse(constant: str) -> Value:
    raise ValueError(constant)


def _text(value: Value) -> str:
    return orjson.dumps(value).decode()


class Architecture(Values):
    """Values for all active decisions of a search space."""

    __slots__ = ()

"""Writes a plain configuration as TOML, to be read and to be used again."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(plain: Mapping[str, Any]) -> str:
    """TOML of a configuration; keys without a value (None) and empty tables are left out."""
    tables = []
    for name, table in plain.items():
        lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]
        if lines:
            tables.append("\n".join([f"[{_key(name)}]", *lines]))
    return "\n\n".join(tables) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(entry)}" for key, entry in value.items() if entry is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else repr(value)

"""Says what is wrong with a configuration: the key, the value, the rule and the remedy."""

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

_SHOWN_CHARACTERS = 60


def shown(value: Any) -> str:
    """A value as TOML would write it, or nearly so; long ones are cut."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Say that ``name`` is not known, with the nearest known one, or all of them."""
    known = list(known)
    near = get_close_matches(name, known, 1, 0.6)
    return f"{what} is not known; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")


def problems(model: type[BaseModel], error: ValidationError) -> list[str]:
    """One sentence for each thing that is wrong, in the order of the declaration, each key once."""
    sentences: dict[tuple[Any, ...] | str, str] = {}
    for detail in error.errors(include_url=False):
        for key, sentence in _sentences(model, detail):
            sentences.setdefault(key, sentence)
    return list(sentences.values())


def _sentences(model: type[BaseModel], detail: ErrorDetails) -> Iterator[tuple[tuple[Any, ...] | str, str]]:
    path, fields, field = _walk(model, detail["loc"])
    key = ".".join(map(str, path))
    if not path:
        text = str(detail.get("ctx", {}).get("error", detail["msg"]))
        yield text, text
    elif detail["type"] == "extra_forbidden":
        kind = "table" if len(path) == 1 else "key"
        yield path, unknown(f"{kind} {key}", str(path[-1]), fields)
    elif detail["type"] == "missing":
        yield path, f"{key} is missing: {_rule(key, field)}"
    elif detail["type"] in ("model_type", "dict_type"):
        yield path, f"{key} = {shown(detail['input'])}: this is a table; write [{key}] above its keys"
    else:
        cause = str(detail.get("ctx", {}).get("error", "")) if detail["type"] == "value_error" else ""
        yield path, f"{key} = {shown(detail['input'])}: {_rule(key, field, cause)}"


def _walk(model: Any, location: tuple[int | str, ...]) -> tuple[tuple[Any, ...], list[str], FieldInfo | None]:
    """Key path of a location (branches of a union left out), names known at its end, and the field it is in."""
    path: list[Any] = []
    fields: Mapping[str, FieldInfo] = {}
    field: FieldInfo | None = None
    for name in location:
        if isinstance(model, type) and issubclass(model, BaseModel):
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            path.append(name)
            field = fields.get(str(name))
            model = field.annotation if field else None
        elif getattr(model, "__origin__", None) is dict and name != "[key]":
            path.append(name)
            model = None
    return tuple(path), list(fields), field


def _rule(key: str, field: FieldInfo | None, cause: str = "") -> str:
    if field is None or not field.description:
        return cause or "this is not a table of keys and values"
    example = (field.examples or [""])[0]
    line = example if "=" in example.split('"')[0] else f"{key.rpartition('.')[2]} = {example}"
    return f"{cause or 'expected ' + field.description}; for example {line}"

"""What changed between two versions of a declaration: decisions added, removed and changed, from their schemas."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

Schema: TypeAlias = Mapping[str, Any]

_SHOWN_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Change:
    """One change at ``name``, a decision inside blocks as ``stage.width``.

    ``field`` is what of the decision changed (``options``, ``high``, ``when``...), with its value ``before`` and
    ``after`` as JSON has it, None where it had or has none. Without a field the decision itself came (``before`` is
    None), went (``after`` is None) or changed its type, and the values are its whole schema.
    """

    name: str
    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if not self.field and self.before is None:
            return f"{self.name} is new ({_decision(self.after)})"
        if not self.field and self.after is None:
            return f"{self.name} is gone (it was {_decision(self.before)})"
        if not self.field:
            return f"{self.name} was {_decision(self.before)}, is {_decision(self.after)}"
        return f"{self.name}: {self.field} was {_shown(self.before)}, is {_shown(self.after)}"


def space_changes(before: Schema, after: Schema) -> list[Change]:
    """Changes from one `CandidateSpace.schema` to another, those of the hyperparameters after those of the space."""
    changes = list(_field_changes("the space", _declaration(before, "space"), _declaration(after, "space")))
    for part, prefix in (("space", ""), ("hyperparameters", "hyperparameters.")):
        changes += _decision_changes(prefix, _decisions(before, part), _decisions(after, part))
    return changes


def _declaration(schema: Schema, part: str) -> Schema:
    """What a declaration says beside its decisions: the name of the space."""
    return {name: value for name, value in (schema.get(part) or {}).items() if name != "decisions"}


def _decisions(schema: Schema, part: str) -> Sequence[Schema]:
    decisions: Sequence[Schema] = (schema.get(part) or {}).get("decisions", ())
    return decisions


def _decision_changes(prefix: str, before: Sequence[Schema], after: Sequence[Schema]) -> Iterator[Change]:
    old, new = ({decision["name"]: decision for decision in decisions} for decisions in (before, after))
    for name in dict.fromkeys((*old, *new)):
        if name in old and name in new:
            yield from _one_decision(f"{prefix}{name}", old[name], new[name])
        else:
            yield Change(f"{prefix}{name}", "", old.get(name), new.get(name))
    orders = [[name for name in some if name in old and name in new] for some in (old, new)]
    if orders[0] != orders[1]:
        yield Change(prefix.rstrip(".") or "the space", "order of decisions", *orders)


def _one_decision(name: str, before: Schema, after: Schema) -> Iterator[Change]:
    if before["type"] != after["type"]:
        yield Change(name, "", before, after)
        return
    yield from _field_changes(name, before, after)
    yield from _decision_changes(f"{name}.", before.get("decisions", ()), after.get("decisions", ()))


def _field_changes(name: str, before: Schema, after: Schema) -> Iterator[Change]:
    for field in dict.fromkeys((*before, *after)):
        old, new = before.get(field), after.get(field)
        if field != "decisions" and _json(old) != _json(new):  # as text, for 1, 1.0 and true are three options
            yield Change(name, field, old, new)


def _decision(schema: Schema) -> str:
    """A decision in words: its type, then what else it says."""
    rest = {name: value for name, value in schema.items() if name not in ("name", "type", "decisions")}
    told = ", ".join(f"{name} {_shown(value)}" for name, value in rest.items())
    article = "an" if schema["type"][0] in "aeiou" else "a"
    return f"{article} {schema['type']}" + (f" with {told}" if told else "")


def _shown(value: Any) -> str:
    text = _json(value).decode() if value is not None else "none"
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

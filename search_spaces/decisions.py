"""The kinds of decisions: choice, integer, float, a repeated block of decisions, and a cell.

Values are compared with their types: ``1``, ``True`` and ``1.0`` are three options. A decision of one value
is a `Leaf`; a block (`Repeat`, `Cell`) stands for several, and is unrolled by `search_spaces.layout`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.cell import KINDS, Cell
from search_spaces.choice import Choice
from search_spaces.conditions import ConditionLike, When, conditions_schema
from search_spaces.decision import Decision, Leaf
from search_spaces.numeric import Float, Integer
from search_spaces.values import from_json

__all__ = ["Cell", "Choice", "Decision", "Float", "Integer", "Leaf", "Repeat", "When"]


@dataclass(frozen=True)
class Repeat(Decision):
    """A block of decisions, repeated ``count`` times: ``stage.0.width``, ``stage.1.width``, ...

    ``count`` names a decision declared before (`Integer`, or `Choice` of ints), or is itself a number. Blocks
    may hold blocks; a condition inside names a decision of its own block or of one around it.
    """

    count: str | int
    decisions: Mapping[str, Decision]
    when: ConditionLike = None

    def __post_init__(self) -> None:
        number = isinstance(self.count, int) and not isinstance(self.count, bool)
        if not isinstance(self.count, str) and not (number and self.count >= 1):
            raise ValueError(f"Repeat: count = {self.count!r} must name a decision, or be an int of at least 1")
        if not isinstance(self.decisions, Mapping) or not self.decisions:
            raise ValueError(f"Repeat: decisions = {self.decisions!r} must map at least one name to a decision")
        _ = self.conditions

    def schema(self) -> dict[str, Any]:
        """Plain JSON; decisions are a list, for their order matters."""
        decisions = decisions_schema(self.decisions)
        return {
            "type": "repeat", "count": self.count, "decisions": decisions, **conditions_schema(self.conditions)
        }  # fmt: skip


def decisions_schema(decisions: Mapping[str, Decision]) -> list[dict[str, Any]]:
    """Plain JSON of named decisions, in order."""
    return [{"name": name, **decision.schema()} for name, decision in decisions.items()]


def decisions_from_schema(plain: Sequence[Mapping[str, Any]]) -> dict[str, Decision]:
    """Inverse of `decisions_schema`; ValueError where it is none."""
    try:
        return {entry["name"]: _decision_from_schema(entry) for entry in plain}
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no schema of decisions ({type(error).__name__}: {error})") from error


def _decision_from_schema(plain: Mapping[str, Any]) -> Decision:
    when = {name: [*map(from_json, values)] for name, values in plain.get("when", {}).items()} or None
    match plain["type"]:
        case "choice":
            return Choice(*map(from_json, plain["options"]), ordered=plain["ordered"], when=when)
        case "integer":
            return Integer(plain["low"], plain["high"], plain["step"], plain["log"], when)
        case "float":
            return Float(plain["low"], plain["high"], plain["log"], when)
        case "repeat":
            return Repeat(plain["count"], decisions_from_schema(plain["decisions"]), when)
        case "cell":
            operations = [*map(from_json, plain["operations"])]
            inputs, edges = from_json(plain["inputs"]), from_json(plain.get("edges"))
            kinds = {kind: [*map(from_json, plain[kind])] for kind in KINDS if kind in plain}
            return Cell(plain["nodes"], operations, plain["on"], inputs, when, edges=edges, **kinds)
    raise ValueError(f"decision {plain['name']!r} has the type {plain['type']!r}, which this version does not know")

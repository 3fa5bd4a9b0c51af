"""Known candidates (``[[search.start]]``): what a user has reason to try before the strategy is asked."""

from collections.abc import Mapping, Sequence
from typing import Any

from nas.errors import ConfigError
from search_spaces import Candidate, CandidateSpace, Values

OPERATOR = "start"
"""The operator of their proposals."""


def known_candidates(space: CandidateSpace, entries: Sequence[Mapping[str, Any]]) -> tuple[Candidate, ...]:
    """Candidates of tables ``{architecture, hyperparameters}``; each part by name, or in its text form.

    Raises ConfigError with the entry, counted from 1, the name and the rule for what is no candidate of ``space``.
    """
    return tuple(_candidate(space, entry, number) for number, entry in enumerate(entries, 1))


def _candidate(space: CandidateSpace, entry: Mapping[str, Any], number: int) -> Candidate:
    try:
        return space.from_plain({name: _plain(part) for name, part in entry.items()})
    except (ValueError, TypeError) as error:
        raise ConfigError(f"search.start, entry {number}: {error}") from error


def _plain(part: Any) -> Any:
    if isinstance(part, str):
        return Values.parse(part).plain()
    return _flat(part) if isinstance(part, Mapping) else part


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Names as ``layer.0.width``, which TOML reads as tables in tables; no value is a table."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat

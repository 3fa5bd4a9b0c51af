"""What is wrong with a table of recorded results, in sentences that say where, and what the rule is."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEYS = ("decisions", "objective", "direction")
_DIRECTIONS = ("maximize", "minimize")


def spec_faults(spec: Any) -> list[str]:
    """Faults of the declaration; none for a good one."""
    if not isinstance(spec, dict):
        return [f"its spec is {spec!r}; a JSON object with {', '.join(_KEYS)} is needed"]
    return [*_key_faults(spec)] or [*_decision_faults(spec["decisions"])]


def _key_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    missing = [name for name in _KEYS if name not in spec]
    if missing:
        yield f"the table's spec lacks {', '.join(missing)}"
        return
    if not isinstance(spec["objective"], str):
        yield f"its spec says objective = {spec['objective']!r}; name a metric"
    if spec["direction"] not in _DIRECTIONS:
        yield f"its spec says direction = {spec['direction']!r}; say maximize or minimize"
    seconds = spec.get("validation_seconds") or 0
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds or not isfinite(seconds):
        yield f"its spec says validation_seconds = {seconds!r}; a number from 0 is needed"


def _decision_faults(decisions: Any) -> Iterator[str]:
    if not isinstance(decisions, list) or not decisions:
        yield f"its spec says decisions = {decisions!r}; a list of objects with name and options is needed"
        return
    names = []
    for at, decision in enumerate(decisions):
        if not isinstance(decision, dict) or not isinstance(decision.get("name"), str):
            yield f"decision {at} of its spec is {decision!r}; an object with a name and options is needed"
            return
        if not isinstance(decision.get("options"), list) or not decision["options"]:
            yield f"decision {decision['name']!r} of its spec has options {decision.get('options')!r}; a list is needed"
        names.append(decision["name"])
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"its spec has {names.count(name)} decisions of the name {name!r}; names must differ"


def array_faults(spec: Mapping[str, Any], arrays: "Mapping[str, NDArray[Any]]") -> Iterator[str]:
    """Faults of the arrays under a good declaration."""
    for name in ("codes", "fidelities", f"metric:{spec['objective']}"):
        if name not in arrays:
            yield f"it has no array {name!r}" + (", which is its objective" if name.startswith("metric:") else "")
            return
    yield from _fidelity_faults(arrays["fidelities"])
    yield from _code_faults(spec["decisions"], arrays["codes"])
    yield from _result_faults(arrays)


def _fidelity_faults(fidelities: "NDArray[Any]") -> Iterator[str]:
    import numpy as np

    plain = fidelities.ndim == 1 and len(fidelities) and fidelities.dtype.kind in "iuf"
    if not plain or not (np.isfinite(fidelities).all() and fidelities[0] > 0 and (np.diff(fidelities) > 0).all()):
        yield f"fidelities are {fidelities.tolist()}; finite numbers above 0 that increase are needed"


def _code_faults(decisions: list[Any], codes: "NDArray[Any]") -> Iterator[str]:
    import numpy as np

    counts = np.array([len(decision["options"]) for decision in decisions])
    if codes.ndim != 2 or codes.shape[1] != len(counts) or not len(codes) or codes.dtype.kind not in "iu":
        yield (
            f"codes are {codes.dtype} of shape {list(codes.shape)}; "
            f"integers, a row for each candidate and {len(counts)} columns, one for each decision, are needed"
        )
        return
    outside = np.argwhere((codes < 0) | (codes >= counts))
    if len(outside):
        row, column = outside[0].tolist()
        name, most = decisions[column]["name"], counts[column] - 1
        yield f"codes[{row}] says {codes[row, column]} for decision {name!r}, whose places go from 0 to {most}"
    different = len(np.unique(codes, axis=0))
    if different < len(codes):
        yield f"{len(codes) - different} of its {len(codes)} codes are repeated; each may stand once"


def _result_faults(arrays: "Mapping[str, NDArray[Any]]") -> Iterator[str]:
    import numpy as np

    rows, levels = len(arrays["codes"]), arrays["fidelities"].size
    for name, values in arrays.items():
        kind, _, metric = name.partition(":")
        if kind not in ("metric", "cost", "seconds") or (kind != "seconds" and not metric):
            continue
        shape = (rows,) if kind == "cost" else (rows, levels)
        if values.shape != shape or values.dtype.kind not in "biuf":
            found = f"{values.dtype} of shape {list(values.shape)}"
            yield f"{name} is {found}; real numbers of shape {list(shape)} are needed"
        elif kind == "seconds" and not (np.isfinite(values).all() and (values >= 0).all()):
            row, level = np.argwhere(~(np.isfinite(values) & (values >= 0)))[0].tolist()
            yield f"seconds[{row}, {level}] is {values[row, level]}; finite times from 0 are needed"

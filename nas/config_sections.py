"""The tables of a configuration: every key with its type, default, rule and example.

Rule and example are part of the declaration, so that an error, the documentation and the check say the same.
"""

import datetime
import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from nas.objective import Direction
from search_spaces import Bound
from trainers import Plan

_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)\s*h)?\s*(?:(\d+(?:\.\d+)?)\s*m(?:in)?)?\s*(?:(\d+(?:\.\d+)?)\s*s)?")
_NOT_CODE = (bool, int, float, list, tuple, dict, set, datetime.date, datetime.time, type(None))


def code(value: Any) -> Any:
    """A name, ``module:name``, or from Python the class, function or object itself."""
    if isinstance(value, str):
        module, colon, name = value.partition(":")
        if not value.strip() or (colon and not (module.strip() and name.strip())):
            raise ValueError
    elif isinstance(value, _NOT_CODE):
        raise ValueError
    return value


def seconds(value: Any) -> float:
    """Seconds of ``"10m"``, ``"90s"``, ``"1h30m"`` or a number."""
    if isinstance(value, str):
        form = _TIME.fullmatch(value.strip())
        if form is None or not any(form.groups()):
            raise ValueError
        hours, minutes, rest = (float(group or 0) for group in form.groups())
        value = 3600 * hours + 60 * minutes + rest
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError
    return value


def _plan(value: str) -> str:
    if not value.strip():
        raise ValueError
    return value if value == "auto" else str(_parsed(Plan.parse, value))


def _direction(value: Any) -> Direction:
    if value not in list(Direction):
        raise ValueError
    return Direction(value)


def _constraint(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    _parsed(lambda text: Bound.parse("", text), value)
    return value


def _known(entries: list[Any] | None) -> list[Any] | None:
    if any(
        not isinstance(entry, dict) or not all(isinstance(part, dict | str) for part in entry.values())
        for entry in entries or ()
    ):
        raise ValueError
    return entries


def _folder(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _parsed(parse: Callable[[str], Any], value: str) -> Any:
    """Parse; of an error keep the rule, as key and value are named beside it."""
    try:
        return parse(value)
    except ValueError as error:
        raise ValueError(str(error).partition(": ")[2]) from None


Code: TypeAlias = Annotated[Any, BeforeValidator(code)]
Seconds: TypeAlias = Annotated[float, BeforeValidator(seconds)]
Number: TypeAlias = int | float
Settings: TypeAlias = dict[str, Any]

DIRECTION = Annotated[Direction, BeforeValidator(_direction)]
CONSTRAINT = Annotated[str, BeforeValidator(_constraint)]


def key(rule: str, example: str, default: Any = ..., **limits: Any) -> Any:
    """Declare a key: the ``rule`` that its value keeps and an ``example`` as TOML writes it."""
    return Field(default, description=rule, examples=[example], **limits)


class Section(BaseModel):
    """A table: unknown keys are refused, types are not bent, nothing changes later."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Search(Section):
    """What is searched, how, and how long. Of the budgets the first one reached ends the search."""

    space: Code = key("a search space, as a name or module:name", '"convnet"', "convnet")
    task: Code = key("a task, as a name or module:name", '"digits"', "digits")
    trainer: Code = key('"supervised", another trainer, or your own module:function', '"supervised"', "supervised")
    strategy: Code = key("a strategy, as a name or module:name", '"auto"', "auto")
    trials: int | None = key("a whole number of at least 1 (candidates launched)", "60", None, ge=1, lt=2**63)
    hours: Number | None = key("a number above 0 (hours of running)", "1.5", None, gt=0, allow_inf_nan=False)
    device_hours: Number | None = key("a number above 0 (allocated device-hours)", "8", None, gt=0, allow_inf_nan=False)
    target: Number | None = key(
        "a number (a value of the first objective that is good enough)", "0.99", None, allow_inf_nan=False
    )
    start: Annotated[list[Any] | None, AfterValidator(_known)] = key(
        "candidates as tables {architecture, hyperparameters}, each part a table or text",
        'start = [{ architecture = "depth=1", hyperparameters = { learning_rate = 0.1 } }]',
        None,
    )
    from_: Annotated[str | None, BeforeValidator(_folder)] = key(
        "the folder of an older study", '"runs/older"', None, alias="from", min_length=1
    )
    seed: int = key("a whole number from 0 to 2^63 - 1", "0", 0, ge=0, lt=2**63)
    static_metrics: list[Code] | None = key(
        "static metrics, each as a name or module:name", '["my_search:flops"]', None, min_length=1
    )
    replicates: int = key("a whole number of at least 1 (trainings of each candidate)", "3", 1, ge=1, le=1000)
    merge: Literal["canonical", "exact"] | None = key(
        '"canonical" (isomorphic architectures are one) or "exact"', '"canonical"', None
    )
    max_same_errors: int = key(
        "a whole number of at least 1 (equal errors in a row that end the search)", "20", 20, ge=1, lt=2**63
    )

    @property
    def budgets(self) -> Mapping[str, float]:
        """The budgets that are set, by name."""
        given = {name: getattr(self, name) for name in BUDGETS}
        return {name: value for name, value in given.items() if value is not None}


BUDGETS = ("trials", "hours", "device_hours", "target")


class Fidelity(Section):
    """How much a trial trains, and how trials are compared on the way."""

    rule: Code = key('"none", "median", "sha", "asha", "asha-stop", "hyperband", or module:name', '"asha"', "asha")
    min: Number = key("a number above 0 (training before the first comparison)", "3", 1, gt=0, allow_inf_nan=False)
    max: Number = key("a number above 0 (the training of a whole trial)", "27", gt=0, allow_inf_nan=False)
    eta: Number = key("a number above 1 (one in eta trials goes on from a rung)", "3", 3, gt=1, allow_inf_nan=False)
    unit: str = key("the name of the unit of min and max", '"epoch"', "epoch", min_length=1)


class Trial(Section):
    """How one trial runs."""

    plan: Annotated[str, AfterValidator(_plan)] = key('"auto" or AXIS=DEGREE, as "data=2"', '"auto"', "auto")
    timeout: Seconds | None = key('a time above 0 ("10m", "90s", "1h30m", or seconds)', '"10m"', None)


class Cluster(Section):
    """Where trials run."""

    executor: Literal["ray", "inline", "simulated"] = key('"ray", "inline" or "simulated"', '"ray"', "ray")
    address: str | None = key(
        '"local" (start Ray), "auto" (join the one here) or HOST:PORT',
        '"local"',
        None,
        min_length=1,
    )
    max_devices: int | None = key("a whole number of at least 1 (devices used at most)", "8", None, ge=1, lt=2**63)
    max_concurrent: int | None = key("a whole number of at least 1 (trials at a time)", "4", None, ge=1, lt=2**63)


class Study(Section):
    """How the record is kept."""

    keep_gib: Number = key("a number above 0 (GiB of checkpoints kept)", "10", 10, gt=0, allow_inf_nan=False)
    fsync: Literal["batch", "always"] = key(
        '"batch" (every 0.1 s) or "always" (before each command)', '"batch"', "batch"
    )

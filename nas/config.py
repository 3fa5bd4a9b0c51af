"""The configuration of a search: a frozen value with a plain form, and what it means to the other packages.

`nas.config_text` reads it from TOML, `nas.config_check` resolves the code that it names.
"""

from collections.abc import Mapping
from math import log
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from nas import config_sections as sections
from nas.config_errors import problems, shown
from nas.errors import ConfigError
from nas.objective import Objective, Objectives
from search_spaces import Bound, Reference
from trainers import Plan

_MOST_RUNGS = 1_000
_MAY_CHANGE = tuple(f"search.{name}" for name in (*sections.BUDGETS, "max_same_errors"))
_MAY_CHANGE_TABLES = ("trial", "cluster", "study")


class SearchConfig(sections.Section):
    """All that a search is told. ``space``, ``strategy``, ``task`` and ``trainer`` are the arguments of the code that
    ``search`` names. The order of objectives, hyperparameters and constraints is meant: the first objective leads.
    """

    search: sections.Search
    space: sections.Settings = Field(default_factory=dict)
    task: sections.Settings = Field(default_factory=dict)
    strategy: sections.Settings = Field(default_factory=dict)
    objectives: dict[str, sections.DIRECTION] = sections.key(
        'at least one metric, each "maximize" or "minimize"', 'val_accuracy = "maximize"', min_length=1
    )
    constraints: dict[str, sections.CONSTRAINT] = sections.key(
        'metrics with their bounds, "<= NUMBER" or ">= NUMBER"', 'parameters = "<= 100_000"', {}
    )
    hyperparameters: sections.Settings = Field(default_factory=dict)
    fidelity: sections.Fidelity
    trainer: sections.Settings = Field(default_factory=dict)
    trial: sections.Trial = sections.Trial()
    cluster: sections.Cluster = sections.Cluster()
    study: sections.Study = sections.Study()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read the plain form, that of TOML or of `to_plain`; raise ConfigError naming everything that is wrong."""
        try:
            return cls.model_validate(dict(plain))
        except ValidationError as error:
            raise ConfigError("\n".join(problems(cls, error))) from None

    def to_plain(self) -> dict[str, Any]:
        """All keys as JSON values; code that is no text is recorded by its name. `from_plain` reads it back."""
        plain = self.model_dump(by_alias=True)
        for kind in ("space", "task", "trainer", "strategy"):
            plain["search"][kind] = Reference(getattr(self.search, kind)).name
        if self.search.static_metrics is not None:
            plain["search"]["static_metrics"] = [Reference(code).name for code in self.search.static_metrics]
        plain["fidelity"]["rule"] = Reference(self.fidelity.rule).name
        plain["objectives"] = {name: direction.value for name, direction in self.objectives.items()}
        return plain

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found = [*_contradictions(self)]
        if found:
            raise ValueError("\n".join(found))
        return self

    def reference(self, kind: str) -> Reference:
        """Code and arguments of the ``"space"``, ``"task"``, ``"trainer"`` or ``"strategy"``.

        A trainer takes none: its settings go with every leg.
        """
        return Reference(getattr(self.search, kind), {} if kind == "trainer" else getattr(self, kind))

    @property
    def declared_objectives(self) -> Objectives:
        """Objectives and constraints as values."""
        return Objectives(tuple(Objective(*pair) for pair in self.objectives.items()), self.bounds)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The constraints as values."""
        return tuple(Bound.parse(name, text) for name, text in self.constraints.items())

    @property
    def plan(self) -> Plan | None:
        """The plan that every trial runs under; None for ``"auto"``."""
        return None if self.trial.plan == "auto" else Plan.parse(self.trial.plan)


def _contradictions(config: SearchConfig) -> list[str]:
    found = []
    fidelity, cluster, plan = config.fidelity, config.cluster, config.plan
    if not config.search.budgets:
        found.append(
            "search: no budget is set, the search would never end; set one of "
            f"{', '.join(sections.BUDGETS)}, for example trials = 60"
        )
    if fidelity.rule != "none" and fidelity.min > fidelity.max:
        found.append(
            f"fidelity.min = {fidelity.min} is above fidelity.max = {fidelity.max}; lower min, raise max, "
            'or set rule = "none"'
        )
    if fidelity.rule != "none" and fidelity.min < fidelity.max:
        count = log(fidelity.max / fidelity.min) / log(fidelity.eta)
        if count > _MOST_RUNGS:
            found.append(
                f"fidelity.eta = {fidelity.eta} makes {count:.0f} rungs between min and max; "
                f"raise it, at most {_MOST_RUNGS} are of use"
            )
    if plan and cluster.max_devices and plan.width > cluster.max_devices:
        found.append(
            f'trial.plan = "{plan}" takes {plan.width} devices, cluster.max_devices = {cluster.max_devices} '
            "allows less; narrow the plan or raise max_devices"
        )
    if cluster.executor == "simulated" and config.search.trainer == "supervised":
        found.append(
            'cluster.executor = "simulated" runs trainers that say how long training would take, and '
            'search.trainer = "supervised" really trains; set trainer = "synthetic" or executor = "inline"'
        )
    if plan and plan.width > 1 and cluster.executor == "inline":
        found.append(
            f'trial.plan = "{plan}" takes {plan.width} processes, cluster.executor = "inline" has one; '
            'set executor = "ray" or plan = "auto"'
        )
    return found


def changed(config: SearchConfig, plain: Mapping[str, Any]) -> SearchConfig:
    """Return ``plain`` as the configuration that a study of ``config`` goes on with.

    Raises ConfigError where it changes more than budgets, ``trial``, ``cluster`` and ``study``: what is recorded would
    no more be comparable with what comes.
    """
    new = SearchConfig.from_plain(plain)
    before, after = config.to_plain(), new.to_plain()
    frozen = [
        f"{key} is {shown(old)} in this study and cannot become {shown(value)}"
        for key, old, value in _differences(before, after)
        if key not in _MAY_CHANGE and key.split(".")[0] not in _MAY_CHANGE_TABLES
    ]
    if frozen:
        tables = ", ".join(f"[{table}]" for table in _MAY_CHANGE_TABLES)
        raise ConfigError(
            f"{'; '.join(frozen)}. A study may change {', '.join(_MAY_CHANGE)} and the tables {tables}; "
            "start a new study for the rest"
        )
    return new


def _differences(before: Any, after: Any, at: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            difference
            for name in dict.fromkeys((*before, *after))
            for difference in _differences(before.get(name), after.get(name), f"{at}.{name}" if at else name)
        ]
    return [] if before == after and type(before) is type(after) else [(at, before, after)]

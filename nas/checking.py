"""The conformance suite of a user's own code, run without a test library, each failure explained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nas.config import SearchConfig
from nas.config_check import guarded, named
from nas.config_text import complete, main_job, parse_setting
from nas.errors import ConfigError
from nas.fidelity import RULES
from nas.strategies import STRATEGIES
from search_spaces import SPACES, CandidateSpace, Registry, SearchSpace, hyperparameter_domain, load_object
from search_spaces.conformance import Check, Finding, judge
from trainers import TASKS, TRAINERS

_KEYS = {
    "space": "search.space",
    "task": "search.task",
    "trainer": "search.trainer",
    "strategy": "search.strategy",
    "fidelity rule": "fidelity.rule",
}
_REGISTRIES: dict[str, Registry] = {
    "space": SPACES,
    "task": TASKS,
    "trainer": TRAINERS,
    "strategy": STRATEGIES,
    "fidelity rule": RULES,
}
KINDS = tuple(_KEYS)
_METHODS = (
    ("strategy", ("ask", "tell")),
    ("fidelity rule", ("on_report", "promote")),
    ("task", ("load", "loss")),
    ("trainer", ("__call__",)),
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of a suite: the ``kind`` of the code, the checks' names in order, and what they found."""

    code: str
    kind: str
    checks: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> int:
        """How many checks found something."""
        return len({finding.check for finding in self.findings})

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "code": self.code,
            "kind": self.kind,
            "checks": list(self.checks),
            "findings": [
                {"check": finding.check, "law": finding.law, "seen": finding.message, "remedy": finding.remedy}
                for finding in self.findings
            ],
        }


def check_code(
    code: str,
    kind: str | None = None,
    settings: Sequence[str] = (),
    tell: Callable[[str, bool], None] = lambda check, passed: None,
) -> Checked:
    """Run the suite of ``code``, a name or ``module:name``, and ``tell`` each check's name and whether it passed.

    ``settings`` are ``section.key=value`` on top of the main job: arguments (``space.depth=[1, 2]``), and what is used
    beside (``search.task=my:Task`` gives the signature for a space). Raises ConfigError where the code cannot be
    imported or made, or its kind is not known.
    """
    kind = kind or kind_of(code)
    config = _config(code, kind, settings)
    checks, findings = [], []
    for name, check in _suite(kind, config):
        found = judge(name, check)
        checks.append(name)
        findings += found
        tell(name, not found)
    return Checked(code, kind, tuple(checks), tuple(findings))


def kind_of(code: str) -> str:
    """What kind of plug-in ``code`` is, by its name or by what it has; raises ConfigError where that is not clear."""
    if ":" not in code:
        kinds = [kind for kind, registry in _REGISTRIES.items() if code in registry.names()]
        if len(kinds) == 1:
            return kinds[0]
        if kinds:
            raise ConfigError(f"{code}: there is a {' and a '.join(kinds)} of this name; say which by --kind")
        raise ConfigError(f"{code}: no plug-in has this name; name your own code as module:name")
    found = load_object(code, "code")
    made = found if isinstance(found, type) else type(found)
    if issubclass(made, SearchSpace):
        return "space"
    for kind, methods in _METHODS:
        if all(any(method in vars(base) for base in made.__mro__) for method in methods):
            return kind
    if callable(found) and not isinstance(found, type):
        return "trainer"
    forms = ", ".join(f"a {kind} ({', '.join(methods)})" for kind, methods in _METHODS)
    raise ConfigError(
        f"{code}: this {made.__name__} is of no known kind: a space is a subclass of SearchSpace; others are known by "
        f"their methods: {forms}. Say which by --kind"
    )


def _config(code: str, kind: str, settings: Sequence[str]) -> SearchConfig:
    own = tuple(_KEYS[kind].split("."))
    given = [parse_setting(text) for text in settings]
    plain = complete({}, [(own, code), *given])
    plain.setdefault("hyperparameters", main_job()["hyperparameters"])
    return SearchConfig.from_plain(plain)


def _suite(kind: str, config: SearchConfig) -> list[Check]:
    if kind == "strategy":
        from nas.conformance import strategy_checks

        strategy = _loaded("strategy", config.search.strategy)
        return strategy_checks(lambda space, objectives: strategy(space, objectives, **config.strategy))
    if kind == "fidelity rule":
        from nas.conformance import rule_checks

        return rule_checks(_loaded(kind, config.fidelity.rule))
    if kind == "task":
        from trainers.conformance import task_checks

        return task_checks(_made("task", config))
    if kind == "trainer":
        return _trainer_suite(config)
    from search_spaces.conformance import checks

    space = _made("space", config)
    if not isinstance(space, SearchSpace):
        raise ConfigError(f"search.space: this is a {type(space).__name__}; a space is a subclass of SearchSpace")
    return checks(space, _made("task", config).signature)


def _trainer_suite(config: SearchConfig) -> list[Check]:
    """The suite on the first architecture that a generator gives, with the hyperparameters of the configuration."""
    import numpy as np

    from nas.parts import make_recipe
    from trainers.conformance import trainer_checks

    _loaded("trainer", config.search.trainer)
    with named("hyperparameters"):
        candidates = CandidateSpace(_made("space", config), hyperparameter_domain(config.hyperparameters))
    return trainer_checks(make_recipe(config, Path()), candidates.sample(np.random.default_rng(0)))


def _loaded(kind: str, code: str) -> Any:
    with named(_KEYS[kind]):
        return _REGISTRIES[kind].load(code)


def _made(kind: str, config: SearchConfig) -> Any:
    with named(_KEYS[kind], kind), guarded(_KEYS[kind]):
        return config.reference(kind).make(_REGISTRIES[kind])

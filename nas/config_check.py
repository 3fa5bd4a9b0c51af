"""Resolves the code that a configuration names and lets its declarations check themselves, before anything heavy loads.

Code of ours is resolved without torch; a user's own module may import what it likes, so it comes last.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from math import isfinite
from typing import Any

from nas.config import SearchConfig
from nas.config_errors import shown, unknown
from nas.errors import ConfigError
from nas.fidelity import RULES, rungs
from nas.known import known_candidates
from nas.recorded import check_recorded
from nas.static_stage import STATIC_METRICS
from nas.strategies import STRATEGIES
from search_spaces import (
    SPACES,
    CandidateSpace,
    Domain,
    Reference,
    Registry,
    SearchSpace,
    Signature,
    hyperparameter_domain,
)
from trainers import TASKS, TRAINERS, Failure, builds_networks
from trainers.settings import HYPERPARAMETERS, Settings

SUPERVISED = "supervised"
_ARGUMENT = re.compile(r"\w+ = ")


def check(config: SearchConfig) -> None:
    """Raise ConfigError for code that cannot be found or made, and for declarations that are malformed."""
    _check_plain("", config.to_plain())
    search = config.search
    names = (
        ("search.space", search.space, SPACES),
        ("search.task", search.task, TASKS),
        ("search.trainer", search.trainer, TRAINERS),
        ("search.strategy", search.strategy, STRATEGIES),
        ("fidelity.rule", config.fidelity.rule, RULES),
    )
    for key, code, registry in names:
        _check_name(key, code, registry)
    for code in search.static_metrics or ():
        _check_name("search.static_metrics", code, STATIC_METRICS)
    domain = _hyperparameters(config)
    if search.trainer == SUPERVISED:
        _check_supervised(config)
    space = checked_space(config)
    _check_clash(space, domain)
    candidates = CandidateSpace(space, domain)
    known_candidates(candidates, search.start or ())
    _check_strategy(config, candidates)
    shapes: Signature = checked_task(config).signature
    if _own(search.trainer):
        _check_function("search.trainer", search.trainer, TRAINERS, "a trainer is a function train(candidate, context)")
    if search.trainer == SUPERVISED or builds_networks(_loaded("search.trainer", search.trainer, TRAINERS)):
        with named("search.space"):
            space.check_signature(shapes)
    check_recorded(config, space)
    for code in search.static_metrics or ():
        form = "a static metric is a function measure(candidate, network, signature)"
        _check_function("search.static_metrics", code, STATIC_METRICS, form)


def _check_arguments(table: str, code: Any, given: Mapping[str, Any], ours: int = 0) -> None:
    """Refuse arguments that ``code`` does not take; the first ``ours`` are not the user's to give."""
    if not isinstance(code, type):
        return
    parameters = list(signature(code).parameters.values())[ours:]
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    for name in given:
        if name not in known:
            raise ConfigError(
                unknown(f"{table}.{name}", name, known) if known else f"{table}.{name}: there are no keys"
            )
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.default is Parameter.empty and parameter.name not in given
        if parameter.kind is not Parameter.VAR_POSITIONAL
    ]
    if missing:
        raise ConfigError(f"{table}.{missing[0]} is missing: {code.__name__} has no default for it")


def _check_function(key: str, code: Any, registry: Registry, form: str) -> None:
    found = _loaded(key, code, registry)
    if not callable(found):
        raise ConfigError(f"{key} = {shown(Reference(code).name)}: this is a {type(found).__name__}; {form}")


def _loaded(key: str, code: Any, registry: Registry) -> Any:
    with named(key):
        return registry.load(code) if isinstance(code, str) else code


def _check_plain(at: str, value: Any) -> None:
    """Raise ConfigError for what the record cannot keep: it would come back as something else on a resume."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_plain(f"{at}.{name}" if at else str(name), item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_plain(at, item)
    elif not _recordable(value):
        raise ConfigError(
            f"{at} = {value!r}: a {type(value).__name__} cannot be kept in the record; use text, true or false, "
            "finite numbers (integers of 64 bits), lists and tables of them"
        )


def _recordable(value: Any) -> bool:
    if type(value) is int:
        return -(2**63) <= value < 2**63
    if type(value) is float:
        return isfinite(value)
    return value is None or isinstance(value, bool | str)


def _own(code: Any) -> bool:
    return isinstance(code, str) and ":" in code


def _check_name(key: str, code: Any, registry: Registry) -> None:
    """Names only: what ``module:name`` stands for is found when it is loaded."""
    if isinstance(code, str) and ":" not in code and code not in registry.names():
        with named(key):
            registry.load(code)


def checked_space(config: SearchConfig) -> SearchSpace:
    """The space; raise ConfigError where it cannot be made, is none, or holds nothing."""
    _check_arguments("space", _loaded("search.space", config.search.space, SPACES), config.space)
    with named("search.space", "space"), guarded("search.space"):
        space: Any = config.reference("space").make(SPACES)
    if not isinstance(space, SearchSpace):
        raise ConfigError(
            f"search.space = {shown(Reference(config.search.space).name)}: this is a {type(space).__name__}; "
            "a space is a subclass of search_spaces.SearchSpace"
        )
    with named("search.space"):
        if not space.domain.decisions or space.size() == 0:
            raise ValueError(f"space {space.name} holds no architecture; widen its decisions")
    return space


def _hyperparameters(config: SearchConfig) -> Domain | None:
    if not config.hyperparameters:
        return None
    with named():
        return hyperparameter_domain(config.hyperparameters)


def checked_settings(config: SearchConfig) -> Settings:
    """Settings of the supervised trainer; raise ConfigError naming the wrong one."""
    with named("trainer", "trainer"):
        return Settings.parse(config.trainer)


def _check_supervised(config: SearchConfig) -> None:
    checked_settings(config)
    fidelity = config.fidelity
    levels = (fidelity.max,) if fidelity.rule == "none" else rungs(fidelity.min, fidelity.max, fidelity.eta)
    for level in levels:
        if not float(level).is_integer():
            raise ConfigError(
                f"fidelity: a rung of {level:g} {fidelity.unit}s is no whole number, and the supervised trainer "
                "trains whole epochs; choose min, max and eta so that all rungs (min eta^k, max) are whole"
            )
    for name, entry in config.hyperparameters.items():
        if name not in HYPERPARAMETERS:
            with named():
                Settings.parse({}, {name: None})
        for value in _extremes(entry):
            with named("hyperparameters", "hyperparameters"):
                Settings.parse(config.trainer, {name: value})


def _extremes(entry: Any) -> list[Any]:
    """Values of a hyperparameter that a trainer accepts only if it accepts all of them."""
    if isinstance(entry, dict):
        return list(entry["choices"]) if "choices" in entry else [entry["low"], entry["high"]]
    return list(entry) if isinstance(entry, list) else [entry]


def _check_clash(space: SearchSpace, domain: Domain | None) -> None:
    both = [name for name in (domain.decisions if domain else ()) if name in space.domain.decisions]
    if both:
        raise ConfigError(
            f"hyperparameters.{both[0]}: the space {space.name} has a decision of this name; "
            "rename one, a candidate's values go by name"
        )


def _check_strategy(config: SearchConfig, space: CandidateSpace) -> None:
    strategy = _loaded("search.strategy", config.search.strategy, STRATEGIES)
    _check_arguments("strategy", strategy, config.strategy, ours=2)
    with named("search.strategy", "strategy"):
        strategy(space, config.declared_objectives, **config.strategy)
    rule = _loaded("fidelity.rule", config.fidelity.rule, RULES)
    with named("fidelity"):
        rule(config.declared_objectives, config.fidelity.min, config.fidelity.max, config.fidelity.eta)


def checked_task(config: SearchConfig) -> Any:
    """The task; raise ConfigError where it cannot be made or has no signature."""
    _check_arguments("task", _loaded("search.task", config.search.task, TASKS), config.task)
    with named("search.task", "task"), guarded("search.task"):
        task = config.reference("task").make(TASKS)
    shapes: Signature | None = getattr(task, "signature", None)
    if shapes is None:
        raise ConfigError(
            f"search.task = {shown(Reference(config.search.task).name)}: this {type(task).__name__} has no "
            "signature; a task has signature, load, loss and metrics"
        )
    return task


@contextmanager
def guarded(key: str) -> Iterator[None]:
    """Turn whatever a user's own code raises while it is made into a ConfigError that says where."""
    try:
        yield
    except ValueError:
        raise
    except (Exception, SystemExit) as error:
        failure = Failure.of(error, "start")
        raise ConfigError(f"{key}: making it failed at {failure.frame}: {failure.error}: {failure.message}") from error


@contextmanager
def named(key: str = "", table: str = "") -> Iterator[None]:
    """Turn a ValueError of a declaration into a ConfigError that begins with the key at fault.

    That is ``table.argument`` where the text begins with the name of an argument, as in ``widths = []: ...``.
    """
    try:
        yield
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        text = str(error)
        if table and _ARGUMENT.match(text):
            raise ConfigError(f"{table}.{text}") from error
        raise ConfigError(f"{key}: {text}" if key and not text.startswith(f"{table or key}.") else text) from error

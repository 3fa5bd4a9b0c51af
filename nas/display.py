"""One honest line while a search runs: on a terminal it changes in place, elsewhere it is printed every 10 s."""

from collections.abc import Callable, Mapping
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nas.config_sections import BUDGETS
from nas.study import Study
from nas.trial import Outcome, State
from trainers import Fidelity, Measurement
from trainers.replicates import standard_error_name

_DONE = (Outcome.COMPLETED, Outcome.STOPPED)
_PLAIN_SECONDS = 10.0
_TERMINAL_SECONDS = 0.25
_BUSY_SHARE = 0.05


class Progress:
    """A watcher of a search: call it as often as you like with the study and what running trials reported last.

    It prints at most every 0.25 s on a terminal, every 10 s elsewhere, and less often where making the line would take
    more than a twentieth of the time.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = monotonic) -> None:
        self._console = console
        self._clock = clock
        self._due = clock() if console.is_terminal else clock() + _PLAIN_SECONDS
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, study: Study, live: Mapping[int, Measurement]) -> None:
        """Show the line if it is due."""
        began = self._clock()
        if began < self._due:
            return
        parts = progress_parts(study, live)
        if self._live:
            self._live.update(Text(fit(parts, self._console.width), no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self._console.print(Text(" | ".join(parts)), soft_wrap=True)
        pause = _TERMINAL_SECONDS if self._live else _PLAIN_SECONDS
        self._due = max(began + pause, self._clock() + (self._clock() - began) / _BUSY_SHARE)


def progress_parts(study: Study, live: Mapping[int, Measurement]) -> list[str]:
    """Parts of the progress line, the most important first."""
    best, count, budgets = study.best(), study.counts(), budgets_of(study)
    done = sum(count.get(outcome, 0) for outcome in _DONE)
    failed = sum(count.get(outcome, 0) for outcome in Outcome if outcome not in _DONE)
    of = f" of {budgets['trials']:.0f}" if "trials" in budgets else ""
    trials = (
        f"{study.launched}{of} trials: {done} done, {count.get(State.RUNNING, 0)} running, "
        f"{count.get(State.PAUSED, 0)} paused, {failed} failed"
    )
    parts = [trials, time_left(study, budgets)]
    if best is not None:
        lead = study.objectives.objectives[0].name
        parts.append(f"best {lead} {number(best.metrics[lead])} (trial {best.number} at {reach(study, best.fidelity)})")
        parts.append(f"front {len(study.front())}")
    elif live:
        trial, measurement = max(live.items(), key=lambda item: item[1].fidelity)
        parts.append(f"no result yet (trial {trial} at {reach(study, measurement.fidelity)})")
    parts.append(f"{number(study.allocated_seconds() / 3600)} device-hours")
    return [part for part in parts if part]


def budgets_of(study: Study) -> dict[str, float]:
    """Budgets of the study's last session, by name."""
    search = (study.config or study.header.get("config", {})).get("search", {})
    return {name: search[name] for name in BUDGETS if search.get(name) is not None}


def reach(study: Study, fidelity: Fidelity) -> str:
    """A fidelity with its unit, as in ``27 epochs``."""
    unit = str((study.config or study.header["config"])["fidelity"]["unit"])
    return f"{number(fidelity)} {unit}" if fidelity == 1 or unit.endswith("s") else f"{number(fidelity)} {unit}s"


def fit(parts: list[str], width: int) -> str:
    """Join as many parts as the width holds; the first is always there."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + 3 + len(part) >= width:
            break
        line = f"{line} | {part}"
    return line


def spent(study: Study, budgets: Mapping[str, float]) -> float:
    """Share of the budget that is used up, by the budget nearest its end; a target counts for nothing."""
    shares = [0.0]
    if "trials" in budgets:
        shares.append((study.launched - len(study.running()) / 2) / budgets["trials"])
    if "hours" in budgets:
        shares.append(study.seconds / 3600 / budgets["hours"])
    if "device_hours" in budgets:
        shares.append(study.allocated_seconds() / 3600 / budgets["device_hours"])
    return min(1.0, max(shares))


def time_left(study: Study, budgets: Mapping[str, float]) -> str:
    """Time left, from the share of the budget spent and the time that took."""
    share = spent(study, budgets)
    if share >= 1 or ("trials" in budgets and study.launched >= budgets["trials"]):
        return "finishing"
    if share < 0.02 or study.seconds <= 0:
        return "time left not known yet"
    return f"about {duration(study.seconds * (1 - share) / share)} left"


def duration(seconds: float) -> str:
    """A time in the unit that a person would say it in."""
    if seconds < 90:
        return f"{max(1, round(seconds / 5) * 5) if seconds >= 5 else max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def number(value: float) -> str:
    """A number in at most five digits, whole ones with thousands apart."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4f}" if 0.01 <= abs(value) < 10 else f"{value:.4g}"


def measured(metrics: Mapping[str, float], name: str) -> str:
    """A metric, with its standard error where it is a mean over replicates; ``-`` where there is none."""
    if name not in metrics:
        return "-"
    error = metrics.get(standard_error_name(name))
    return number(metrics[name]) if error is None else f"{number(metrics[name])} +- {number(error)}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, as in ``1 trial`` and ``2 trials``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

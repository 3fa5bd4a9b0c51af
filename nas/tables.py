"""Answers as people read them on a terminal: the front, the trials, how a search ended and what can follow."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nas.budget import Budget
from nas.display import budgets_of, counted, duration, measured, number, reach, time_left
from nas.refusals import refusals
from nas.study import Study
from nas.trained import trained
from nas.trial import Outcome, Trial
from nas.unmet import explained
from nas.waiting import paused, waiting
from search_spaces import Candidate, Domain, Value, Values
from search_spaces.sizes import power_text, size_text

if TYPE_CHECKING:
    from nas.checking import Checked
    from nas.retrain import RetrainResult

_ROWS = 20


def ending(console: Console, study: Study, reason: str, exit_code: int, folder: Path) -> None:
    """Print how a search ended: the numbers, the front, where everything is, what to do next."""
    console.print()
    console.print(*front(study), sep="\n")
    console.print(headline(study), soft_wrap=True)
    for line in refused(study):
        console.print(line, soft_wrap=True)
    console.print(Text(f"ended: {reason}"), style="default" if exit_code == 0 else "red", soft_wrap=True)
    if study.sessions > 1 and not study.launches_of_session and exit_code == 0:
        console.print(Text(idle(study)), style="yellow", soft_wrap=True)
    console.print()
    lines(console, [("study", str(folder)), ("report", str(folder / "report.html"))])
    if exit_code == 0 and study.best() is not None:
        weights = [("next", f"nas retrain {folder} --seeds 3"), ("", f"nas export {folder}")]
        lines(console, weights if trained(study) else [("next", f"nas best {folder}")])
    else:
        lines(console, [("next", f"nas resume {folder}")])


def idle(study: Study) -> str:
    """Say that a session had nothing to do, and how the study can go on."""
    limits = budgets_of(study)
    trials = int(limits.pop("trials")) if "trials" in limits else None
    settings = " ".join(f"--set {setting}" for setting in Budget(trials, **limits).larger(study, _candidates(study)))
    if not settings:
        return "Nothing was left to do: the study had ended so, and a larger budget would not change that."
    return f"Nothing was left to do: the study had used up its budget. Go on by: nas resume {study.folder} {settings}"


def _candidates(study: Study) -> int | float:
    """How many candidates the space of the study has."""
    domains = [Domain.from_schema(schema) for schema in study.header["space"].values() if schema]
    return prod(domain.size() for domain in domains)


def lines(console: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values in two columns; values are never wrapped, so that they can be copied."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        console.print(Text.assemble((name.rjust(max(width, 6)), "dim"), "  ", value), soft_wrap=True)


def headline(study: Study) -> Text:
    """A study in one line of numbers."""
    counts = study.counts()
    outcomes = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items()))
    beside = f"; {study.rejected:,} rejected, {counted(study.duplicates, 'duplicate')}" if len(study) else ""
    if study.inherited_from:
        beside += f"; {counted(len(study.inherited), 'trial')} of {study.inherited_from} known"
    hours = study.allocated_seconds() / 3600
    return Text(
        f"{counted(study.launched, 'trial')} ({outcomes or 'none launched'}{beside}) "
        f"in {duration(study.seconds)}, {number(hours)} device-hours"
    )


def front(study: Study, limit: int = _ROWS) -> list[RenderableType]:
    """The Pareto front as a table, the best by the first objective on top."""
    trials = study.front()
    if not trials:
        why = explained(study) or ["No trial has been measured and met all constraints yet: there is no front."]
        return [Text(line if not at else f"  {line}", style="yellow") for at, line in enumerate(why)]
    best = study.best()
    highest = reach(study, study.highest())
    several = len(study.objectives.objectives) > 1
    title = f"Pareto front at {highest}" if several else f"Best at {highest}"
    table = trial_table(study, trials[:limit], title, best)
    more = [Text(f"... and {len(trials) - limit} more", style="dim")] if len(trials) > limit else []
    return [table, *more]


def trial_table(study: Study, trials: Sequence[Trial], title: str, best: Trial | None = None) -> Table:
    """Trials with their objectives and candidates."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("trial", justify="right", no_wrap=True)
    names = [objective.name for objective in study.objectives.objectives]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("candidate", overflow="fold", style="dim")
    for trial in trials:
        values = [measured(trial.metrics, name) for name in names]
        style = "bold green" if trial is best else None
        table.add_row(str(trial.number), *values, Text(short(trial.proposal.candidate)), style=style)
    return table


def short(candidate: Candidate) -> str:
    """A candidate's text with real numbers in four digits; the exact one is in the answers as JSON."""
    parts = (candidate.architecture, candidate.hyperparameters)
    rounded = ({name: _rounded(value) for name, value in part.items()} for part in parts)
    return "; ".join(str(Values(part)) for part in rounded if part)


def _rounded(value: Value) -> Value:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def status(console: Console, study: Study, writer: str | None) -> None:
    """Print where a study stands."""
    console.print(headline(study), soft_wrap=True)
    if study.closed is not None:
        console.print(Text(f"ended: {study.closed}"), soft_wrap=True)
    elif writer:
        left = time_left(study, budgets_of(study))
        console.print(Text(f"being written by {writer}; {left}"), soft_wrap=True)
        for trial in study.running():
            console.print(Text(f"  trial {trial.number} runs to {reach(study, trial.until)} under {trial.plan}"))
    else:
        console.print(Text(f"not ended, and nobody writes it; go on with: nas resume {study.folder}"), soft_wrap=True)
    _print_waiting(console, study, writer is not None)
    for line in [*refused(study), *failures(study)]:
        console.print(line, soft_wrap=True)
    console.print(*front(study), sep="\n")


def _print_waiting(console: Console, study: Study, written: bool) -> None:
    found = waiting(study, written)
    for one in found[:_ROWS]:
        line = f"  trial {one.trial} waits for its leg to {reach(study, one.until)}: {one.why}"
        console.print(Text(line), soft_wrap=True)
    if len(found) > _ROWS:
        console.print(Text(f"  ... and {len(found) - _ROWS} more wait"), soft_wrap=True)
    for text in paused(study, written):
        console.print(Text(f"  {text}"), soft_wrap=True)


def refused(study: Study) -> list[Text]:
    """One line for each constraint, and for the space, that refused candidates before they ran."""
    return [Text(f"  {refusal}", style="dim") for refusal in refusals(study)]


def failures(study: Study) -> list[Text]:
    """One line for each outcome that is a failure: how many trials, and the last message."""
    found: dict[Outcome, list[Trial]] = {}
    for trial in study.trials():
        if trial.outcome and trial.outcome.useless and (trial.launches or trial.failures):
            found.setdefault(trial.outcome, []).append(trial)
    return [_failure(outcome, trials) for outcome, trials in found.items()]


def _failure(outcome: Outcome, trials: list[Trial]) -> Text:
    last, name = trials[-1], outcome.value.replace("_", " ")
    return Text(f"{len(trials)} {name}, last trial {last.number}: {first_line(last)}", style="yellow")


def first_line(trial: Trial) -> str:
    """The first line of a trial's reason."""
    return (trial.reason.strip() or "no reason given").splitlines()[0]


def chosen(study: Study, trial: Trial) -> Group:
    """One trial in full."""
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    candidate = trial.proposal.candidate
    table.add_row("trial", str(trial.number))
    for name, value in trial.metrics.items():
        table.add_row(name, number(value))
    table.add_row("fidelity", number(trial.fidelity))
    table.add_row("key", trial.key)
    for name, option in [*candidate.architecture.items(), *candidate.hyperparameters.items()]:
        table.add_row(name, Text(str(option)))
    return Group(table)


def retrained(console: Console, result: "RetrainResult") -> None:
    """Print what a retrained trial reaches on the test split."""
    several = len(result.metrics) > 1
    pairs = [
        (name, f"{number(mean)} +- {number(result.standard_error[name])}" if several else number(mean))
        for name, mean in result.mean.items()
    ]
    lines(console, [("trial", str(result.trial)), *pairs, ("weights", str(result.folder))])


def checked(console: Console, found: "Checked") -> None:
    """Print each finding with the law that is broken, what was seen, and the remedy; then how many checks passed."""
    for finding in found.findings:
        console.print()
        console.print(Text(finding.check, style="bold red"))
        table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in (("law", finding.law), ("seen", finding.message), ("remedy", finding.remedy)):
            if text:
                table.add_row(name, Text(text))
        console.print(table)
    count = len(found.checks)
    summary = f"{found.code}, a {found.kind}: {count - found.failed} of {counted(count, 'check')} passed"
    console.print(Text(f"\n{summary}", style="red" if found.findings else "green"), soft_wrap=True)


def spaces(console: Console, found: Sequence[dict[str, Any]]) -> None:
    """Print the installed search spaces."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    columns = ("space", "architectures", "decisions", "origin", "description")
    for name in columns:
        justify: Any = "right" if name in ("architectures", "decisions") else "left"
        table.add_column(name, justify=justify, no_wrap=name != "description")
    for space in found:
        if "error" in space:
            table.add_row(space["name"], "-", "-", space["origin"], Text(space["error"], style="red"))
        else:
            table.add_row(
                space["name"], _size(space), str(space["values"]), space["origin"], Text(space["description"])
            )
    console.print(table)


def _size(space: dict[str, Any]) -> str:
    """The number of architectures: exact below 10^12, then rounded; with real numbers those beside it."""
    whole, magnitude = space["size"], space["log10_size"]
    if space["floats"]:
        finite = f"{round(10**magnitude):,}" if magnitude < 3 else power_text(magnitude)
        return f"{finite} x {counted(space['floats'], 'float')}"
    return power_text(magnitude) if whole is None else size_text(whole)

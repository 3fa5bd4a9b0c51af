"""An explanation as tables for people."""

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from nas.amounts import amount, memory, time
from nas.analysis import Analysis
from nas.analysis_tables import options, plans
from nas.display import number
from nas.explaining import Explained, RunLeg
from nas.tables import lines


def explanation(console: Console, found: Explained) -> None:
    """Print the network's concurrency, its plans, and each leg as predicted and measured."""
    trial = found.trial
    heading = [("trial", str(trial.number)), ("candidate", str(trial.proposal.candidate))]
    lines(console, [*heading, *_counts(found), ("why", found.why)])
    for part in (*_legs(found), *_at_launch(found), *_now(found)):
        console.print(part)


def _counts(found: Explained) -> list[tuple[str, str]]:
    analysis = found.analysis
    if analysis is None or analysis.graph is None:
        return [("graph", f"unknown: {found.unknown}")]
    return _concurrency(analysis)


def _concurrency(analysis: Analysis) -> list[tuple[str, str]]:
    whole, batch = analysis.step.concurrency, analysis.of.size.batch
    return [
        ("step", f"{batch} samples; {analysis.parameters:,} parameters; {_peak(analysis)} at its peak on one device"),
        ("W, D", f"{amount(whole.work)} and {whole.depth:,} operations; W/D {amount(whole.parallelism)}"),
    ]


def _peak(analysis: Analysis) -> str:
    return memory(analysis.step.memory.peak_bytes)


def _legs(found: Explained) -> Iterator[RenderableType]:
    """Each leg: predicted and measured seconds of a step."""
    if not found.legs:
        return
    batch = found.analysis.of.size.batch if found.analysis else None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("leg to", "plan"):
        table.add_column(name, no_wrap=True)
    for name in ("predicted step", "", "measured", "measured / predicted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("priced", no_wrap=True)
    for leg in found.legs:
        table.add_row(number(leg.until), leg.plan, *_told(leg, batch))
    yield Text("\nLegs, with the seconds of a step of the batch", style="bold")
    yield table


def _told(leg: RunLeg, batch: int | None) -> tuple[str, ...]:
    seconds = None if batch is None else leg.seconds(batch)
    measured = "-" if seconds is None else time(seconds)
    if leg.predicted is None:
        return "-", "", measured, "-", ""
    ratio = "-" if seconds is None else f"{seconds / leg.predicted.seconds:.2f}"
    at = "at its launch" if leg.options else "now"
    return time(leg.predicted.seconds), f"± {leg.predicted.log_error:.0%}", measured, ratio, at


def _at_launch(found: Explained) -> Iterator[RenderableType]:
    """What the last leg's plan was chosen from."""
    offered, analysis = (found.legs[-1].options if found.legs else ()), found.analysis
    if offered and analysis is not None:
        yield Text("\nPlans that the last leg's was chosen from, as predicted at its launch", style="bold")
        yield options(offered, analysis.of.size.batch)


def _now(found: Explained) -> Iterator[RenderableType]:
    planned = found.analysis.planned if found.analysis else None
    if planned is not None:
        yield Text("")
        yield plans(planned)

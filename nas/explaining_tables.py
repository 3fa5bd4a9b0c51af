"""An explanation as tables for people."""

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from nas.amounts import amount, memory, time
from nas.analysis_tables import options, plans, table_of
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
    whole, peak = analysis.step.concurrency, memory(analysis.step.memory.peak_bytes)
    samples = f"{analysis.of.size.batch} samples; {analysis.parameters:,} parameters"
    return [
        ("step", f"{samples}; {peak} at its peak on one device"),
        ("W, D", f"{amount(whole.work)} and {whole.depth:,} operations; W/D {amount(whole.parallelism)}"),
    ]


def _legs(found: Explained) -> Iterator[RenderableType]:
    """Each leg: predicted and measured seconds of a step."""
    if not found.legs:
        return
    batch = found.analysis.of.size.batch if found.analysis else None
    table = table_of("leg to", ("plan", "priced"), ("predicted step", "", "measured", "measured / predicted"))
    for leg in found.legs:
        at = "" if leg.predicted is None else "at its launch" if leg.options else "now"
        table.add_row(number(leg.until), leg.plan, at, *_told(leg, batch))
    yield Text("\nLegs, with the seconds of a step of the batch", style="bold")
    yield table


def _told(leg: RunLeg, batch: int | None) -> tuple[str, ...]:
    seconds = None if batch is None else leg.seconds(batch)
    measured = "-" if seconds is None else time(seconds)
    if leg.predicted is None:
        return "-", "", measured, "-"
    ratio = "-" if seconds is None else f"{seconds / leg.predicted.seconds:.2f}"
    return time(leg.predicted.seconds), f"± {leg.predicted.log_error:.0%}", measured, ratio


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

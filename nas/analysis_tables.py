"""An analysis as tables for people; each number says its unit."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.console import Group as RenderableGroup
from rich.table import Table
from rich.text import Text

from cluster.planner import MEMORY_ERROR
from nas.amounts import amount, memory, time
from nas.analysis import Analysis, StepAnalysis
from nas.display import counted
from nas.planned import Planned
from nas.tables import lines
from search_spaces.module_groups import Group, by_module, longest_chain, main_kind
from search_spaces.operator_graph import OperatorGraph, Phase, step_flops, step_macs
from trainers.parallelism.option import Option
from trainers.parallelism.volumes import EXCHANGES

_MOST_ROWS = 36
_MOST_ON_PATH = 24
_NETWORK = "(network)"


def analysis(console: Console, found: Analysis, every: bool = False) -> None:
    """Print operators (by module unless ``every`` one is wanted), totals, memory, critical path, traffic, plans."""
    given = found.of.signature.input
    heading = [*found.of.what.items(), ("input", f"{given.shape} {given.dtype} x {found.of.size.batch} samples")]
    lines(console, [(name, str(value)) for name, value in heading])
    if found.graph is None:
        lines(console, [("parameters", f"{found.parameters:,}"), ("graph", "unknown")])
        return
    step = found.step
    console.print()
    console.print(_operators(found.graph, every))
    console.print()
    lines(console, [("parameters", f"{found.parameters:,}"), *_totals(step)])
    for part in (_brent, _memory, _critical_path, _volumes):
        console.print()
        console.print(part(step))
    if found.planned is not None:
        console.print()
        console.print(plans(found.planned))
    if found.graph.unknown:
        names = ", ".join(found.graph.unknown)
        console.print(Text(f"\nwithout a formula, an operation for each number written: {names}", style="yellow"))


def table_of(first: str, left: Sequence[str], right: Sequence[str]) -> Table:
    """A table whose ``first`` column alone may be folded."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if first:
        table.add_column(first, overflow="fold")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _titled(title: str, table: Table) -> RenderableGroup:
    return RenderableGroup(Text(title, style="bold"), table)


def _operators(graph: OperatorGraph, every: bool) -> RenderableGroup:
    groups = by_module(graph, _MOST_ROWS)
    hidden = 0
    if every:
        groups = [Group(one.name, one.phase, (place,)) for place, one in enumerate(graph.operators)]
    elif len(groups) > _MOST_ROWS:
        hidden, groups = len(groups) - _MOST_ROWS, groups[:_MOST_ROWS]
    title = "Operators of a training step" if every else "Operators of a training step, by module (--all: every one)"
    right = ("FLOP", "W", "D", "bytes", "parameters", "saved")
    table = table_of("operator" if every else "module", ("kind", "pass"), right)
    for group in groups:
        table.add_row(*_row(graph, group))
    if hidden:
        table.add_row(f"... and {hidden} more")
    return _titled(title, table)


def _row(graph: OperatorGraph, group: Group) -> tuple[str | Text, ...]:
    own = [graph.operators[place] for place in group.places]
    kind = main_kind(graph, group.places).value
    others = len(own) - 1
    return (
        Text(group.module or _NETWORK),
        kind if not others else Text.assemble(kind, (f" +{others}", "dim")),
        group.phase.value,
        amount(sum(one.flops for one in own)),
        amount(sum(one.work for one in own)),
        f"{longest_chain(graph, group.places):,}",
        memory(sum(one.read_bytes + one.written_bytes for one in own)),
        amount(sum(one.parameters for one in own)),
        memory(sum(one.saved_bytes for one in own)),
    )


def _totals(step: StepAnalysis) -> Iterator[tuple[str, str]]:
    graph, whole = step.graph, step.concurrency
    flops, macs = ([count(graph, phase) for phase in Phase] for count in (step_flops, step_macs))
    yield (
        "FLOP",
        f"{amount(flops[0])} forward, {amount(flops[1])} backward; {_sample(flops[0], graph)} forward a sample",
    )
    yield "MAC", f"{amount(macs[0])} forward, {amount(macs[1])} backward; {_sample(macs[0], graph)} forward a sample"
    yield "W", f"{amount(whole.work)} operations in a step (forward, loss, backward)"
    yield "D", f"{whole.depth:,} operations, the longest chain of them"
    yield "W/D", f"{amount(whole.parallelism)}: no number of processors is faster than one by more"
    widest = max(whole.levels, default=0)
    yield (
        "levels",
        f"{len(whole.levels):,}, with {counted(widest, 'operator')} at most; {len(graph.operators):,} in all",
    )


def _sample(count: int, graph: OperatorGraph) -> str:
    return amount(count / graph.batch)


def _brent(step: StepAnalysis) -> RenderableGroup:
    title = "Time with p processors, in operations (Brent): max(W/p, D) <= T <= (W - D)/p + D"
    table = table_of("", (), ("p", "at least", "at most", "speed-up"))
    for place, (p, least, most) in enumerate(step.bounds):
        if place < 4 or place % 3 == 0 or place == len(step.bounds) - 1:
            speed_ups = [step.concurrency.work / time if time else 1.0 for time in (most, least)]
            low, high = map(amount, speed_ups)
            table.add_row(f"{p:,}", amount(least), amount(most), low if low == high else f"{low} to {high}")
    return _titled(title, table)


def _memory(step: StepAnalysis) -> RenderableGroup:
    found = step.memory
    at = "" if found.operator is None else f", while {step.graph.operators[found.operator].name} runs"
    table = table_of("part", (), ("bytes", "share"))
    for name, size in sorted(found.parts.items(), key=lambda part: -part[1]):
        table.add_row(name, memory(size), f"{size / max(found.peak_bytes, 1):.0%}")
    table.add_row("all", memory(found.peak_bytes), "", style="bold")
    return _titled(f"Memory at its peak{at}", table)


def _critical_path(step: StepAnalysis) -> RenderableGroup:
    """The modules on the path in its order; those that hold most of it where there are many."""
    graph, path = step.graph, step.concurrency.critical_path
    parts: dict[tuple[str, Phase], list[int]] = {}
    of = {place: group for group in by_module(graph, _MOST_ON_PATH) for place in group.places}
    for place in path:
        parts.setdefault((of[place].module, of[place].phase), []).append(place)
    depths = {key: sum(graph.operators[place].depth for place in places) for key, places in parts.items()}
    shown = sorted(depths, key=lambda key: -depths[key])[:_MOST_ON_PATH]
    table = table_of("module", ("pass",), ("operators", "D", "share"))
    for key, places in parts.items():
        if key in shown:
            share = f"{depths[key] / max(step.concurrency.depth, 1):.0%}"
            table.add_row(Text(key[0] or _NETWORK), key[1].value, f"{len(places):,}", f"{depths[key]:,}", share)
    if len(parts) > len(shown):
        table.add_row(f"... and {len(parts) - len(shown)} more")
    return _titled(f"Critical path: {len(path):,} operators, {step.concurrency.depth:,} operations deep", table)


def _volumes(step: StepAnalysis) -> RenderableGroup:
    widths = sorted({volume.processes for volume in step.volumes})
    title = "What a process sends in a step, elements (bytes), when p share the batch or the network along one axis"
    table = table_of("axis", ("exchanges",), [f"p = {width}" for width in widths])
    for axis, exchanges in EXCHANGES.items():
        cells = {
            one.processes: f"{amount(one.elements)} ({memory(one.bytes)})" for one in step.volumes if one.axis == axis
        }
        table.add_row(axis, exchanges, *(cells.get(width, "-") for width in widths))
    return _titled(title, table)


def plans(found: Planned) -> RenderableGroup:
    """The plans that are worth their devices, and why there are no others."""
    rates = found.machine.device
    title = (
        f"Plans of up to {counted(found.devices, 'device')} ({rates.device}, {rates.dtype}), a global batch of "
        f"{found.batch:,}: a step as predicted, one standard deviation beside"
    )
    told = [f"not offered: {limit}" for limit in found.limits]
    if found.too_large:
        least = found.too_large[0]
        told.append(
            f"not offered, too large for {memory(rates.memory_bytes)} with {2 * MEMORY_ERROR:.0%} to spare: "
            f"{counted(len(found.too_large), 'plan')}; the smallest, {least.plan}, takes {memory(least.memory_bytes)}"
        )
    if found.slower:
        told.append(f"not offered, no faster than another of as few devices: {counted(len(found.slower), 'plan')}")
    told += [f"would gain at most {one.times:.2f} times, by {one.what}: {one.why}" for one in found.gains]
    table = options(found.offered, found.batch)
    return RenderableGroup(Text(title, style="bold"), table, *map(Text, told))


def options(offered: Iterable[Option], batch: int) -> Table:
    """Priced plans for a global ``batch``."""
    table = table_of("plan", (), ("devices", "a step", "", "samples/s", "memory a device"))
    for option in offered:
        table.add_row(
            str(option.plan),
            str(option.devices),
            time(option.seconds),
            f"± {option.log_error:.0%}",
            amount(batch / option.seconds),
            memory(option.memory_bytes),
        )
    return table

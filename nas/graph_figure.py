"""The operator graph of a training step as a picture (SVG, or a page of it): levels, and the critical path marked."""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from nas.amounts import amount, memory
from nas.answers import write_whole
from nas.errors import ConfigError
from nas.graph_layout import Arrow, Box, Layout, lay_out
from search_spaces.module_groups import longest_chain, main_kind
from search_spaces.operator_graph import Kind, Phase

if TYPE_CHECKING:
    from nas.analysis import Analysis, StepAnalysis

_FORMS = (".svg", ".html")
_COLOURS = {
    Kind.CONVOLUTION: "#2f6fb3",
    Kind.DEPTHWISE: "#54a3d8",
    Kind.MATMUL: "#3a9a6b",
    Kind.ATTENTION: "#1f7f7f",
    Kind.NORMALIZATION: "#c98a1b",
    Kind.POOLING: "#8a63b8",
    Kind.SOFTMAX: "#b0568f",
    Kind.ELEMENTWISE: "#8b949e",
    Kind.REDUCTION: "#a06a4a",
    Kind.EMBEDDING: "#5f8f2f",
    Kind.COPY: "#c3c8ce",
}
_RED = "#c8102e"
_GAP = "\N{HORIZONTAL ELLIPSIS}"
_WIDTH, _HEIGHT = 230, 28
_LANE, _ROW = 250, 45
_EDGE, _ARCS, _TOP = 24, 74, 128
_LETTERS = 28
_STYLE = (
    "text{font-family:'Segoe UI',Helvetica,Arial,sans-serif;font-size:11px;fill:#24292f}"
    ".title{font-size:17px;font-weight:600}.dim{fill:#57606a}.pass{font-size:13px;font-weight:600}"
    ".box{fill:#fff;stroke:#8c959f;stroke-width:1}.arrow{fill:none;stroke:#afb8c1;stroke-width:1.3}"
    f".critical.box{{stroke:{_RED};stroke-width:2.2}}.critical.arrow{{stroke:{_RED};stroke-width:2.6}}"
)


def check_figure(path: Path) -> None:
    """Raise ConfigError where the name does not say a form that can be written."""
    if path.suffix.lower() not in _FORMS:
        raise ConfigError(
            f"--figure {path}: a figure is written as {' or '.join(_FORMS)}, which any browser shows; name such a file"
        )


def write_figure(path: Path, found: "Analysis") -> None:
    """Draw a network whose graph is known; raises ConfigError for another form, StorageError where it cannot write."""
    check_figure(path)
    picture = _Picture(_title(found), found.step).svg()
    if path.suffix.lower() == ".html":
        picture = (
            f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(_title(found))}</title>'
            f"<style>body{{margin:0;background:#fff}}</style></head>\n<body>\n{picture}</body>\n</html>\n"
        )
    write_whole(path, picture.encode())


def _title(found: "Analysis") -> str:
    what = found.of.what
    return f"{what.get('space') or what['module']}: a training step of {found.of.size.batch:,} samples"


class _Picture:
    """Forward on the left, from the top down; backward on the right, from the bottom up."""

    def __init__(self, title: str, step: "StepAnalysis") -> None:
        self._title = title
        self._step = step
        self._layout: Layout = lay_out(step.graph, step.concurrency.critical_path)
        works = [self._work(box) for box in self._layout.boxes]
        self._most = max(works, default=1) or 1
        left = self._layout.lanes(Phase.FORWARD)
        self._begin = {Phase.FORWARD: _EDGE + _ARCS, Phase.BACKWARD: _EDGE + _ARCS + left * _LANE + 36}
        lanes = left + self._layout.lanes(Phase.BACKWARD)
        self._size = (max(2 * (_EDGE + _ARCS) + lanes * _LANE + 36, 900), _TOP + self._layout.rows * _ROW + 12)

    def svg(self) -> str:
        """The whole picture."""
        width, height = self._size
        arrows = sorted(self._layout.arrows, key=lambda arrow: arrow.critical)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">',
            f"<style>{_STYLE}</style>",
            *(_marker(name, colour) for name, colour in (("grey", "#afb8c1"), ("red", _RED))),
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *self._heading(),
            *map(self._arrow, arrows),
            *(self._box(number, box) for number, box in enumerate(self._layout.boxes)),
            "</svg>\n",
        ]
        return "\n".join(parts)

    def _heading(self) -> list[str]:
        whole = self._step.concurrency
        facts = (
            f"W = {amount(whole.work)} operations, D = {whole.depth:,}, W/D = {amount(whole.parallelism)}, "
            f"{len(self._step.graph.operators):,} operators on {len(whole.levels):,} levels"
        )
        how = (
            "Each box is a module, below what it reads, its gradient beside it; the number is W in operations, the bar "
            "compares it. Red: the critical path, D operations long."
        )
        kinds = [kind for kind in _COLOURS if any(kind is self._kind(box) for box in self._layout.boxes)]
        legend = "".join(
            f'<rect x="{_EDGE + 108 * at}" y="77" width="10" height="10" fill="{_COLOURS[kind]}"/>'
            f'<text x="{_EDGE + 108 * at + 15}" y="86">{kind.value}</text>'
            for at, kind in enumerate(kinds)
        )
        passes = "".join(
            f'<text class="pass" x="{self._begin[phase]}" y="{_TOP - 12}">{phase.value} {arrow}</text>'
            for phase, arrow in ((Phase.FORWARD, "&#8595;"), (Phase.BACKWARD, "&#8593;"))
        )
        return [
            f'<text class="title" x="{_EDGE}" y="28">{escape(self._title)}</text>',
            f'<text x="{_EDGE}" y="48">{facts}</text>',
            f'<text class="dim" x="{_EDGE}" y="66">{how}</text>',
            legend,
            passes,
        ]

    def _work(self, box: Box) -> int:
        return sum(self._step.graph.operators[place].work for place in box.group.places)

    def _kind(self, box: Box) -> Kind:
        return main_kind(self._step.graph, box.group.places)

    def _corner(self, box: Box) -> tuple[int, int]:
        return self._begin[box.group.phase] + box.lane * _LANE, _TOP + box.row * _ROW

    def _box(self, number: int, box: Box) -> str:
        x, y = self._corner(box)
        work, colour = self._work(box), _COLOURS[self._kind(box)]
        critical = " critical" if number in self._layout.critical else ""
        bar = round((_WIDTH - 8) * work / self._most, 1)
        return (
            f"<g><title>{escape(self._told(box))}</title>"
            f'<rect class="box{critical}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
            f'<rect x="{x + 4}" y="{y + 4}" width="5" height="{_HEIGHT - 11}" fill="{colour}"/>'
            f'<rect x="{x + 4}" y="{y + _HEIGHT - 6}" width="{bar}" height="3" fill="{colour}"/>'
            f'<text x="{x + 14}" y="{y + 16}">{escape(_short(box.group.module))}</text>'
            f'<text class="dim" x="{x + _WIDTH - 6}" y="{y + 16}" text-anchor="end">{amount(work)}</text></g>'
        )

    def _told(self, box: Box) -> str:
        graph, places = self._step.graph, box.group.places
        own = [graph.operators[place] for place in places]
        names = ", ".join(one.name.rpartition(".")[2] for one in own[:8]) + (", ..." if len(own) > 8 else "")
        return (
            f"{box.group.module or '(network)'}, {box.group.phase.value}: {names}\n"
            f"{amount(sum(one.flops for one in own))} FLOP, W {amount(self._work(box))}, "
            f"D {longest_chain(graph, places):,} operations, "
            f"{memory(sum(one.read_bytes + one.written_bytes for one in own))} read and written, "
            f"{memory(sum(one.saved_bytes for one in own))} saved"
        )

    def _arrow(self, arrow: Arrow) -> str:
        source, target = self._layout.boxes[arrow.source], self._layout.boxes[arrow.target]
        name, classes = ("red", "arrow critical") if arrow.critical else ("grey", "arrow")
        return f'<path class="{classes}" marker-end="url(#{name})" d="{self._way(source, target)}"/>'

    def _way(self, source: Box, target: Box) -> str:
        """Straight to a neighbour, in a bow around boxes in between, across where the backward pass begins."""
        (ax, ay), (bx, by) = self._corner(source), self._corner(target)
        middle = _HEIGHT // 2
        if source.group.phase is not target.group.phase or source.row == target.row:
            side = 1 if ax < bx else -1
            begin, end = (ax + _WIDTH, bx) if side > 0 else (ax, bx + _WIDTH)
            bend = (begin + end) / 2
            return f"M{begin},{ay + middle} C{bend},{ay + middle} {bend},{by + middle} {end},{by + middle}"
        if source.lane == target.lane and self._layout.between(source, target):
            out = min(18 + 7 * abs(source.row - target.row), _ARCS - 6)
            if source.group.phase is Phase.BACKWARD:
                ax, bx, out = ax + _WIDTH, bx + _WIDTH, -out
            return f"M{ax},{ay + middle} C{ax - out},{ay + middle} {bx - out},{by + middle} {bx},{by + middle}"
        down = by > ay
        begin, end = (ay + _HEIGHT, by) if down else (ay, by + _HEIGHT)
        bend = (begin + end) / 2
        centre = _WIDTH // 2
        return f"M{ax + centre},{begin} C{ax + centre},{bend} {bx + centre},{bend} {bx + centre},{end}"


def _marker(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
    )


def _short(module: str) -> str:
    """A path without parts from its middle where it is long."""
    if len(module) <= _LETTERS:
        return module or "(network)"
    parts = module.split(".")
    for left_out in range(1, len(parts) - 1):
        short = f"{'.'.join(parts[: -1 - left_out])}{_GAP}{parts[-1]}"
        if len(short) <= _LETTERS:
            return short
    return f"{module[: _LETTERS // 2]}{_GAP}{module[1 - _LETTERS // 2 :]}"

"""The page: headline numbers, plots, tables and configuration as one HTML document."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path

import orjson

from nas.config_toml import to_toml
from nas.display import counted, duration, measured, number, reach
from nas.refusals import refusals
from nas.report.content import config, content
from nas.report.history import Point
from nas.study import Study
from nas.trial import Outcome, Trial
from nas.unmet import explained
from search_spaces import Values

_HERE = Path(__file__).parent
_MOST_MESSAGES = 5
_MOST_OF_FRONT = 50


def page(study: Study, points: Sequence[Point]) -> str:
    """The whole document. All that comes from the study is escaped."""
    several = len(study.objectives.objectives) > 1
    sections = [
        _header(study),
        _cards(study),
        _plots(several),
        _section("Pareto front" if several else "The best", _front(study)),
        _section("All trials", _trials(study)),
        _section("What was refused", _refusals(study)),
        _section("What failed", _failures(study)),
        _section("Configuration", _configuration(study)),
    ]
    return _document(study.folder.resolve().name, "\n".join(filter(None, sections)), content(study, points))


def _document(title: str, body: str, data: object) -> str:
    plotly = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    plotly = plotly.replace("</script", r"<\/script")
    plain = orjson.dumps(data).decode().replace("<", r"\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} - nas report</title>
<style>
{(_HERE / "page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
{body}
</main>
<script type="application/json" id="data">{plain}</script>
<script>{plotly}</script>
<script>
{(_HERE / "page.js").read_text(encoding="utf-8")}</script>
</body>
</html>
"""


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>" if body else ""


def _header(study: Study) -> str:
    search = config(study)["search"]
    made = study.header.get("created", "")
    when = f"{datetime.fromisoformat(made):%d %B %Y, %H:%M} UTC" if made else ""
    state = "open" if study.closed is None else "good" if study.exit_code == 0 else "bad"
    reason = f"ended: {study.closed}" if study.closed is not None else "not ended"
    words = [f"{search['space']} on {search['task']}", f"{search['strategy']}", f"seed {study.header['seed']}", when]
    facts = " &middot; ".join(escape(word) for word in words if word)
    return (
        f'<header>\n<div><h1>{escape(study.folder.resolve().name)}</h1>\n<p class="facts">{facts}</p></div>\n'
        f'<p class="state {state}">{escape(reason)}</p>\n</header>'
    )


def _cards(study: Study) -> str:
    best, front = study.best(), study.front()
    lead = study.objectives.objectives[0].name
    cards = []
    if best is not None:
        cards.append((f"best {lead}", number(best.metrics[lead]), f"trial {best.number}"))
    else:
        cards.append((f"best {lead}", "none", "no trial met all constraints"))
    if len(study.objectives.objectives) > 1:
        cards.append(("on the front", str(len(front)), f"at {reach(study, study.highest())}"))
    beside = f"{study.rejected:,} rejected, {counted(study.duplicates, 'duplicate')}"
    cards.append(("trials", f"{study.launched:,}", beside))
    hours = study.allocated_seconds() / 3600
    busy = f"{study.busy_seconds / study.device_seconds:.0%} busy" if study.device_seconds else "nothing ran"
    cards.append(("device-hours", number(hours), busy))
    sessions = f"in {study.sessions} sessions" if study.sessions > 1 else "start to end"
    cards.append(("time", duration(study.seconds), sessions))
    items = "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in cards
    )
    return f'<dl class="cards">\n{items}\n</dl>'


def _plots(several: bool) -> str:
    title = "Trials and their front" if several else "Trials"
    return f"""<div class="plots">
<section><div class="bar"><h2>{title}</h2><span id="axes"></span></div>
<div id="front-plot" class="plot" role="img" aria-label="{title}"></div></section>
<section><div class="bar"><h2>Best so far</h2><span class="choice" id="clock">
<button type="button" data-clock="at" aria-pressed="true">time</button>
<button type="button" data-clock="device_seconds" aria-pressed="false">device-hours</button></span></div>
<div id="history-plot" class="plot" role="img" aria-label="Best so far"></div></section>
</div>
<noscript><p class="note">The plots and the table of all trials need JavaScript.</p></noscript>"""


def _front(study: Study) -> str:
    trials = study.front()
    if not trials:
        why = explained(study) or ["No trial has met all constraints at the highest fidelity yet."]
        return "\n".join(f'<p class="note">{escape(line)}</p>' for line in why)
    names = [objective.name for objective in study.objectives.objectives]
    head = "".join(f'<th class="number">{escape(name)}</th>' for name in names)
    best = study.best()
    rows = "\n".join(_front_row(trial, names, trial is best) for trial in trials[:_MOST_OF_FRONT])
    more = len(trials) - _MOST_OF_FRONT
    rest = f'<p class="note">and {more:,} more; they are marked in the table of all trials</p>' if more > 0 else ""
    return (
        f'<div class="scroll"><table class="opens">\n<thead><tr><th class="number">trial</th>{head}'
        f"<th>candidate</th></tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{rest}"
    )


def _front_row(trial: Trial, names: Iterable[str], best: bool) -> str:
    values = "".join(f'<td class="number">{measured(trial.metrics, name)}</td>' for name in names)
    mark = ' class="best open"' if best else ""
    parts = (trial.proposal.candidate.architecture, trial.proposal.candidate.hyperparameters)
    text = "; ".join(_named_values(values) for values in parts if values)
    candidate = f'<td class="candidate"><span class="clip two">{text}</span></td>'
    return f'<tr{mark}><td class="number">{trial.number}</td>{values}{candidate}</tr>'


def _named_values(values: Values) -> str:
    """The text form, its names set apart from its values."""
    texts = (Values({name: value}) for name, value in values.items())
    pairs = (str(text).partition("=") for text in texts)
    return ", ".join(f"<i>{escape(name)}=</i>{escape(value)}" for name, _, value in pairs)


def _trials(study: Study) -> str:
    if not len(study):
        return '<p class="note">Nothing was proposed yet.</p>'
    return """<div class="bar"><input id="filter" type="search" placeholder="Filter by candidate or reason"
aria-label="Filter trials"><span class="choice" id="outcomes"></span><span class="note" id="shown"></span></div>
<div class="scroll"><table id="trials" class="opens"><thead></thead><tbody></tbody></table></div>
<button type="button" id="more" hidden>Show more</button>"""


def _refusals(study: Study) -> str:
    """Who refused candidates before a device was used, how many, and the value nearest to the limit."""
    rows = "\n".join(
        f'<tr><td>{escape(refusal.by)}</td><td class="number">{refusal.count:,}</td>'
        f'<td class="number">{"" if refusal.nearest is None else number(refusal.nearest)}</td>'
        f"<td>{escape(refusal.reason)}</td></tr>"
        for refusal in refusals(study)
    )
    head = '<th>by</th><th class="number">candidates</th><th class="number">nearest value seen</th><th>last reason</th>'
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    return f'<div class="scroll">{table}</div>' if rows else ""


def _failures(study: Study) -> str:
    groups: dict[Outcome, dict[str, list[Trial]]] = {}
    for trial in study.trials():
        came = trial.launches or trial.failures
        if trial.outcome and trial.outcome.useless and came:
            message = trial.reason.strip() or "no reason given"
            groups.setdefault(trial.outcome, {}).setdefault(message, []).append(trial)
    return "\n".join(_failure_group(outcome, groups[outcome]) for outcome in groups)


def _failure_group(outcome: Outcome, messages: dict[str, list[Trial]]) -> str:
    count = sum(map(len, messages.values()))
    most = sorted(messages.items(), key=lambda item: -len(item[1]))
    shown = "\n".join(_failure(message, trials) for message, trials in most[:_MOST_MESSAGES])
    more = len(most) - _MOST_MESSAGES
    rest = f'<p class="note">and {more} other messages; filter the table above by outcome</p>' if more > 0 else ""
    name = escape(outcome.value.replace("_", " "))
    return f'<div class="failure"><h3>{name} <span class="count">{count:,}</span></h3>\n{shown}{rest}</div>'


def _failure(message: str, trials: Sequence[Trial]) -> str:
    numbers = ", ".join(str(trial.number) for trial in trials[:8]) + (", ..." if len(trials) > 8 else "")
    word = "trial" if len(trials) == 1 else f"{len(trials):,} trials:"
    trace = next((failure.traceback for trial in trials for failure in reversed(trial.failures)), "")
    details = f"<details><summary>traceback</summary><pre>{escape(trace)}</pre></details>" if trace else ""
    return f'<div class="message"><p>{escape(message)}</p><p class="note">{word} {numbers}</p>{details}</div>'


def _configuration(study: Study) -> str:
    versions = study.header.get("versions", {})
    shown = " &middot; ".join(escape(f"{name} {version}") for name, version in versions.items())
    return f'<pre class="configuration">{escape(to_toml(config(study)))}</pre>\n<p class="note">{shown}</p>'

"""The command ``nas``. Heavy packages are imported inside commands, so that help and errors come at once."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nas.output import outliving_its_reader
from nas.shadowing import check as check_packages

if TYPE_CHECKING:
    from nas.controller import Ending, Watch
    from nas.study import Study

app = typer.Typer(
    name="nas",
    help="Neural architecture search on Ray: search, resume, look at, retrain and export.",
    epilog="Exit codes: 0 done, 1 a fault of nas, 2 configuration, 3 all trials failed or a check did, 4 storage, "
    "5 the cluster cannot hold it, 130 and 143 signals. NAS_TRACEBACK=1 shows where an error came from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The study's folder.", show_default=False)]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the answer as JSON (docs/json.md).")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set a key of the configuration; may be repeated."),
]
TrialNumber = Annotated[
    int | None, typer.Option("--trial", metavar="N", min=0, help="Which trial.", show_default="the best")
]


def main() -> None:
    """Entry point of the command."""
    sys.stdout, sys.stderr = outliving_its_reader(sys.stdout), outliving_its_reader(sys.stderr)
    with _errors():
        check_packages()
        app()


def _version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"ray-nas {version('ray-nas')}")
    except PackageNotFoundError:
        typer.echo("ray-nas, not installed as a package")
    raise typer.Exit


@app.callback()
def nas(
    wants_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Options of no command."""


@app.command()
def search(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Configuration (TOML).", show_default="the main job: digits"),
    ] = None,
    settings: Set = None,
    trials: Annotated[int | None, typer.Option(help="Short for --set search.trials.")] = None,
    hours: Annotated[float | None, typer.Option(help="Short for --set search.hours.")] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set search.seed.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Where the study is kept.", show_default="under runs/")
    ] = None,
    json: Json = None,
) -> None:
    """Search for networks, from a configuration or none, and report."""
    from nas.api import fresh_folder
    from nas.config_text import load_config
    from nas.errors import ConfigError
    from nas.event_log import FILE

    short = {"trials": trials, "hours": hours, "seed": seed}
    overrides = [*(settings or ()), *(f"search.{key}={value}" for key, value in short.items() if value is not None)]
    config = load_config(file, overrides)
    folder = folder or fresh_folder()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--dir {folder}: this is a file; name a folder, an existing or a new one")
    if (folder / FILE).exists():
        raise ConfigError(f"--dir {folder}: this folder holds a study; go on with it by: nas resume {folder}")

    def run(watch: "Watch") -> "Ending":
        from nas.session import run as session_run

        return session_run(config, folder, watch)

    _run(run, folder, json)


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The search, as TOML; its folder goes along.")],
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where the study is kept: on storage that all nodes share.")
    ],
    address: Annotated[
        str | None, typer.Option(metavar="URL", help="The cluster's dashboard.", show_default="RAY_ADDRESS, or here")
    ] = None,
    settings: Set = None,
    json: Json = None,
) -> None:
    """Submit a search to a Ray cluster, as a job that runs beside its workers."""
    from cluster.jobs import submit as submit_job
    from nas.config_text import load_config
    from nas.errors import ConfigError
    from nas.submission import needs

    config = load_config(file, settings or ())
    if not folder.is_absolute():
        raise ConfigError(f"--dir {folder}: give an absolute path; the job runs in a folder of its own, then deleted")
    named, modules = needs(config)
    arguments = ["--dir", str(folder)]
    for setting in [*(settings or ()), *named]:
        arguments += ["--set", setting]
    try:
        job = submit_job(file, arguments, address, modules=modules)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    _answer(json, {"job": job, "folder": str(folder)})
    at = f" --address {address}" if address else ""
    _console().print(f"job: {job}\nnext: ray job logs --follow{at} {job}", soft_wrap=True)


@app.command()
def resume(folder: Folder, settings: Set = None, json: Json = None) -> None:
    """Go on with a study, also with one that was killed; with larger budgets also with one that had ended."""
    from nas.config import SearchConfig
    from nas.config_check import check
    from nas.config_text import with_settings

    def change(plain: dict[str, Any]) -> dict[str, Any]:
        new = with_settings(plain, settings or ())
        check(SearchConfig.from_plain(new))
        return new

    def run(watch: "Watch") -> "Ending":
        from nas.session import resume as session_resume

        return session_resume(folder, change, watch=watch)

    _run(run, folder, json)


def _run(run: Callable[["Watch"], "Ending"], folder: Path, json: Path | None) -> None:
    """Run a session under the progress line, then leave report and answer."""
    from rich.console import Console

    from nas.answers import study_answer, write_json
    from nas.display import Progress
    from nas.tables import ending as print_ending

    console = Console()
    console.print(f"study: {folder}", highlight=False, soft_wrap=True)
    with Progress(console) as progress:
        ended = run(progress)
    _leave(ended)
    if json:
        write_json(json, {"folder": str(folder), **study_answer(ended.study)})
    print_ending(console, ended.study, ended.reason, ended.exit_code, folder)
    raise typer.Exit(ended.exit_code)


def _leave(ended: "Ending") -> None:
    """Leave the report in the study's folder; after a signal there is no time for it, on a full disk no room."""
    from nas.errors import StorageError

    if ended.exit_code <= 128 and ended.exit_code != StorageError.exit_code:
        from nas.report import write_report

        write_report(ended.study.folder)


@app.command()
def status(folder: Folder, json: Json = None) -> None:
    """Say where a study stands."""
    from nas.answers import status_answer
    from nas.lock import owner
    from nas.tables import status as print_status

    study, writer = _load(folder), owner(folder)
    _answer(json, {"folder": str(folder), **status_answer(study, writer)})
    print_status(_console(), study, f"process {writer['pid']} on {writer['host']}" if writer else None)


@app.command()
def best(folder: Folder, json: Json = None) -> None:
    """Show the best trial of a study."""
    from nas.answers import trial_answer
    from nas.choosing import choose
    from nas.tables import chosen

    study = _load(folder)
    trial = choose(study)
    _answer(json, {"folder": str(folder), "best": trial_answer(study, trial)})
    _console().print(chosen(study, trial))


@app.command()
def report(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to.", show_default="report.html in the study's folder")
    ] = None,
    json: Json = None,
) -> None:
    """Write the report of a study: one HTML page that needs no network."""
    from nas.report import write_report

    path = write_report(folder, out)
    _answer(json, {"folder": str(folder), "report": str(path)})
    _console().print(f"report: {path}", soft_wrap=True)


@app.command()
def retrain(
    folder: Folder,
    trial: TrialNumber = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="How often, each with a seed of its own.")] = 1,
    plan: Annotated[
        str | None, typer.Option(metavar="PLAN", help='How it is split, as "data=2".', show_default="the study's")
    ] = None,
    json: Json = None,
) -> None:
    """Train a trial's network anew on all data but the test split, and measure it there."""
    from nas.answers import retrain_answer
    from nas.retrain import retrain as train
    from nas.tables import retrained

    console = _console()
    result = train(folder, trial, seeds, plan, lambda line: console.print(line, soft_wrap=True))
    _answer(json, {"folder": str(folder), **retrain_answer(result)})
    retrained(console, result)


@app.command()
def export(
    folder: Folder,
    trial: TrialNumber = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to.", show_default="export/ in the study's folder")
    ] = None,
    json: Json = None,
) -> None:
    """Export a trial's weights (safetensors) and architecture; they are loaded back and compared first."""
    from nas.exporting import export_trial
    from nas.tables import lines

    exported = export_trial(folder, trial, out)
    _answer(json, {"folder": str(folder), **exported.plain()})
    lines(_console(), [(name, str(value)) for name, value in exported.plain().items()])


@app.command()
def spaces(json: Json = None) -> None:
    """List the search spaces that are installed."""
    from nas.listing import spaces as list_spaces
    from nas.tables import spaces as print_spaces

    found = list_spaces()
    _answer(json, {"spaces": found})
    print_spaces(_console(), found)


@app.command()
def analyze(
    space: Annotated[
        str | None, typer.Argument(metavar="[SPACE]", help="A search space, as a name or module:name.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="Its architecture at random.", show_default="0")
    ] = None,
    architecture: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Or this one, as text: 'depth=1, layer.0.width=16'.")
    ] = None,
    module: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="In place of a space: a function that makes a network.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Samples of a step.", show_default="trainer.batch_size, 64")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose input and output it has.", show_default="digits")
    ] = None,
    shape: Annotated[
        str | None, typer.Option("--input", metavar="SHAPE", help="Another input: 3x32x32, or 64:int64.")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Also its plans on up to N devices of this machine.")
    ] = None,
    settings: Set = None,
    every: Annotated[bool, typer.Option("--all", help="Every operator, not folded by module.")] = False,
    json: Json = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the graph, critical path marked (.svg, .html).")
    ] = None,
) -> None:
    """Count what a training step of one network costs: work, depth, memory, traffic, plans. It is not trained."""
    from nas.analysed import Request, resolve
    from nas.graph_figure import check_figure

    if figure is not None:
        check_figure(figure)
    request = Request(space, sample, architecture, module, task, shape, batch, settings or ())
    analysed = resolve(request)
    from nas.analysis import analyze as analyze_network
    from nas.analysis_tables import analysis
    from nas.errors import ConfigError

    found, console = analyze_network(analysed), _console(wide=True)
    if devices is not None and found.graph is not None:
        from nas.planned import plan_network

        planned = plan_network(analysed, found.graph, devices, lambda line: console.print(line, soft_wrap=True))
        found = replace(found, planned=planned)
    _answer(json, found.plain())
    analysis(console, found, every)
    if found.unknown is not None:
        raise ConfigError(found.told_unknown)
    if figure is not None:
        from nas.graph_figure import write_figure

        write_figure(figure, found)
        console.print(f"figure: {figure}", soft_wrap=True)


@app.command()
def explain(
    folder: Folder,
    trial: Annotated[int | None, typer.Argument(metavar="[TRIAL]", min=0, show_default="the best")] = None,
    json: Json = None,
) -> None:
    """Say why a trial ran as it did: its work and depth, its plans, what was predicted and what was measured."""
    from nas.explaining import explain as explain_trial
    from nas.explaining_tables import explanation

    console = _console(wide=True)
    found = explain_trial(folder, trial, lambda line: console.print(line, soft_wrap=True))
    _answer(json, {"folder": str(folder), **found.plain()})
    explanation(console, found)


@app.command()
def calibrate(
    device: Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu or cuda.")] = "auto",
    seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="For its operators.", show_default="30")
    ] = None,
    json: Json = None,
) -> None:
    """Measure what this machine's device and links can do, once: predictions of trials rest on it."""
    from nas.calibrating import calibrate_here
    from nas.tables import lines

    console = _console()
    measured = calibrate_here(device, seconds, lambda line: console.print(line, soft_wrap=True))
    _answer(json, measured.plain())
    lines(console, measured.lines())


@app.command("new-space")
def new_space(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the package and of its space, as my-space.")],
    parent: Annotated[
        Path, typer.Option("--in", metavar="DIR", help="Where its folder goes.", show_default="here")
    ] = Path(),
    json: Json = None,
) -> None:
    """Write a small package for a search space of your own; it installs and its test passes as it is."""
    from nas.new_space import write_new_space
    from nas.tables import lines

    made = write_new_space(name, parent)
    _answer(json, made.plain())
    console = _console()
    lines(console, [("package" if not at else "", str(made.folder / path)) for at, path in enumerate(made.files)])
    lines(
        console,
        [
            ("next", f"python -m pytest {made.folder}"),
            ("", f"pip install -e {made.folder}"),
            ("", f"nas search {made.folder / 'search.toml'}"),
        ],
    )


@app.command()
def check(
    code: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="Your class or function, or a plug-in's name.")],
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="space, task, trainer, strategy or fidelity rule.", show_default="as it looks"
        ),
    ] = None,
    settings: Set = None,
    json: Json = None,
) -> None:
    """Run the conformance suite on your own code, and explain what it breaks."""
    from nas.checking import KINDS, check_code
    from nas.errors import AllFailedError, ConfigError
    from nas.tables import checked

    if kind is not None and kind not in KINDS:
        raise ConfigError(f"--kind {kind}: expected one of {', '.join(KINDS)}")
    console = _console()
    found = check_code(
        code, kind, settings or (), lambda name, passed: console.print(f"{'ok    ' if passed else 'BROKEN'}  {name}")
    )
    _answer(json, found.plain())
    checked(console, found)
    raise typer.Exit(AllFailedError.exit_code if found.findings else 0)


def _console(wide: bool = False) -> Any:
    """Of the terminal's width; ``wide``: of 120 characters where there is none."""
    from rich.console import Console

    console = Console(highlight=False)
    return Console(highlight=False, width=max(console.width, 120)) if wide and not console.is_terminal else console


def _load(folder: Path) -> "Study":
    from nas.study import load

    return load(folder)


def _answer(path: Path | None, answer: dict[str, Any]) -> None:
    if path:
        from nas.answers import FORM, write_json

        write_json(path, {"form": FORM, **answer})


@contextmanager
def _errors() -> Iterator[None]:
    """Turn an exception into one short paragraph on stderr and the exit code of its kind."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort):
        raise SystemExit(130) from None
    except Exception as error:
        if os.environ.get("NAS_TRACEBACK") == "1":
            raise
        text, exit_code = _told(error)
        typer.secho(text, fg=typer.colors.RED, err=True)
        raise SystemExit(exit_code) from None


def _told(error: Exception) -> tuple[str, int]:
    from nas.errors import NasError

    if isinstance(error, NasError):
        return str(error), error.exit_code
    from cluster.installation import InstallationError
    from search_spaces import UnknownPluginError

    if isinstance(error, InstallationError | UnknownPluginError):
        return str(error), 2
    return (
        f"nas failed: {type(error).__name__}: {error}\nThis is a fault of nas. "
        "Run again with NAS_TRACEBACK=1 to see where, and report it.",
        1,
    )

"""The command `planner`: reads the words, calls one function, prints; nothing is computed here.

With --json one JSON document goes to stdout and nothing else; progress and warnings go to stderr.
Heavy rooms are imported inside the commands, so that --help answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.commands import app as cli_app
from planner.commands import catalog as cli_catalog
from planner.commands import export as cli_export
from planner.commands import imports as cli_imports
from planner.commands import knee as cli_knee
from planner.commands import recost as cli_recost
from planner.commands import replay as cli_replay
from planner.commands import report as cli_report
from planner.commands import validate as cli_validate
from planner.commands.ends import NOTHING_FEASIBLE, code_of_run, shown, told_faults
from simkernel.errors import MissingFact

app = typer.Typer(
    name="planner",
    help="Plan AI clusters: from a study file to a Pareto front of time, money and carbon.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_catalog.app, name="catalog")
cli_validate.register(app)
cli_app.register(app)
cli_export.register(app)
cli_recost.register(app)
cli_replay.register(app)
cli_knee.register(app)
cli_report.register(app)
cli_imports.register(app)

StudyFile = Annotated[str, typer.Argument(help="a study file (TOML)", metavar="STUDY")]
RunName = Annotated[str, typer.Argument(help='a run: its id, number, or "last"', metavar="RUN")]
PlanName = Annotated[
    str, typer.Argument(help="a plan of the run, or 1 for the first", metavar="PLAN")
]
SiteName = Annotated[
    str, typer.Option("--site", help="a site of the study; else the plan's own", metavar="SITE")
]
ScenarioName = Annotated[
    str,
    typer.Option(
        "--scenario",
        help='as show prints it, e.g. "rent_usd_per_device_hour = 2.5"; else the plan\'s own',
        metavar="KEY=VALUE",
    ),
]
Database = Annotated[Path, typer.Option("--db", help="the DuckDB file", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="AXIS=VALUE, or TABLE.KEY=VALUE; may be repeated", metavar="SETTING"
    ),
]
DATABASE = Path("planner.duckdb")


def exits_by_contract(command: Callable[..., int | None]) -> Callable[..., None]:
    """The command with our errors told on stderr and left with the exit codes of the contract."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        with told_faults(bool(kwargs.get("as_json"))):
            code = command(*args, **kwargs)
        raise typer.Exit(code or 0)

    return wrapped


@app.command()
@exits_by_contract
def run(
    study: StudyFile,
    db: Database = DATABASE,
    seed: Annotated[int | None, typer.Option(help="replaces the study's seed")] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="stop after N evaluations, those of a run it resumes included, or after SECONDSs "
            "of its own (e.g. 60s)"
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="processes; by default one per core, or one for a small space"),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="auto, sweep (exact), evolve or sample; replaces search.driver",
            metavar="DRIVER",
        ),
    ] = None,
    replays: Annotated[
        int | None,
        typer.Option("--replay", min=0, help="plans of a front to replay; 0 for none"),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="local (all cores), or dask:ADDRESS for a cluster", metavar="ENGINE"),
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="go on with the newest run of it that did not finish")
    ] = False,
    settings: Settings = None,
    as_json: Json = False,
) -> int:
    """Search a study, keep its front in the database, print it."""
    from planner.documents import answers as commands
    from planner.documents.front_text import run_text

    given = [
        *(settings or []),
        *([f"study.seed={seed}"] if seed is not None else []),
        *([f"search.driver={search}"] if search is not None else []),
    ]
    document = commands.run(
        *(study, db, given, budget, workers, replays),
        on=engine,
        is_resumed=resume,
        is_quiet=as_json,
    )
    shown(document, as_json, run_text)
    return code_of_run(document)


@app.command()
@exits_by_contract
def runs(db: Database = DATABASE, as_json: Json = False) -> int:
    """List the runs in the database."""
    from planner.documents import answers as commands
    from planner.documents.text import runs_text

    shown(commands.runs(db), as_json, runs_text)
    return 0


@app.command()
@exits_by_contract
def show(
    name: Annotated[str, typer.Argument(help="a run, or a study file", metavar="RUN")],
    db: Database = DATABASE,
    as_json: Json = False,
) -> int:
    """Show a run: its front and what each limit removed; or a study file with its defaults."""
    from planner.documents import answers as commands
    from planner.documents.front_text import run_text
    from planner.documents.text import study_text

    if name.endswith(".toml"):
        shown(commands.show_study(name), as_json, study_text)
    else:
        shown(commands.show(db, name), as_json, run_text)
    return 0


@app.command()
@exits_by_contract
def explain(
    name: RunName,
    plan: PlanName,
    site: SiteName = "",
    scenario: ScenarioName = "",
    against: Annotated[
        str,
        typer.Option("--against", help="only what changes over this plan", metavar="PLAN"),
    ] = "",
    db: Database = DATABASE,
    as_json: Json = False,
) -> int:
    """What a plan is made of, what binds it, and what one change on each axis would do."""
    from planner.documents import answers as commands
    from planner.documents.plan_text import compare_text, explain_text

    if against:
        document = commands.compare(db, name, plan, against, site, scenario)
        shown(document, as_json, compare_text)
    else:
        document = commands.explain(db, name, plan, site, scenario)
        shown(document, as_json, explain_text)
    return 0


@app.command()
@exits_by_contract
def evaluate(
    study: StudyFile,
    settings: Settings = None,
    is_replayed: Annotated[
        bool, typer.Option("--replay", help="replay the plan event by event, too")
    ] = False,
    as_json: Json = False,
) -> int:
    """Evaluate one candidate of a study: metrics, ledgers, violations, nearest feasible change."""
    from planner.documents import answers as commands
    from planner.documents.plan_text import evaluate_text

    document = commands.evaluate(study, settings or [], is_replayed=is_replayed)
    shown(document, as_json, evaluate_text)
    return 0 if document["feasible"] else _why_not(document["violations"])


@app.command()
@exits_by_contract
def diff(first: RunName, second: RunName, db: Database = DATABASE, as_json: Json = False) -> int:
    """What went in and what came out differently in two runs."""
    from planner.documents import answers as commands
    from planner.documents.text import diff_text

    shown(commands.diff(db, first, second), as_json, diff_text)
    return 0


@app.command()
@exits_by_contract
def stop(name: RunName, db: Database = DATABASE) -> int:
    """Ask a running run to end and keep what it has."""
    from planner.documents import answers as commands

    is_asked = commands.stop(db, name)
    said = "was asked to stop; it keeps what is done" if is_asked else "is not running"
    typer.echo(f"{name} {said}", err=True)
    return 0


def _why_not(violations: Sequence[Mapping[str, Any]]) -> int:
    """The code of a plan that is not feasible: a fact is missing if every reason is one.

    A limit on a figure that is not known is broken without being had.
    """
    is_unknown = [v["limit"] == "missing_fact" or v["have"] is None for v in violations]
    return MissingFact.exit_code if is_unknown and all(is_unknown) else NOTHING_FEASIBLE


def main() -> None:
    """Entry point; a fault of ours prints its name and leaves with 4."""
    try:
        app()
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:  # the border: whatever is left is our fault, and says so
        typer.echo(f"internal error: {type(error).__name__}: {error}", err=True)
        typer.echo(
            "please report it with the study file; set PLANNER_TRACE=1 to see where", err=True
        )
        import os

        if os.environ.get("PLANNER_TRACE"):
            raise
        sys.exit(4)

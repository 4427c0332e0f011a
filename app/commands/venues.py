"""The command `venue backtest`: what a rule would have said of a venue's past, and what then happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import (
    venue_advice,
    venue_feeds,
    venue_plans,
    venue_service,
    venue_sightings,
    venue_survival,
)
from app.commands.evaluation import each
from app.commands.fitting import Column, print_fitting
from app.commands.options import Json, Report, Seed
from app.commands.output import STDOUT, check_writable, command_line, print_json, progress_bar, write_report
from app.commands.pricefiles import Gaps, Types, machine_types, time_of, venue_of_file
from app.domain.inputs import InputError, parse_duration
from app.domain.progress import Progress
from app.workbench.wholefiles import check_apart

if TYPE_CHECKING:
    from app.workbench.venues.setting import BacktestSetting

WHATS = ("survival", "bids", "cost", "ramp", "ramc-dc", "deadlines")
METHODS = ("thesis", "tenure")
_FIRST_DAY = "2015-06-12"

Prices = Annotated[
    Path,
    typer.Argument(
        metavar="PRICES", help="Prices: CSV, AWS' price history as JSON, gzip; or a folder of availability."
    ),
]
Method = Annotated[str, typer.Option(metavar="|".join(METHODS), help="The rule: the thesis' or this service's own.")]
What = Annotated[list[str], typer.Option(metavar="|".join(WHATS), help="The question; several with commas.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", show_default="a window after the first price", help="Test from here."),
]
To = Annotated[str | None, typer.Option(metavar="TIME", show_default="the last price", help="Test up to here.")]
Window = Annotated[str, typer.Option(metavar="TIME", help="The past that is looked at from each moment.")]
Levels = Annotated[
    str | None, typer.Option(metavar="S,...", show_default="of the question", help="Shares that must survive.")
]
Jobs = Annotated[
    Path | None,
    typer.Option(metavar="LOG.swf|CSV", show_default="drawn: 1 to 12 h", help="Jobs that machines are leased for."),
]
Requests = Annotated[
    int | None,
    typer.Option(min=1, max=1_000_000, show_default="of the question", help="How many of the jobs are asked for."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    venues = typer.Typer(help="Venues: places where others sell machines.", no_args_is_help=True)
    example = f"tenure venue backtest prices.csv.gz --what survival --method tenure --from {_FIRST_DAY} --json"
    venues.command(epilog=f"Example: {example}")(backtest)
    venue_service.register(venues)
    venue_survival.register(venues)
    venue_advice.register(venues)
    venue_plans.register(venues)
    venue_feeds.register(venues)
    venue_sightings.register(venues)
    app.add_typer(venues, name="venue")


def backtest(
    prices: Prices,
    *,
    what: What = ["survival"],  # noqa: B006 - Typer copies it
    method: Method = "tenure",
    from_: From = None,
    to: To = None,
    window: Window = "60d",
    levels: Levels = None,
    types: Types = None,
    gaps: Gaps = None,
    jobs: Jobs = None,
    requests: Requests = None,
    seed: Seed = 0,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Replay past moments of a venue: what a rule would have said with what was known then, and what came of it."""
    from app.workbench.venues.jobs import read_jobs  # noqa: PLC0415 - compiled code is slow to load
    from app.workbench.venues.run import AskedJobs, backtest_of  # noqa: PLC0415 - as above

    questions, shares = _questions(what, method), _shares(levels)
    check_apart([("PRICES", prices), ("--types", types), ("--gaps", gaps), ("--jobs", jobs)], [("--report", report)])
    check_writable(report)
    if prices.is_dir():
        _deadlines(prices, questions, method, (seed, requests, report), as_json=as_json)
        return
    asked = AskedJobs(read_jobs(jobs) if jobs is not None else None, requests)
    with progress_bar("backtesting") as progress:
        span = time_of(from_, "--from"), time_of(to, "--to")
        setting = _setting((prices, types, gaps), span, window, seed, progress)
        found = {question: backtest_of(setting, question, method, shares, asked) for question in questions}
    if report is not None:
        _write_report(report, found, method, setting)
    if as_json:
        print_json(found[questions[0]] if len(questions) == 1 else found)
        return
    for question, answer in found.items():
        _print(question, method, answer)


def _deadlines(
    folder: Path, questions: list[str], method: str, more: tuple[int, int | None, Path | None], *, as_json: bool
) -> None:
    from app.workbench.venues.availability import read_availability  # noqa: PLC0415 - as above
    from app.workbench.venues.deadlines import STARTS, backtest_deadlines  # noqa: PLC0415 - as above

    seed, starts, report = more
    if questions != ["deadlines"] or method != "tenure" or report is not None:
        raise InputError(
            f"{folder}: of a folder with records of availability only --what deadlines is asked, alone, without"
            " --report, of --method tenure: the thesis has no rule for them"
        )
    with progress_bar("backtesting") as progress:
        answer = backtest_deadlines(read_availability(folder), seed, starts or STARTS, progress)
    if as_json:
        print_json(answer)
    else:
        _print("deadlines", method, answer)


def _questions(what: list[str], method: str) -> list[str]:
    questions = each(what, str)
    for question in questions:
        if question not in WHATS:
            raise InputError(f"--what {question!r} is none of {', '.join(WHATS)}")
    if method not in METHODS:
        raise InputError(f"--method {method!r} is none of {', '.join(METHODS)}")
    return questions


def _shares(text: str | None) -> list[float] | None:
    """Return the levels of a text like 0.9,0.95, None if there is none."""
    if text is None:
        return None
    try:
        shares = each([text], float)
    except ValueError:
        raise InputError(f"--levels {text!r} must be numbers from 0 to 1, separated by commas") from None
    if not all(0.0 <= share <= 1.0 for share in shares):
        raise InputError(f"--levels {text!r} must be numbers from 0 to 1, separated by commas")
    return shares


def _setting(
    files: tuple[Path, Path | None, Path | None],
    span: tuple[int | None, int | None],
    window: str,
    seed: int,
    progress: Progress,
) -> BacktestSetting:
    from app.workbench.venues.setting import setting_of  # noqa: PLC0415 - as above

    window_us, (prices, types, gaps) = parse_duration(window), files
    machines, venue = machine_types(types), venue_of_file(prices, gaps)
    return setting_of(venue, machines, span, window_us, seed, progress)


def _write_report(path: Path, found: dict[str, Any], method: str, setting: BacktestSetting) -> None:
    from app.workbench.report.backtests import render_backtests  # noqa: PLC0415 - the plotting library is slow to load

    write_report(path, render_backtests(found, method, command_line(), setting))


def _print(question: str, method: str, answer: dict[str, Any]) -> None:
    from app.workbench.venues.run import rows_of_answer  # noqa: PLC0415 - as above

    columns, rows = rows_of_answer(answer)
    shown = [Column(columns[0], 9), *(Column(name, 5, is_number=True) for name in columns[1:])]
    print_fitting(STDOUT, shown, rows, f"{question}, {method}")

"""The commands `federation evaluate` and `drive`: recorded jobs of several clouds that run jobs for each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options
from app.commands.connecting import connect
from app.commands.fitting import Column, print_fitting
from app.commands.keeping import telling_kept
from app.commands.options import Json
from app.commands.output import (
    STDERR,
    STDOUT,
    check_writable,
    command_line,
    print_json,
    progress_bar,
    write_report,
)
from app.commands.workloads import eviction_policy
from app.domain.inputs import InputError, parse_bytes, platform_text, probability_fault
from app.workbench.wholefiles import check_apart, whole_file
from tenure_client import TenureClient

if TYPE_CHECKING:
    from app.domain.events import Event
    from app.workbench.evaluate import EventSink
    from app.workbench.federation.clouds import CloudLine
    from app.workbench.federation.run import FederationScenario, JobFate, OpenLine

RULES = ("none", "literal", "timeline", "tenure")
MOST_BOUND = 100.0
_SHARE = re.compile(r"\d{1,9}(\.\d{1,9}|/\d{1,9})?", re.ASCII)
_MADE = "; clouds that were made stay at their services"
_JOBS = "--jobs a=A1.csv --jobs b=A2.csv"

Clouds = Annotated[list[str], typer.Option("--cloud", metavar="NAME=NxC", help="A cloud of N nodes with C cores.")]
Jobs = Annotated[list[str], typer.Option(metavar="NAME=FILE.csv", help="The jobs of a cloud's own users.")]
Shift = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=TIME/TIME", help="Start a cloud's jobs later, wrapped around after a period: b=8h/14d."),
]
Links = Annotated[
    str | None, typer.Option(metavar="a-b,...", show_default="all", help="The clouds that offer jobs to each other.")
]
Rule = Annotated[str, typer.Option(metavar="|".join(RULES), help="The rule by which a host admits a foreign job.")]
Sla = Annotated[float, typer.Option(metavar="P", help="The largest share of foreign jobs to be preempted.")]
Bandwidth = Annotated[str, typer.Option(metavar="BYTES", help="Bytes a second between two clouds: 125MB, 1.25GB.")]
Train = Annotated[str, typer.Option(metavar="SHARE", help="The first share of the time, in which jobs do not count.")]
Bound = Annotated[float, typer.Option(metavar="FACTOR", help="Jobs declare so many times the lifetime that they have.")]
Urls = Annotated[
    list[str], typer.Option("--url", metavar="NAME=URL", help="The service of each cloud. All take the same token.")
]
Logs = Annotated[Path | None, typer.Option("--log", metavar="DIR", help="Write each cloud's events here, as CSV.")]

Seed = Annotated[int, typer.Option(min=0, help="Is told in the answer and changes nothing: no moment is drawn.")]
Report = Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write one page with tables and pictures.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    federation = typer.Typer(help="Federation: clouds that run jobs for each other.", no_args_is_help=True)
    example = f"tenure federation evaluate --cloud a=32x1 --cloud b=32x1 {_JOBS} --shift b=8h/14d --rule literal"
    federation.command(epilog=f"Example: {example}")(evaluate)
    urls = "--url a=http://127.0.0.1:8080 --url b=http://127.0.0.1:8081"
    example = f"tenure federation drive {urls} --cloud a=32x1 --cloud b=32x1 {_JOBS} --log logs"
    federation.command(epilog=f"Example: {example}")(drive)
    app.add_typer(federation, name="federation")


def evaluate(
    *,
    cloud: Clouds,
    jobs: Jobs,
    shift: Shift = None,
    links: Links = None,
    rule: Rule = "tenure",
    sla: Sla = 0.05,
    bandwidth: Bandwidth = "1.25GB",
    train: Train = "1/3",
    bound: Bound = 1.0,
    eviction: options.Eviction = "yjf",
    seed: Seed = 0,
    log: Logs = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Run recorded jobs of several clouds: at home where they fit, else away, as foreign jobs that may be preempted."""
    _check_files(cloud, jobs, log, report)
    scenario = _scenario(cloud, jobs, shift or [], links, rule, sla, bandwidth, train, bound, eviction)
    _run(scenario, None, log, report, seed, as_json=as_json)


def drive(
    *,
    cloud: Clouds,
    url: Urls,
    token: options.Token = None,
    jobs: Jobs,
    shift: Shift = None,
    links: Links = None,
    rule: Rule = "tenure",
    sla: Sla = 0.05,
    bandwidth: Bandwidth = "1.25GB",
    train: Train = "1/3",
    bound: Bound = 1.0,
    eviction: options.Eviction = "yjf",
    seed: Seed = 0,
    log: Logs = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Do the same as `evaluate` with clouds of running services, which decide every start and stop.

    Each cloud is made at its service, with an external clock. The rule by which a host admits a job is applied here.
    """
    from app.workbench.federation.reading import urls_of  # noqa: PLC0415 - compiled code is slow to load
    from app.workbench.federation.served import check_is_new  # noqa: PLC0415 - as above

    _check_files(cloud, jobs, log, report)
    scenario = _scenario(cloud, jobs, shift or [], links, rule, sla, bandwidth, train, bound, eviction)
    with ExitStack() as stack:
        places = urls_of(url, scenario.nodes).items()
        clients = {name: stack.enter_context(connect(place, token)) for name, place in places}
        for name, client in clients.items():  # before any cloud is made
            check_is_new(client, name)
        _run(scenario, partial(_open, clients), log, report, seed, as_json=as_json)


def _open(clients: Mapping[str, TenureClient], name: str, opened: Sequence[Event], sink: EventSink | None) -> CloudLine:
    from app.workbench.federation.served import ServedLine  # noqa: PLC0415 - as above

    return ServedLine(clients[name], name, opened, sink)


def _run(
    scenario: FederationScenario,
    open_line: OpenLine | None,
    log: Path | None,
    report: Path | None,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Run all jobs, in this process or where `open_line` says, and tell what became of them."""
    from app.workbench.federation.run import run_federation  # noqa: PLC0415 - compiled code is slow to load

    check_writable(report)
    fates: list[JobFate] = []
    told = fates.append if report is not None else None
    what, more = ("evaluating", "") if open_line is None else ("driving", _MADE)
    with telling_kept([*_logs_of(log, scenario.nodes).values(), report], more=more):
        with _writing(log, scenario.nodes) as sinks, progress_bar(what) as progress:
            counts = run_federation(scenario, open_line=open_line, logs=sinks, told=told, progress=progress)
        if report is not None:
            _write_report(report, scenario, counts, fates)
        answer = answer_of(scenario, counts, seed)
        if as_json:
            print_json(answer)
        else:
            _print(answer)


def _check_files(clouds: Sequence[str], jobs: Sequence[str], log: Path | None, report: Path | None) -> None:
    """Raise InputError if a log or the report would replace a file of jobs, or each other."""
    from app.workbench.federation.reading import clouds_of, files_of  # noqa: PLC0415 - as above

    nodes = clouds_of(clouds)
    read = [(f"--jobs {name}", path) for name, path in files_of(jobs, nodes).items()]
    check_apart(read, [*(("--log", path) for path in _logs_of(log, nodes).values()), ("--report", report)])


def _logs_of(folder: Path | None, clouds: Iterable[str]) -> dict[str, Path]:
    """Return the file for each cloud's events, if there are to be some."""
    return {} if folder is None else {name: folder / f"{name}.csv" for name in clouds}


def _write_report(
    path: Path, scenario: FederationScenario, counts: Mapping[str, Any], fates: Sequence[JobFate]
) -> None:
    from app.workbench.report.federations import (  # noqa: PLC0415 - the plotting library is slow to load
        FederationFindings,
        render_federation,
    )

    write_report(path, render_federation(FederationFindings(scenario, counts, fates), command_line()))


def _scenario(
    clouds: Sequence[str],
    jobs: Sequence[str],
    shifts: Sequence[str],
    links: str | None,
    rule: str,
    sla: float,
    bandwidth: str,
    train: str,
    bound: float,
    eviction: str,
) -> FederationScenario:
    from app.federation.rules.hosting import HostRule  # noqa: PLC0415 - as above
    from app.workbench.federation.reading import clouds_of, jobs_of, links_of  # noqa: PLC0415 - as above
    from app.workbench.federation.run import FederationScenario  # noqa: PLC0415 - as above

    if rule not in RULES:
        raise InputError(f"--rule {rule!r} is none of {', '.join(RULES)}")
    if (fault := probability_fault(sla)) is not None:
        raise InputError(f"--sla {sla:g} {fault}; --rule none admits whatever fits")
    if not 1.0 <= bound <= MOST_BOUND:
        raise InputError(f"--bound {bound:g} is not between 1 and {MOST_BOUND:g}: a bound is no less than the lifetime")
    nodes = clouds_of(clouds)
    found = jobs_of(jobs, shifts, nodes)
    for name in nodes:
        if not found.get(name):
            line = f"--cloud {name} has no jobs of its own (--jobs {name}=FILE.csv): it only runs those of others"
            STDERR.print(line, markup=False, highlight=False, soft_wrap=True)
    bytes_per_s, share = _bytes_per_s(bandwidth), _share(train)
    linked, policy = links_of(links, nodes), eviction_policy(eviction)
    return FederationScenario(nodes, found, linked, HostRule(rule), sla, bytes_per_s, share, bound, policy)


def _bytes_per_s(text: str) -> int:
    value = parse_bytes("--bandwidth", text)
    if not value:
        raise InputError("--bandwidth: nothing can be moved at 0 bytes a second")
    return value


def _share(text: str) -> float:
    try:
        value = float(Fraction(text)) if _SHARE.fullmatch(text) else -1.0
    except ZeroDivisionError:
        value = -1.0
    if not 0.0 <= value < 1.0:
        raise InputError(f"--train {text!r} is no share from 0 to below 1: write 1/3 or 0.25")
    return value


@contextmanager
def _writing(folder: Path | None, names: Mapping[str, Any]) -> Iterator[dict[str, EventSink]]:
    """Open a file in the folder for the events of each cloud. They come whole or not at all."""
    from app.workbench.logcsv import LogWriter  # noqa: PLC0415 - as above

    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: {error.strerror}") from error
    with ExitStack() as opened:
        sinks: dict[str, EventSink] = {}
        for name, path in _logs_of(folder, names).items():
            part = opened.enter_context(whole_file(path))
            sinks[name] = LogWriter(opened.enter_context(part.open("w", encoding="utf-8", newline="")))
        yield sinks


def answer_of(scenario: FederationScenario, counts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the counts and the settings as one JSON object."""
    total, *others = counts.values()
    for one in others:
        total = total.plus(one)
    settings = {
        "clouds": {name: platform_text(nodes) for name, nodes in scenario.nodes.items()},
        "links": {name: list(hosts) for name, hosts in scenario.links.items()},
        "rule": str(scenario.rule),
        "sla": scenario.sla,
        "bandwidth_bytes_per_s": scenario.bytes_per_s,
        "train": scenario.train,
        "bound": scenario.bound,
        "eviction": str(scenario.eviction),
        "seed": seed,
    }
    return _counts(total) | {"by_cloud": {name: _counts(one) for name, one in counts.items()}, "settings": settings}


def _counts(counts: Any) -> dict[str, Any]:  # noqa: ANN401 - JobCounts, whose module is slow to load
    names = ("requests", "native", "remote", "preempted", "rejected", "federation")
    return {name: getattr(counts, name) for name in names}


def _print(answer: Mapping[str, Any]) -> None:
    lines = {**answer["by_cloud"], "all": answer}
    names = ("requests", "native", "remote", "preempted", "rejected", "federation")
    rows = [
        [cloud, *(f"{line[name]:.4f}" if name == "federation" else str(line[name]) for name in names)]
        for cloud, line in lines.items()
    ]
    columns = [Column("jobs of", 8), *(Column(name, 6, is_number=True) for name in names)]
    print_fitting(STDOUT, columns, rows, f"rule {answer['settings']['rule']}")
    remote, preempted = answer["remote"], answer["preempted"]
    if remote:
        STDERR.print(f"preempted: {preempted / remote:.3f} of {remote} jobs away from home", highlight=False)

"""The command `import`: a recorded past into a new cloud's log."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from app.commands import options
from app.commands.changing import was_asked
from app.commands.configuring import DatabaseUrl, DataDir, read_settings, tell_database
from app.commands.novapast import NovaAsked, NovaPast, nova_past, of_nova, parse_since
from app.commands.output import STDERR, STDOUT, interruptible, print_json, progress_bar, waiting
from app.commands.words import counted
from app.commands.workloads import eviction_policy, promise_of, sla_of
from app.domain.errors import Unavailable
from app.domain.inputs import InputError, parse_nodes, parse_told_duration
from app.domain.policies import FORECAST, protected_policy
from app.domain.times import DAY_US, SECOND_US, from_datetime
from app.domain.values import NAME_PATTERN, Clock, Guarantee, Policy

if TYPE_CHECKING:
    from app.forecasts.rules import Run
    from app.importing.past import Wishes
    from app.importing.service import Import, Imported
    from app.platform.settings import Settings

_COLLECTED_AFTER = 50_000
_CLOUD = re.compile(NAME_PATTERN)
_NOTHING_YET = "nothing was written"
_PARTLY = (
    "what was written is kept, in a cloud that nobody sees yet; the same command again goes on, and with --restart it "
    "begins anew"
)
_WHOLE = "the past is in the log as a whole; a worker computes the first table, and tenure quote tells when it is there"
_COMPILES = "preparing the engine; a first use compiles it, which may take some minutes"
_EXAMPLE = "Example: tenure import north DS5-trace.txt --nodes 31x32 --sla 0.01"


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE...]",
        help="Eucalyptus, SWF, CSV start_s,lifetime_s,cores, a log as CSV, or what tenure nova export wrote; or .gz.",
    ),
]
CloudName = Annotated[str, typer.Argument(metavar="CLOUD", help="Name of the cloud, which the import makes.")]
SpotFiles = Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A file of spot instances.")]
Nodes = Annotated[str | None, typer.Option(metavar="NxC", help="The platform; otherwise the file must tell it.")]
Flavors = Annotated[
    str | None,
    typer.Option(
        metavar="exact|doubling|NAME=C,...",
        show_default="doubling for SWF, exact otherwise",
        help="A flavor for each size, for powers of two, or these.",
    ),
]
ClockName = Annotated[str, typer.Option(metavar="system|external", help="The cloud's clock.")]
Times = Annotated[
    str | None,
    typer.Option(
        metavar="now|recorded",
        show_default="now; recorded with an external clock",
        help="Let the past end now, or when it did.",
    ),
]
Gap = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Cut longer stretches without anything down to this; with its unit: 45m, 6h."),
]
StopAtEnd = Annotated[bool, typer.Option("--stop-at-end", help="Stop at the end of the past what has no end in it.")]
Wait = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="Wait for the cloud's first table for at most this long; with its unit: 30s, 5m."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read, decide and report; no database.")]
Restart = Annotated[bool, typer.Option("--restart", help="Throw away what an unfinished import of this name wrote.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import", epilog=_EXAMPLE)(of_nova(import_past))


def import_past(
    of: NovaAsked,
    cloud: CloudName,
    files: Files = None,
    *,
    spot: SpotFiles = None,
    nodes: Nodes = None,
    flavors: Flavors = None,
    clock: ClockName = "system",
    times: Times = None,
    longest_gap: Gap = None,
    stop_at_end: StopAtEnd = False,
    sla: options.Sla = None,
    no_sla: options.NoSla = False,
    guarantee: options.Guarantees = None,
    forecast: options.Forecasts = FORECAST,
    eviction: options.Eviction = "yjf",
    min_windows: options.MinWindows = 0,
    wait: Wait = "5m",
    dry_run: DryRun = False,
    restart: Restart = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: options.Json = False,
) -> None:
    """Give a new cloud a past to learn from, so that it quotes at once if the past is as long as its warm-up.

    The recorded instances are started and stopped as the live scheduler would have done it, and the decisions become
    the beginning of the cloud's log. An import that was cut off continues when it is run again; a finished one changes
    nothing. The command works on the service's database, with the settings of `tenure run`, whether or not the service
    runs.
    """
    policy = _policy(promise_of(sla_of(sla, no_sla=no_sla), guarantee, forecast), clock, eviction, min_windows)
    nova = nova_past(of, files or spot)
    wishes = replace(_wishes(nodes, flavors, longest_gap), stop_at_end=stop_at_end, since_us=parse_since(of.since))
    as_recorded = _as_recorded(times or (nova and "recorded"), policy)
    asked = _ImportAsked(_cloud_name(cloud), files or [], spot or [], wishes, policy, as_recorded, nova)
    settings = None if dry_run else read_settings(data_dir=data_dir, database_url=database_url)
    wait_s = parse_told_duration("--wait", wait) / SECOND_US
    (print_json if as_json else _print)(_run(asked, settings, wait_s, restart=restart))


class _ImportAsked(NamedTuple):
    """The options of an import."""

    cloud: str
    on_demand: list[Path]
    spot: list[Path]
    wishes: Wishes
    policy: Policy
    as_recorded: bool
    nova: NovaPast | None = None


def _wishes(nodes: str | None, flavors: str | None, longest_gap: str | None) -> Wishes:
    """Return the options for a past that are texts."""
    from app.importing.past import Wishes, parse_sizes  # noqa: PLC0415 - compiled code is slow to load

    platform, sizes = parse_nodes(nodes) if nodes else None, parse_sizes(flavors) if flavors else None
    return Wishes(platform, sizes, parse_told_duration("--longest-gap", longest_gap) if longest_gap else None)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let Python look for circles of objects seldom: an import makes millions of values and hardly a circle."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECTED_AFTER, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _cloud_name(text: str) -> str:
    if not _CLOUD.fullmatch(text):
        raise InputError(f"{text!r} is not a cloud's name: letters, digits, dots, dashes and underscores")
    return text


def _policy(named: Mapping[str, Any], clock: str, eviction: str, min_windows: int) -> Policy:
    """Return the policy in force when the past ends. The promise is `named`."""
    if clock not in set(Clock):
        raise InputError(f"--clock {clock!r} is unknown: write system or external")
    policy = protected_policy({**named, "min_windows": min_windows})
    return replace(policy, eviction_policy=eviction_policy(eviction), clock=Clock(clock))


def _as_recorded(times: str | None, policy: Policy) -> bool:
    if times not in (None, "now", "recorded"):
        raise InputError(f"--times {times!r} is unknown: write now or recorded")
    return policy.clock is Clock.EXTERNAL if times is None else times == "recorded"


def _run(asked: _ImportAsked, settings: Settings | None, wait_s: float, *, restart: bool) -> dict[str, Any]:
    """Read everything, then write: a broken file changes nothing. Without settings nothing is written at all."""
    from app.engine.cloud import warm_up  # noqa: PLC0415 - compiled code is slow to load
    from app.importing.past import Past  # noqa: PLC0415 - as above
    from app.importing.report import report  # noqa: PLC0415 - as above
    from app.importing.service import Import, rehearse  # noqa: PLC0415 - as above
    from app.importing.store.scratch import Scratch  # noqa: PLC0415 - as above
    from app.workbench.import_formats.files import read_past  # noqa: PLC0415 - as above
    from app.workbench.import_formats.servers import read_told  # noqa: PLC0415 - as above

    with _seldom_collected(), Scratch() as scratch:
        past = Past(scratch, _sources(asked), asked.wishes)
        with interruptible(_NOTHING_YET), progress_bar("reading") as progress:
            if asked.nova is None:
                read_past(past, asked.on_demand, asked.spot, progress)
            else:
                read_told(past, asked.nova.name, asked.nova.pieces(progress))
        wanted = Import(asked.cloud, past, past.finish(), asked.policy, asked.as_recorded)
        with interruptible(_NOTHING_YET), waiting(_COMPILES):
            warm_up()
        if settings is None:
            with interruptible(_NOTHING_YET), progress_bar("deciding") as progress:
                return report(wanted, rehearse(wanted, from_datetime(datetime.now(UTC)), progress), None, dry_run=True)
        tell_database(settings)
        imported, table = asyncio.run(_import(wanted, settings, wait_s, restart=restart))
        was_asked(f"status --cloud {asked.cloud}")
        return report(wanted, imported, table, dry_run=False)


def _sources(asked: _ImportAsked) -> list[str]:
    return [str(path) for path in (*asked.on_demand, *asked.spot)] or [asked.nova.name if asked.nova else ""]


@contextmanager
def _telling(state: str) -> Iterator[None]:
    """Say what is kept, if Ctrl-C or the loss of the database ends what is done meanwhile."""
    try:
        with interruptible(state):
            yield
    except Unavailable as error:
        error.add_note(state)
        raise


async def _import(wanted: Import, settings: Settings, wait_s: float, *, restart: bool) -> tuple[Imported, Run | None]:
    from app.processes.import_wiring import open_imports  # noqa: PLC0415 - the service's libraries are slow to load

    async with open_imports(settings) as imports:
        if restart:
            await imports.abandon(wanted.cloud)
        with _telling(_PARTLY), progress_bar("importing") as progress:
            imported = await imports.run(wanted, progress)
        if imported.run is not None and wait_s and wanted.policy.guarantee is not Guarantee.NONE:
            STDERR.print(
                "[dim]every event is in the log; Ctrl-C does no harm from here on. A worker that was just installed "
                "compiles before its first table, which takes a minute, and longer on a busy machine[/dim]",
                soft_wrap=True,
            )
            with _telling(_WHOLE), waiting("waiting for the first table"):
                return imported, await imports.wait_for_table(imported, wait_s)
        return imported, imported.run


def _print(told: dict[str, Any]) -> None:
    """Print for people the contents of the log and the lines that were not taken unchanged."""
    written, there = told["events"]["written"], told["events"]["there_before"]
    on_demand, spot = told["on_demand"], told["spot"]
    if told["dry_run"]:
        done = f"would write {written} events if no cloud has this name: no database was asked"
    elif written:
        done = f"{written} events written" + (f", {there} were there" if there else "")
        done += f" ({told['wall_s']:.1f} s, {told['events_per_s']} a second)"
    else:
        done = f"nothing to do: its {there} events are there"
    days = told["length_s"] * SECOND_US / DAY_US
    platform = f"{counted(told['nodes'], 'node')}, {counted(told['cores'], 'core')}"
    lines = [
        f"cloud {told['cloud']}: {done}",
        f"the past: {days:.1f} days, from {told['begins_at'][:16]} to {told['ends_at'][:16]} UTC",
        f"platform: {platform}; flavors {', '.join(told['flavors'])}",
        f"on-demand: {on_demand['admitted']} of {on_demand['requested']} admitted"
        + (f"; spot: {spot['admitted']} of {spot['requested']}, {spot['evicted']} evicted" if spot["requested"] else "")
        + f"; {told['running']} run on",
    ]
    STDOUT.print("\n".join(lines), highlight=False, markup=False)
    _print_rules(told)
    if told["record"] is not None:
        _print_record(told["record"])
    _print_quotes(told)


def _print_rules(told: dict[str, Any]) -> None:
    if not told["rules"]:
        STDOUT.print("every line was taken as it stands")
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("rule", "", "count", "what", "first lines"):
        table.add_column(name, justify="right" if name == "count" else "left", no_wrap=name in ("rule", "", "count"))
    several = len(told["files"]) > 1
    for rule in told["rules"]:
        places = [f"{Path(p['file']).name}:{p['line']}" if several else str(p["line"]) for p in rule["lines"]]
        shown = ", ".join(places) + (", ..." if rule["count"] > len(places) else "")
        table.add_row(rule["rule"], rule["effect"].replace("_", " "), str(rule["count"]), rule["what"], shown)
    STDOUT.print(table)


def _print_record(record: dict[str, Any]) -> None:
    """Print how far a record of servers can be trusted."""
    unmet = record["unmet_demand"]
    lines = [
        f"the record: {record['rows']} rows, whole from {record['whole_from'][:16]}",
        f"unmet demand: {unmet['servers']} servers with {unmet['cores']} cores found no host",
        *(
            f"{given['nodes']} nodes give out {given['cores']:g} times their cores, {given['memory']:g} times their "
            f"memory and {given['disk']:g} times their disk"
            for given in record["overcommit"]
        ),
        record["bias"],
    ]
    STDOUT.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _print_quotes(told: dict[str, Any]) -> None:
    table = told["table"]
    if table is None or told["quotes_from"] is None:
        return
    if table["status"] == "succeeded":
        STDOUT.print(f"the first table is there, epoch {table['epoch']}")
    elif table["status"] == "failed":
        STDOUT.print(f"the first table could not be computed, see run {table['run']}; it is tried again")
    elif table["status"] == "running":
        STDOUT.print("a worker computes the first table")
    else:
        STDOUT.print(
            "no worker has taken the first table up yet: tenure run, or tenure worker, does. Until it is there every "
            "spot start is rejected, and a rejected id stays so",
            soft_wrap=True,
        )
    if not told["warmed_up"]:
        STDOUT.print(f"the past is shorter than the warm-up: no promises before {told['quotes_from'][:16]}")

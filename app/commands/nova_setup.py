"""The commands `nova enable` and `nova check`: what a cloud of Nova needs to sell spot, made and looked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from app.commands.changing import was_asked
from app.commands.connecting import connect
from app.commands.options import LOCAL, Json, Token, Url
from app.commands.output import STDOUT, print_json, print_text
from app.domain.inputs import InputError, parse_duration
from app.domain.values import NAME_PATTERN

if TYPE_CHECKING:
    from app.nova.cloud import NovaCloud
    from app.nova.enabling import Lacking
    from app.nova.rules.findings import CheckFinding
    from tenure_client import TenureClient

Flavors = Annotated[list[str] | None, typer.Argument(metavar="FLAVOR...", help="The flavors; all if none is named.")]
NewCloud = Annotated[str, typer.Option("--cloud", envvar="TENURE_CLOUD", help="The cloud in Tenure; made if missing.")]
Lifetime = Annotated[
    str | None, typer.Option(metavar="TIME", help="The lifetime of servers that say none, as those of dashboards.")
]
Write = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where to write what Nova's files need.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be changed, and change nothing.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--nova-conf", metavar="FILE", show_default="/etc/nova/nova.conf", help="Nova's configuration; may be repeated."
    ),
]
Pool = Annotated[bool, typer.Option("--pool", help="The daemon reads from a pool, so it needs no topic of its own.")]
_NOVA_CONF = Path("/etc/nova/nova.conf")


def enable(
    flavors: Flavors = None,
    *,
    cloud: NewCloud,
    url: Url = LOCAL,
    token: Token = None,
    lifetime: Lifetime = None,
    write: Write = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Make spot twins of flavors, and bring the cloud's flavors and nodes into Tenure.

    OpenStack is reached as by its own commands: OS_CLOUD and clouds.yaml, or OS_AUTH_URL and so on, as an admin. Both
    sides are asked before anything is changed; to do it again changes nothing. Nova's configuration is not touched:
    --write gives what its files need.
    """
    from app.nova.cloud import NovaCloud  # noqa: PLC0415 - slow to load
    from app.nova.enabling import look, plans_of, texts_for  # noqa: PLC0415 - as above

    _check(cloud, lifetime)
    files = [] if write is None else [*texts_for(write, cloud, url)]
    nova = NovaCloud()
    with connect(url, token) as client:
        lacking = look(nova, client, cloud, frozenset(flavors or ()), lifetime)
        if not as_json:
            for one in lacking.without:
                print_text(Text(f"{one.name} has no twin: {one.why}"))
        if dry_run:
            said = [*plans_of(lacking), *(f"would be written: {path}" for path in files)]
        else:
            said = _bring(nova, client, lacking, write, url)
    if as_json:
        _print_enabled(lacking, [] if dry_run else files)
    else:
        for line in said if lacking.twins else [*said, "the twins are as they should be"]:
            print_text(Text(line))
    if lacking.without and flavors:
        raise typer.Exit(1)


def _check(cloud: str, lifetime: str | None) -> None:
    """Raise InputError for what Tenure, or its filter, would refuse later."""
    if not re.fullmatch(NAME_PATTERN, cloud):
        told = "is no name of a cloud: letters, digits, dots, _ and -, the first one a letter or a digit, 255 at most"
        raise InputError(f"--cloud or TENURE_CLOUD: {cloud!r} {told}")
    if lifetime is not None and parse_duration(lifetime) == 0:
        raise InputError("--lifetime: a server that runs for no time needs no promise")


def check(*, nova_conf: Files = None, pool: Pool = False, as_json: Json = False) -> None:
    """Look for what keeps a cloud from selling spot: in Nova's configuration here, and in the cloud.

    Run it on a host that has the scheduler's configuration. OpenStack is reached as by its own commands, as an admin.
    """
    findings = _findings(nova_conf or [_NOVA_CONF], has_pool=pool)
    if as_json:
        print_json({"ok": not _is_bad(findings), "findings": [finding.as_json() for finding in findings]})
    else:
        table = Table("check", "", "found", "to do")
        for one in findings:
            state = Text("-") if one.ok is None else Text("ok", "green") if one.ok else Text("no", "red")
            table.add_row(one.check, state, Text(one.told), Text(one.todo))
        STDOUT.print(table)
    if _is_bad(findings):
        raise typer.Exit(1)


def _findings(files: list[Path], *, has_pool: bool) -> list[CheckFinding]:
    from app.nova.cloud import NovaCloud  # noqa: PLC0415 - slow to load
    from app.nova.configured import judge_login, provider_files, read_configuration  # noqa: PLC0415 - as above
    from app.nova.rules import findings  # noqa: PLC0415 - as above
    from app.nova.rules.twins import TRAIT, faults_of_twins  # noqa: PLC0415 - as above

    configured, nova = read_configuration(files), NovaCloud()
    ratios = {one.name: nova.ratios(one) for one in nova.providers(TRAIT)}
    return [
        *findings.judge_filters(configured),
        findings.judge_providers(*provider_files(configured), is_compute=findings.is_of_compute(configured)),
        findings.judge_trait({name: frozenset(held) for name, held in ratios.items()}),
        findings.judge_topic(configured, has_pool=has_pool),
        findings.judge_twins(faults_of_twins(nova.flavors())),
        findings.judge_ratio(configured, ratios),
        judge_login(files, configured),
    ]


def _is_bad(findings: list[CheckFinding]) -> bool:
    return any(finding.ok is False for finding in findings)


def _bring(nova: NovaCloud, client: TenureClient, lacking: Lacking, write: Path | None, url: str) -> list[str]:
    """Write the files and bring what is lacking; return what was done, of which an error tells, too."""
    from app.nova.enabling import bring, write_texts  # noqa: PLC0415 - slow to load

    done: list[str] = []
    try:
        done += [f"written: {path}" for path in (write_texts(write, lacking.cloud, url) if write else [])]
        for line in bring(nova, client, lacking):
            done.append(line)
    except Exception as error:
        error.add_note(f"done before: {', '.join(done) or 'nothing'}; the same command does the rest")
        raise
    was_asked("nova check")
    return done


def _print_enabled(lacking: Lacking, written: list[Path]) -> None:
    print_json(
        {
            "cloud": {"name": lacking.cloud, "made": lacking.is_new},
            "twins": [
                {"name": one.name, "made": one.flavor is None, "specs": dict(one.specs)} for one in lacking.twins
            ],
            "without": [{"name": one.name, "why": one.why} for one in lacking.without],
            "flavors": lacking.flavors,
            "nodes": [{"name": one.node, "step": str(one.kind)} for one in lacking.nodes],
            "written": [str(path) for path in written],
        }
    )

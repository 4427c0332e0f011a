"""Options that several commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands.connecting import LOCAL, cloud_meant, complete_clouds, connect
from app.commands.faulty import in_options, options_of

__all__ = ["LOCAL"]

Nodes = Annotated[str, typer.Option(metavar="NxC", help="The platform: N nodes with C cores each.")]
OnDemand = Annotated[
    Path, typer.Option(metavar="FILE", help="On-demand trace: Eucalyptus, or CSV start_s,lifetime_s,cores.")
]
Spot = Annotated[Path, typer.Option(metavar="FILE", help="Spot trace, in either format.")]
SpotDelay = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="The delay of the spot trace's start; what starts after the on-demand trace is left out."
    ),
]


def _probability(text: str) -> float:
    """Return the number; a share of hundred is refused with what to write instead."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number between 0 and 1: write 0.01 for 1 %") from None


Sla = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        show_default="0.01",
        parser=_probability,
        help="Largest acceptable eviction probability, between 0 and 1.",
    ),
]
NoSla = Annotated[bool, typer.Option("--no-sla", help="Admit every spot start that fits.")]
_GUARANTEE_OF = "stratified; per-instance with --forecast replay"
SCOPES = (
    "The scope of the SLA: each stratum of declared lifetimes (stratified), all with the same promise together "
    "(pooled), or each instance by itself (per-instance)."
)
Guarantees = Annotated[
    str | None,
    typer.Option(
        "--guarantee",
        metavar="per-instance|pooled|stratified",
        show_default=_GUARANTEE_OF,
        help=SCOPES,
    ),
]
Eviction = Annotated[str, typer.Option(metavar="yjf|yjf-global", help="The rule that chooses victims.")]
Placements = Annotated[
    str,
    typer.Option("--placement", metavar="first-fit|best-fit", help="The node that a start takes, of those with room."),
]
Strata = Annotated[
    str,
    typer.Option(
        metavar="TIME,...|none", help="The lifetimes at which the next stratum of a stratified budget begins; or none."
    ),
]
Budgets = Annotated[
    str,
    typer.Option("--budget", metavar="instances|core-hours", help="What a budget counts by which starts are admitted."),
]
Every = Annotated[str, typer.Option(metavar="TIME", help="Time between two epochs.")]
Samples = Annotated[int, typer.Option(min=1, max=1_000_000, help="Samples of each flavor in an epoch.")]
Horizon = Annotated[str, typer.Option(metavar="TIME", help="The time for which a replay follows an injected instance.")]
History = Annotated[str, typer.Option(metavar="all|TIME", help="The part of the history that a replay reads.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random moments.")]
Platforms = Annotated[list[str], typer.Option("--nodes", metavar="NxC,...", help="N nodes with C cores each.")]
Slas = Annotated[
    list[str] | None,
    typer.Option(
        "--sla",
        metavar="P,...",
        show_default="0.01",
        help="Largest acceptable eviction probability, between 0 and 1; none is the baseline without an SLA.",
    ),
]
GuaranteeList = Annotated[
    list[str] | None,
    typer.Option("--guarantee", metavar="stratified,...", show_default=_GUARANTEE_OF, help=SCOPES),
]
EvictionList = Annotated[
    list[str], typer.Option("--eviction", metavar="yjf,yjf-global", help="The rule that chooses victims.")
]
PlacementList = Annotated[
    list[str],
    typer.Option("--placement", metavar="first-fit,best-fit", help="The node that a start takes, of those with room."),
]
BudgetList = Annotated[
    list[str],
    typer.Option("--budget", metavar="instances,core-hours", help="What a budget counts by which starts are admitted."),
]
Log = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write every event to this file, as CSV; of several runs, into this folder."),
]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE.html", help="Write one page with pictures; runs the baseline too.")
]
Reliability = Annotated[bool, typer.Option("--reliability", help="Tell promised probabilities and what happened.")]
ByEpoch = Annotated[bool, typer.Option("--by-epoch", help="Tell reliability for each epoch, too.")]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="File to write to; standard output otherwise.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Follow every quoted spot start to its end, admitted or not, and tell how true the quotes are."
    ),
]
Baselines = Annotated[
    bool, typer.Option("--baselines", help="Compare with no SLA, with head-room, and with a clairvoyant.")
]
MinWindows = Annotated[
    int, typer.Option(min=0, max=1_000_000, help="The least windows, pieces of evidence, that a promise may rest on.")
]
Forecasts = Annotated[
    str,
    typer.Option("--forecast", metavar="calibrated|replay", help="The forecast that estimates the risk of a start."),
]
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="The largest number of them.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

Url = Annotated[str, typer.Option(envvar="TENURE_URL", show_envvar=True, help="Address of the service.")]
Token = Annotated[str | None, typer.Option(envvar="TENURE_TOKEN", show_envvar=True, help="Token of the service.")]
Cloud = Annotated[
    str | None,
    typer.Option(
        envvar="TENURE_CLOUD",
        show_envvar=True,
        show_default="the only one there is",
        help="Name of the cloud.",
        autocompletion=complete_clouds,
    ),
]


def on_cloud(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options --url, --token and --cloud, which give it its first two arguments."""

    def connected(*, url: Url = LOCAL, token: Token = None, cloud: Cloud = None, **given: Any) -> None:  # noqa: ANN401
        with connect(url, token) as client, in_options(options_of(command)):
            command(client, cloud_meant(client, cloud), **given)

    return with_options(connected, command, 2)


def on_service(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options --url and --token, which give it its first argument."""

    def connected(*, url: Url = LOCAL, token: Token = None, **given: Any) -> None:  # noqa: ANN401 - as above
        with connect(url, token) as client, in_options(options_of(command)):
            command(client, **given)

    return with_options(connected, command, 1)


def with_options(connected: Callable[..., None], command: Callable[..., None], count: int) -> Callable[..., None]:
    """Return `connected` with its own options and those of the command, whose first `count` arguments it gives."""
    *shared, _ = signature(connected, eval_str=True).parameters.values()
    own = [*signature(command, eval_str=True).parameters.values()][count:]
    options = [one for one in own if one.kind is Parameter.KEYWORD_ONLY]
    arguments = [one for one in own if one not in options]
    connected.__signature__ = Signature([*arguments, *shared, *options])  # type: ignore[attr-defined]
    connected.__name__, connected.__doc__ = command.__name__, command.__doc__
    return connected

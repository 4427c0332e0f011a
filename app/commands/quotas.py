"""The commands `quota list`, `quota set` and `quota remove`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.fitting import Column, print_fitting
from app.commands.options import on_cloud
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import length, percent
from tenure_client import TenureClient, json_of
from tenure_client.forms.owners import OwnerAnswer

_COLUMNS = (
    Column("owner", 9),
    Column("cores", 8, is_number=True),
    Column("share", 4, is_number=True),
    Column("running", 5, is_number=True),
    Column("admitted", 3, is_number=True),
    Column("evicted", 2, is_number=True),
    Column("overran", 7, is_number=True),
    Column("core time beyond", 6, is_number=True),
    Column("lately", 1, is_number=True),
)
_LEGEND = (
    "cores: of its running spot instances, and the quota; share: of what a book has left, by the quota; overran: ran\n"
    "beyond the declared lifetime, now or earlier, of those admitted; lately: the core time beyond it in four weeks,\n"
    "and how much is allowed, of which admins have no record; - is no limit, * a quota of the owner's own"
)
Owner = Annotated[str, typer.Argument(metavar="OWNER", help="What the names of its tokens have up to their first dot.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    quota = typer.Typer(help="What each owner of spot instances may have, and has.", no_args_is_help=True)
    quota.command("list", epilog="Example: tenure quota list --cloud north")(on_cloud(list_quotas))
    quota.command("set", epilog="Example: tenure quota set --cloud north batch --cores 64 --share 0.25")(
        on_cloud(set_quota)
    )
    quota.command("remove", epilog="Example: tenure quota remove --cloud north batch")(on_cloud(remove_quota))
    app.add_typer(quota, name="quota")


def list_quotas(client: TenureClient, cloud: str, *, as_json: options.Json = False) -> None:
    """Show every owner of spot instances: what it has, what its quota allows, and how its instances overran."""
    owners = [*client.owners(cloud)]
    if as_json:
        print_json({"owners": [json_of(owner) for owner in owners]})
        return
    print_fitting(STDOUT, _COLUMNS, [_row(owner) for owner in owners])
    print_text(Text(_LEGEND, style="dim"))


def set_quota(
    client: TenureClient,
    cloud: str,
    owner: Owner,
    *,
    cores: Annotated[int | None, typer.Option(min=0, help="The most cores of its running spot instances.")] = None,
    share: Annotated[float | None, typer.Option(help="Its share of what a book has left, up to 1.")] = None,
    overrun_share: Annotated[
        float | None, typer.Option(help="The core-hours that it may overrun for each within a lifetime, up to 1.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Give an owner a quota of its own, in place of the policy's. What is left out is not limited.

    At least one of --cores, --share and --overrun-share must be given. What runs stays; the quota decides on the next
    starts.
    """
    if cores is None and share is None and overrun_share is None:
        raise typer.BadParameter(
            "at least one of --cores, --share and --overrun-share must be given: what is left out is not limited"
        )
    with changing(f"quota list --cloud {cloud}"):
        answer = client.set_quota(cloud, owner, cores=cores, share=share, overrun_share=overrun_share)
    if as_json:
        print_json(json_of(answer))
    else:
        print_text(Text(f"{owner}: {_quota_text(answer)}"))


def remove_quota(client: TenureClient, cloud: str, owner: Owner) -> None:
    """Let the policy's quota hold for an owner again."""
    with changing(f"quota list --cloud {cloud}"):
        client.remove_quota(cloud, owner)
    print_text(Text(f"the policy's quota holds for {owner}"))


def _row(owner: OwnerAnswer) -> list[object]:
    overran = f"{owner.overran} ({percent(owner.overran_share)})" if owner.admitted else "0"
    return [
        owner.name or "(admins)",
        f"{owner.running_cores} of {_cores(owner)}{'*' if owner.quota.is_own else ''}",
        _share(owner),
        owner.running,
        owner.admitted,
        owner.evicted,
        Text(overran, style="red" if owner.overrunning else ""),
        length(owner.overrun_core_s),
        _lately(owner),
    ]


def _lately(owner: OwnerAnswer) -> Text:
    used, allowed = owner.lately_overrun_core_s, owner.lately_allowed_core_s
    if used is None or allowed is None:
        return Text("-" if not used else length(used))
    return Text(f"{length(used)} of {length(allowed)}", style="red" if used > allowed else "")


def _quota_text(owner: OwnerAnswer) -> str:
    quota = owner.quota
    cores = "any number of cores" if quota.cores is None else f"{quota.cores} cores"
    share = "all" if quota.share is None else percent(quota.share)
    beyond = (
        "of any length"
        if quota.overrun_share is None
        else f"up to {percent(quota.overrun_share)} of what ran as declared"
    )
    return f"{cores}, {share} of what a book has left, overruns {beyond}"


def _cores(owner: OwnerAnswer) -> str:
    return "-" if owner.quota.cores is None else str(owner.quota.cores)


def _share(owner: OwnerAnswer) -> str:
    return "-" if owner.quota.share is None else percent(owner.quota.share)

"""The commands `peer add|list|show|set|pause|resume|test|remove|standing`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.faulty import in_options
from app.commands.fitting import Column, print_fitting
from app.commands.options import on_service
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import length, moment, percent
from app.domain.inputs import InputError, parse_bytes, parse_duration
from app.domain.jobs import MOST_JOB_INSTANCES
from app.domain.times import SECOND_US
from tenure_client import TenureClient, json_of
from tenure_client.forms.peers import CloudStandingAnswer, CountedAnswer, LinkAnswer, PeerAnswer

_MOST_TOKEN = 1000
_OPTIONS = {
    "name": "the peer's name",
    "url": "the URL",
    "cloud": "--their-cloud",
    "token": "--token-file",
    "link_mbit_s": "--link",
    "quota.offers": "--offers",
    "quota.cores_share": "--cores-share",
    "quota.count": "--count",
    "quota.lifetime_s": "--longest",
    "quota.data_bytes": "--data",
}
_COLUMNS = (
    Column("peer", 10),
    Column("url", 5),
    Column("cloud there", 6),
    Column("offers", 3, is_number=True),
    Column("cores %", 3, is_number=True),
    Column("count", 2, is_number=True),
    Column("lifetime", 2, is_number=True),
    Column("state", 9),
    Column("because", 1, is_words=True),
)
_AS_HOST = (
    Column("cloud", 9),
    Column("offered", 5, is_number=True),
    Column("awarded", 7, is_number=True),
    Column("completed", 4, is_number=True),
    Column("preempted", 8, is_number=True),
    Column("promised", 6, is_number=True),
    Column("happened", 6, is_number=True),
    Column("declined because", 3, is_words=True),
    Column("other ends", 2, is_words=True),
)
_AS_ORIGIN = (
    Column("cloud", 9),
    Column("held", 5, is_number=True),
    Column("awarded", 7, is_number=True),
    Column("in vain", 6, is_number=True),
    Column("holds now", 4, is_number=True),
    Column("runs now", 4, is_number=True),
    Column("cores", 8, is_number=True),
    Column("words", 3, is_words=True),
)

_LINKS = (
    Column("way", 9),
    Column("rate", 8, is_number=True),
    Column("transfers", 5, is_number=True),
    Column("newest", 4, is_number=True),
    Column("under way", 6, is_number=True),
    Column("1 GB takes", 7, is_number=True),
)
_WAYS = {"in": "inputs of its jobs", "out": "outputs of ours"}
_MEGABYTE, _GIGABYTE = 10**6, 10**9

PeerName = Annotated[str, typer.Argument(metavar="PEER", help="The peer's name.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with the token of the role peer that it gave us; - asks for it."),
]
Offers = Annotated[int | None, typer.Option(min=0, help="How many of its attempts may hold room at once; 20 at first.")]
CoresShare = Annotated[
    int | None,
    typer.Option(min=0, max=100, help="The cores that it may have, in per cent of those of open nodes; 10 at first."),
]
Count = Annotated[
    int | None, typer.Option(min=1, max=MOST_JOB_INSTANCES, help="The most instances of one job; 256 at first.")
]
ObjectsUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="The endpoint of its object store; without it no data is moved.")
]
LinkRate = Annotated[
    float | None,
    typer.Option(
        "--link",
        metavar="MBIT_S",
        min=0.001,
        max=10**6,
        help="The rate of data from it in 10^6 bit/s, until it is learned.",
    ),
]
DataShare = Annotated[
    str | None, typer.Option("--data", metavar="BYTES", help="The most data of all of its jobs here; 100GB at first.")
]
Longest = Annotated[
    str | None, typer.Option(metavar="TIME", help="The longest lifetime of one job: 12h; 30d at first.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    peers = typer.Typer(
        help="Other clouds that jobs are offered to, and that may offer jobs here.", no_args_is_help=True
    )
    example = "tenure peer add b https://tenure.b.example --their-cloud north --token-file b.token"
    peers.command(epilog=f"Example: {example}")(on_service(add))
    peers.command("list", epilog="Example: tenure peer list")(on_service(list_peers))
    peers.command("set", epilog="Example: tenure peer set b --cores-share 25")(on_service(change))
    for command in (show, pause, resume, remove, standing):
        peers.command(epilog=f"Example: tenure peer {command.__name__} b")(on_service(command))
    peers.command(
        "test", epilog="Example: tenure peer test b\n\nExit codes: 0 it answers and knows our token; 1 it does not."
    )(on_service(try_out))
    app.add_typer(peers, name="peer")


def add(
    client: TenureClient,
    peer: PeerName,
    peer_url: Annotated[str, typer.Argument(metavar="PEER_URL", help="Where its service is: https://...")],
    *,
    their_cloud: Annotated[str, typer.Option(metavar="NAME", help="The name of the cloud there.")],
    token_file: TokenFile = None,
    offers: Offers = None,
    cores_share: CoresShare = None,
    count: Count = None,
    longest: Longest = None,
    objects_url: ObjectsUrl = None,
    link: LinkRate = None,
    data: DataShare = None,
    as_json: options.Json = False,
) -> None:
    """Enter another cloud, so that jobs are offered to it and it may offer jobs here.

    Its own requests show a token of the role peer, which is named like the peer and which we give it (`tenure token
    create`). The token that it gave us comes from a file or is asked for, so that no list of processes shows it.
    """
    token = _token(token_file)
    if token is None:
        raise InputError("a new peer needs --token-file, with the token of the role peer that it gave us")
    with _changing(), in_options(_OPTIONS):
        quota = _quota(offers, cores_share, count, longest, data)
        entered = client.add_peer(
            peer, peer_url, their_cloud, token, quota=quota, objects_url=objects_url, link_mbit_s=link
        )
    _print(entered, as_json=as_json)


def list_peers(client: TenureClient, *, as_json: options.Json = False) -> None:
    """List all peers with what they may have here."""
    found = client.peers()
    if as_json:
        print_json(json_of(found))
    else:
        print_fitting(STDOUT, _COLUMNS, [_row(peer) for peer in found.peers])


def show(client: TenureClient, peer: PeerName, *, as_json: options.Json = False) -> None:
    """Show a peer and what it may have here."""
    _print(client.peer(peer), as_json=as_json)


def change(
    client: TenureClient,
    peer: PeerName,
    *,
    peer_url: Annotated[str | None, typer.Option(metavar="URL", help="Where its service is.")] = None,
    their_cloud: Annotated[str | None, typer.Option(metavar="NAME", help="The name of the cloud there.")] = None,
    token_file: TokenFile = None,
    offers: Offers = None,
    cores_share: CoresShare = None,
    count: Count = None,
    longest: Longest = None,
    objects_url: ObjectsUrl = None,
    link: LinkRate = None,
    data: DataShare = None,
    as_json: options.Json = False,
) -> None:
    """Change where a peer is, the token that it gave us, or what it may have here. The rest stays as it is."""
    given: dict[str, Any] = {
        "url": peer_url,
        "cloud": their_cloud,
        "token": _token(token_file),
        "quota": _quota(offers, cores_share, count, longest, data),
        "objects_url": objects_url,
        "link_mbit_s": link,
    }
    if not any(one is not None for one in given.values()):
        raise InputError("say what is to change: --peer-url, --cores-share, ... (tenure peer set --help)")
    with _changing(), in_options(_OPTIONS):
        changed = client.change_peer(peer, **given)
    _print(changed, as_json=as_json)


def pause(client: TenureClient, peer: PeerName, *, as_json: options.Json = False) -> None:
    """Offer a peer no more jobs and refuse its offers. What is awarded goes on."""
    with _changing():
        paused = client.pause_peer(peer)
    _print(paused, as_json=as_json)


def resume(client: TenureClient, peer: PeerName, *, as_json: options.Json = False) -> None:
    """Offer a peer jobs again, and answer its offers. Awards from now on are judged."""
    with _changing():
        resumed = client.resume_peer(peer)
    _print(resumed, as_json=as_json)


def try_out(client: TenureClient, peer: PeerName, *, as_json: options.Json = False) -> None:
    """Ask a peer a question that changes nothing. Exit with 1 if it does not answer as one that knows our token."""
    answer = client.test_peer(peer)
    if as_json:
        print_json(json_of(answer))
    else:
        told = f"{peer} answers, in {answer.took_s * 1000:.0f} ms" if answer.reached else f"no: {answer.error}"
        STDOUT.print(told, highlight=False, markup=False)
    if not answer.reached:
        raise typer.Exit(1)


def remove(client: TenureClient, peer: PeerName) -> None:
    """Forget a peer. Jobs that were awarded to it are taken back at the end of their leases."""
    client.peer(peer)
    with _changing():
        client.remove_peer(peer)
    print_text(Text(f"{peer} is removed"))


def standing(client: TenureClient, peer: PeerName, *, as_json: options.Json = False) -> None:
    """Tell what a peer promised against what happened, by cloud, in both directions."""
    found = client.standing(peer)
    if as_json:
        print_json(json_of(found))
        return
    print_fitting(STDOUT, _AS_HOST, [_host_row(one) for one in found.clouds], f"our jobs at {peer}")
    print_fitting(STDOUT, _AS_ORIGIN, [_origin_row(one) for one in found.clouds], f"jobs of {peer} here")
    if found.data_links:
        print_fitting(STDOUT, _LINKS, [_link_row(one) for one in found.data_links], f"data from {peer}")


def _changing() -> AbstractContextManager[None]:
    return changing("peer list")


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        text = _asked_for() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds no text"
        raise InputError(f"--token-file {file}: {why}") from error
    if not text.strip():
        raise InputError(f"{file} holds no token")
    return text.strip()


def _asked_for() -> str:
    """Return what stands in the standard input, or what a person types there, who does not see it."""
    if sys.stdin.isatty():
        return str(typer.prompt("the token that it gave us", hide_input=True, err=True))
    return sys.stdin.read(_MOST_TOKEN)


def _quota(
    offers: int | None, cores_share: int | None, count: int | None, longest: str | None, data: str | None
) -> dict[str, int | float] | None:
    lifetime_s = None if longest is None else parse_duration(longest) / SECOND_US
    data_bytes = None if data is None else parse_bytes("--data", data)
    given: dict[str, int | float | None] = {"offers": offers, "cores_share": cores_share, "count": count}
    given |= {"lifetime_s": lifetime_s, "data_bytes": data_bytes}
    return {name: value for name, value in given.items() if value is not None} or None


def _print(peer: PeerAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(peer))
        return
    print_fitting(STDOUT, _COLUMNS, [_row(peer)])
    objects = peer.objects_url or "none, so none is moved"
    link = "" if peer.link_mbit_s is None else f"; link of {peer.link_mbit_s:g} Mbit/s until it is learned"
    print_text(Text(f"data: {peer.quota.data_bytes / _GIGABYTE:g} GB at most; its object store: {objects}{link}"))


def _row(peer: PeerAnswer) -> list[object]:
    quota = peer.quota
    state = "in use" if peer.paused_by is None else f"paused by {peer.paused_by} {moment(peer.paused_at)}"
    limits = [quota.offers, quota.cores_share, quota.count, length(quota.lifetime_s)]
    return [peer.name, peer.url, peer.cloud, *limits, state, peer.paused_because or "-"]


def _host_row(found: CloudStandingAnswer) -> list[object]:
    host = found.as_host
    shown = {"completed", "preempted"}
    ends = {one.word: one.count for one in host.ended}
    return [
        found.cloud,
        host.offered,
        host.awarded,
        ends.get("completed", 0),
        ends.get("preempted", 0),
        percent(host.promised_ratio),
        percent(host.preempted_ratio),
        _counts(host.declined),
        _counts([one for one in host.ended if one.word not in shown]),
    ]


def _origin_row(found: CloudStandingAnswer) -> list[object]:
    here = found.as_origin
    cores = f"{here.cores} of {here.cores_limit}"
    return [
        found.cloud, here.held, here.awarded, here.lapsed, here.holding, here.running, cores, _counts(here.words)
    ]  # fmt: skip


def _link_row(found: LinkAnswer) -> list[object]:
    rate = "-" if found.bytes_per_s is None else f"{found.bytes_per_s / _MEGABYTE:.1f} MB/s"
    times = length(found.newest_age_s), found.active, length(found.gigabyte_s)
    return [_WAYS.get(found.direction, found.direction), rate, found.samples, *times]


def _counts(counts: Sequence[CountedAnswer]) -> str:
    return ", ".join(f"{one.word.replace('_', ' ')} {one.count}" for one in counts) or "-"

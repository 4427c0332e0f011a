"""The command `events`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.text import Text

from app.commands import options
from app.commands.connecting import cloud_meant, connect
from app.commands.output import print_json, print_text
from app.commands.words import moment
from app.domain.inputs import parse_duration
from tenure_client import TenureClient
from tenure_client.forms.events import EventAnswer

_STYLES = {"instance_started": "green", "instance_rejected": "yellow", "instance_evicted": "red"}
_NEWEST = 20
_SAID = {"seq", "at", "kind", "id", "quote"}
"""Fields that every line has, or that say too much for one."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: tenure events --cloud north --follow --json")(events)


def events(
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    after_seq: Annotated[
        int | None, typer.Option(min=0, help="Only what stands after this event.", show_default="the newest")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The largest number of them.", show_default="20, or with --follow all")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")] = False,
    retry_for: Annotated[
        str, typer.Option(metavar="TIME", help="Try to resume a broken stream for this long.")
    ] = "10m",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Show a cloud's event log, or follow it.

    With --follow every event is shown once and in order, whatever happens to the connection or to the service. To
    continue later, give --after-seq the last seq that you have.
    """
    retry_s = parse_duration(retry_for) / 1e6
    with connect(url, token) as asking, TenureClient(url, token, retry_s=retry_s) as following:
        name = cloud_meant(asking, cloud)
        first = _first(asking, name, after_seq, limit)
        if follow:
            with suppress(KeyboardInterrupt):  # Ctrl-C is the way to leave, not an error
                _show(following.follow(name, after_seq=first), limit, as_json=as_json)
        else:
            _show(asking.events(name, after_seq=first), limit or _NEWEST, as_json=as_json)


def _first(client: TenureClient, cloud: str, after_seq: int | None, limit: int | None) -> int:
    """Return the seq to begin after: the one given, or one that shows the newest events."""
    if after_seq is not None:
        return after_seq
    return max(0, client.cloud(cloud).seq - (limit or _NEWEST))


def _show(events: Iterable[EventAnswer], limit: int | None, *, as_json: bool) -> None:
    for number, event in enumerate(events, 1):
        if as_json:
            print_json(dict(event.fields))
        else:
            print_text(_line(event))
        sys.stdout.flush()
        if number == limit:
            return


def _line(event: EventAnswer) -> Text:
    style = _STYLES.get(event.kind, "")
    return Text.assemble(
        (f"{event.seq:>7} {moment(event.at)} ", "dim"),
        (event.kind.replace("_", " "), style),
        f" {in_words(event.fields)}",
    )


def in_words(fields: Any) -> str:  # noqa: ANN401 - JSON
    """Describe an event in a line, beyond its kind; unknown kinds are described as well."""
    told = [fields["id"]] if "id" in fields else []
    for name, value in fields.items():
        if name not in _SAID and value is not None and value != []:
            told.append(f"{name}={_value(value)}")
    return " ".join(told)


def _value(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return ",".join(_value(item) for item in value)
    if isinstance(value, dict):
        told = {name: of for name, of in value.items() if of is not None}
        return value["id"] if set(told) == {"id"} else ",".join(f"{name}:{_value(of)}" for name, of in told.items())
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)

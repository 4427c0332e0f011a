"""The commands `webhook create|list|show|delete|pause|resume|test|dead|replay`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from app.commands import options
from app.commands.connecting import cloud_meant, connect
from app.commands.output import STDOUT, print_json
from app.commands.tables import numbers_table
from tenure_client import json_of
from tenure_client.forms.webhooks import WebhookAnswer

Webhook = Annotated[str, typer.Argument(help="The webhook's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    webhooks = typer.Typer(help="Receivers that a cloud's events are sent to.", no_args_is_help=True)
    common = f"--url {options.LOCAL} --cloud north"
    webhooks.command(epilog=f"Example: tenure webhook create https://controller.example.org/tenure {common}")(create)
    webhooks.command("list", epilog=f"Example: tenure webhook list {common}")(list_webhooks)
    for command in (show, delete, pause, resume, dead):
        webhooks.command(epilog=f"Example: tenure webhook {command.__name__} 1 {common}")(command)
    webhooks.command("test", epilog=f"Example: tenure webhook test 1 {common}")(try_out)
    webhooks.command(epilog=f"Example: tenure webhook replay 1 --seq 7 {common}")(replay)
    webhooks.callback()(_webhooks)
    app.add_typer(webhooks, name="webhook")


def _webhooks() -> None:
    """Receivers that a cloud's events are sent to."""


def create(
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="The URL to send events to.")],
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="A kind of event to send; may stand several times.", show_default="all")
    ] = None,
    after_seq: Annotated[
        int | None, typer.Option(min=0, help="Send the events after this one.", show_default="from now on")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Send events to a URL. The secret that signs them is shown only this once."""
    with connect(url, token) as client:
        made = client.create_webhook(cloud_meant(client, cloud), receiver, kinds=kind, after_seq=after_seq)
    if as_json:
        print_json(json_of(made))
    else:
        STDOUT.print(f"webhook {made.id}; its secret, shown this once:", highlight=False)
        typer.echo(made.secret)


def list_webhooks(
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """List a cloud's webhooks, and how far each has got."""
    with connect(url, token) as client:
        found = list(client.webhooks(cloud_meant(client, cloud)))
    if as_json:
        print_json({"webhooks": [json_of(webhook) for webhook in found]})
    else:
        STDOUT.print(_table(found) if found else "no webhooks")


def show(
    webhook: Webhook,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """Show a webhook, how far it has got, and its last failure."""
    with connect(url, token) as client:
        found = client.webhook(cloud_meant(client, cloud), webhook)
    _print(found, as_json=as_json)


def delete(
    webhook: Webhook, *, url: options.Url = options.LOCAL, token: options.Token = None, cloud: options.Cloud = None
) -> None:
    """Delete a webhook and its dead letters. Nothing more is sent to it."""
    with connect(url, token) as client:
        client.delete_webhook(cloud_meant(client, cloud), webhook)


def pause(
    webhook: Webhook,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """Stop sending until the webhook is resumed. Its place in the log is kept."""
    with connect(url, token) as client:
        found = client.pause_webhook(cloud_meant(client, cloud), webhook)
    _print(found, as_json=as_json)


def resume(
    webhook: Webhook,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """Continue where the webhook was paused."""
    with connect(url, token) as client:
        found = client.resume_webhook(cloud_meant(client, cloud), webhook)
    _print(found, as_json=as_json)


def try_out(
    webhook: Webhook,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """Send one message that is no event, and show the receiver's answer. Exit with 1 if it was not taken."""
    with connect(url, token) as client:
        answer = client.test_webhook(cloud_meant(client, cloud), webhook)
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print("taken" if answer.taken else f"not taken: {answer.error}", highlight=False)
    if not answer.taken:
        raise typer.Exit(1)


def dead(
    webhook: Webhook,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """List the events that the receiver did not take in all attempts."""
    with connect(url, token) as client:
        letters = list(client.dead_letters(cloud_meant(client, cloud), webhook))
    if as_json:
        print_json({"dead": [json_of(letter) for letter in letters]})
        return
    if not letters:
        STDOUT.print("no dead letters")
        return
    table = numbers_table(("kind", "error", "died"), ("seq", "tries"))
    for letter in letters:
        died = f"{letter.died_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(letter.kind, letter.error, died, str(letter.seq), str(letter.attempts))
    STDOUT.print(table)


def replay(
    webhook: Webhook,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    seq: Annotated[
        list[int] | None, typer.Option(help="A dead letter; may stand several times.", show_default="all")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Try dead letters once more."""
    with connect(url, token) as client:
        answer = client.replay_dead_letters(cloud_meant(client, cloud), webhook, seqs=seq)
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print(f"{answer.asked} dead letters will be tried once more", highlight=False)


def _print(webhook: WebhookAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(webhook))
    else:
        STDOUT.print(_table([webhook]))


def _table(found: Sequence[WebhookAnswer]) -> Table:
    table = numbers_table(("id", "url", "status", "last error"), ("urgent", "ordinary", "delivered", "dead"))
    for webhook in found:
        places = (str(webhook.urgent.seq), str(webhook.ordinary.seq))
        counts = (str(webhook.delivered_count), str(webhook.dead_count))
        status = webhook.paused_because or webhook.status
        table.add_row(webhook.id, webhook.url, status, webhook.last_error or "-", *places, *counts)
    return table

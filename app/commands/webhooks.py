"""The commands `webhook create|list|show|delete|pause|resume|test|dead|replay`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated

import typer
from rich.table import Table

from app.commands import options
from app.commands.changing import changing
from app.commands.faulty import in_options
from app.commands.options import on_cloud
from app.commands.output import STDOUT, print_json, print_list
from app.commands.tables import numbers_table
from tenure_client import TenureClient, json_of
from tenure_client.forms.webhooks import DeadLetterAnswer, WebhookAnswer

_OPTIONS = {"url": "the receiver's URL", "kinds": "--kind", "seqs": "--seq"}
Webhook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    webhooks = typer.Typer(help="Receivers that a cloud's events are sent to.", no_args_is_help=True)
    common = f"--url {options.LOCAL} --cloud north"
    create_example = f"Example: tenure webhook create https://controller.example.org/tenure {common}"
    webhooks.command(epilog=create_example)(on_cloud(create))
    webhooks.command("list", epilog=f"Example: tenure webhook list {common}")(on_cloud(list_webhooks))
    for command in (show, delete, pause, resume, dead):
        webhooks.command(epilog=f"Example: tenure webhook {command.__name__} 1 {common}")(on_cloud(command))
    webhooks.command("test", epilog=f"Example: tenure webhook test 1 {common}")(on_cloud(try_out))
    webhooks.command(epilog=f"Example: tenure webhook replay 1 --seq 7 {common}")(on_cloud(replay))
    app.add_typer(webhooks, name="webhook")


def create(
    client: TenureClient,
    cloud: str,
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="The URL to send events to.")],
    *,
    kind: Annotated[
        list[str] | None, typer.Option(help="A kind of event to send; may stand several times.", show_default="all")
    ] = None,
    after_seq: Annotated[
        int | None, typer.Option(min=0, help="Send the events after this one.", show_default="from now on")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Send events to a URL. The secret that signs them is shown only this once."""
    with _changing(cloud, "; its secret is lost: delete it, and create another"), in_options(_OPTIONS):
        made = client.create_webhook(cloud, receiver, kinds=kind, after_seq=after_seq)
    if as_json:
        print_json(json_of(made))
    else:
        STDOUT.print(f"webhook {made.id}; its secret, shown this once:", highlight=False)
        typer.echo(made.secret)


def list_webhooks(client: TenureClient, cloud: str, *, as_json: options.Json = False) -> None:
    """List a cloud's webhooks, and how far each has got."""
    print_list("webhooks", list(client.webhooks(cloud)), _table, as_json=as_json)


def show(client: TenureClient, cloud: str, webhook: Webhook, *, as_json: options.Json = False) -> None:
    """Show a webhook, how far it has got, and its last failure."""
    _print(client.webhook(cloud, webhook), as_json=as_json)


def delete(client: TenureClient, cloud: str, webhook: Webhook) -> None:
    """Delete a webhook and its dead letters. What is sent within the next second may still arrive."""
    with _changing(cloud):
        client.delete_webhook(cloud, webhook)


def pause(client: TenureClient, cloud: str, webhook: Webhook, *, as_json: options.Json = False) -> None:
    """Stop sending until the webhook is resumed. Its place in the log is kept.

    What is sent within the next second may still arrive.
    """
    with _changing(cloud):
        paused = client.pause_webhook(cloud, webhook)
    _print(paused, as_json=as_json)


def resume(client: TenureClient, cloud: str, webhook: Webhook, *, as_json: options.Json = False) -> None:
    """Continue where the webhook was paused."""
    with _changing(cloud):
        resumed = client.resume_webhook(cloud, webhook)
    _print(resumed, as_json=as_json)


def try_out(client: TenureClient, cloud: str, webhook: Webhook, *, as_json: options.Json = False) -> None:
    """Send one message that is no event, and show the receiver's answer. Exit with 1 if it was not taken."""
    answer = client.test_webhook(cloud, webhook)
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print("taken" if answer.taken else f"not taken: {answer.error}", highlight=False)
    if not answer.taken:
        raise typer.Exit(1)


def dead(client: TenureClient, cloud: str, webhook: Webhook, *, as_json: options.Json = False) -> None:
    """List the events that the receiver did not take in all attempts."""
    letters = list(client.dead_letters(cloud, webhook))
    print_list("dead", letters, _dead_table, as_json=as_json, none="no dead letters")


def replay(
    client: TenureClient,
    cloud: str,
    webhook: Webhook,
    *,
    seq: Annotated[
        list[int] | None, typer.Option(help="A dead letter; may stand several times.", show_default="all")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Try dead letters once more."""
    with changing(f"webhook dead {webhook} --cloud {cloud}"), in_options(_OPTIONS):
        answer = client.replay_dead_letters(cloud, webhook, seqs=seq)
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print(f"{answer.asked} dead letters will be tried once more", highlight=False)


def _changing(cloud: str, then: str = "") -> AbstractContextManager[None]:
    return changing(f"webhook list --cloud {cloud}", then)


def _dead_table(letters: Sequence[DeadLetterAnswer]) -> Table:
    table = numbers_table(("kind", "error", "died"), ("seq", "tries"))
    for letter in letters:
        died = f"{letter.died_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(letter.kind, letter.error, died, str(letter.seq), str(letter.attempts))
    return table


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

"""The commands `observe`, `abort` and `resize`: what a controller sees of its cloud."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.options import on_cloud
from app.commands.output import print_json, print_text
from tenure_client import TenureClient, json_of
from tenure_client.forms.nodes import ResourcesAnswer, VictimAnswer

_LEFT_OUT = "as it is if left out, and 0 if it is not to be counted any more."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: tenure observe --cloud north i-7 node-3 large")(on_cloud(observe))
    app.command(epilog="Example: tenure abort --cloud north i-9")(on_cloud(abort))
    app.command(epilog="Example: tenure resize --cloud north node-3 --cores 64")(on_cloud(resize))


def observe(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="An on-demand instance, known or not.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node that it runs on.")],
    flavor: Annotated[str, typer.Argument(metavar="FLAVOR", help="The flavor that it has.")],
    *,
    project: Annotated[str | None, typer.Option(metavar="ID", help="The project that it is for.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="The user who asked for it.")] = None,
    as_json: options.Json = False,
) -> None:
    """Say that an on-demand instance runs on a node. Spot instances there make room for it if need be."""
    with changing(f"explain {instance} --cloud {cloud}"):
        answer = client.observe_instance(cloud, instance, node, flavor, project=project, user=user)
    if as_json:
        print_json(json_of(answer))
        return
    before = "" if answer.former_node is None else f", and not as it was known to on {answer.former_node}"
    print_text(Text(f"{answer.id} runs on {node}{before}" if answer.changed else f"{answer.id}: nothing new"))
    if answer.capacity is not None:
        print_text(Text(f"{node} is larger than was known: it has {_capacity_in_words(answer.capacity)}"))
    _print_victims(answer.victims)


def abort(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="An instance that was accepted.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Say that an instance never ran, though it was accepted. It does not count as admitted."""
    with changing(f"explain {instance} --cloud {cloud}"):
        client.abort_instance(cloud, instance)
        now = client.instance(cloud, instance)
    if as_json:
        print_json({"id": instance, "aborted": now.aborted})
    else:
        ended = f"{instance} was {now.status}; nothing was changed"
        print_text(Text(f"{instance} does not run" if now.aborted else ended))


def resize(
    client: TenureClient,
    cloud: str,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.")],
    *,
    cores: Annotated[int, typer.Option(metavar="N", min=1, help="Its cores.")],
    memory: Annotated[int | None, typer.Option(metavar="MIB", min=0, help=f"Its memory in MiB; {_LEFT_OUT}")] = None,
    disk: Annotated[int | None, typer.Option(metavar="GIB", min=0, help=f"Its disk in GiB; {_LEFT_OUT}")] = None,
    as_json: options.Json = False,
) -> None:
    """Let a node have another capacity. Spot instances that do not fit in it are evicted, the youngest first.

    Memory and disk that are not named stay as they are.
    """
    with changing(f"status --cloud {cloud}"):
        answer = client.resize_node(cloud, node, cores, memory, disk)
    if as_json:
        print_json(json_of(answer))
        return
    print_text(Text(f"{node} has {_capacity_in_words(answer.capacity)}"))
    _print_victims(answer.victims)


def _capacity_in_words(capacity: ResourcesAnswer) -> str:
    memory = f"{capacity.memory_mib} MiB of memory" if capacity.memory_mib else "memory is not counted"
    disk = f"{capacity.disk_gib} GiB of disk" if capacity.disk_gib else "disk is not counted"
    return f"{capacity.cores} cores; {memory}; {disk}"


def _print_victims(victims: list[VictimAnswer]) -> None:
    if victims:
        print_text(Text(f"evicted: {', '.join(one.id for one in victims)}"))

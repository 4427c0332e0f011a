"""Commands that change what a cluster file wants: `cluster set`, `cluster drain`. A running manager follows at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from app.commands.changing import was_asked
from app.commands.options import Json
from app.commands.output import print_json, print_text
from app.domain.inputs import InputError
from app.managing.declared import change_file

File = Annotated[Path, typer.Argument(metavar="FILE", help="The cluster file, TOML. It is changed in place.")]
MaxNodes = Annotated[int | None, typer.Option("--max-nodes", metavar="N", help="Of all pools together.")]
Pools = Annotated[list[str] | None, typer.Option("--pool", metavar="NAME=N", help="Of one pool; may be repeated.")]
Undo = Annotated[bool, typer.Option("--undo", help="Let it buy nodes again.")]


def register(clusters: typer.Typer) -> None:
    """Add the commands."""
    clusters.command("set", epilog="Example: tenure cluster set example.toml --max-nodes 60 --pool spot=20")(set_)
    clusters.command(epilog="Example: tenure cluster drain example.toml")(drain)


def set_(*, file: File, max_nodes: MaxNodes = None, pool: Pools = None, as_json: Json = False) -> None:
    """Change how many nodes the cluster and its pools may have. Nodes beyond a smaller number go when they idle."""
    of_pools = dict(map(_pool_limit, pool or []))
    if max_nodes is None and not of_pools:
        raise InputError("say what to set: --max-nodes N, or --pool NAME=N")
    _change({} if max_nodes is None else {"max_nodes": max_nodes}, of_pools, file, as_json=as_json)


def _pool_limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (name and number.isascii() and number.isdecimal() and len(number) <= 6):
        raise InputError(f"--pool {text!r} is not NAME=N")
    return name, int(number)


def drain(*, file: File, undo: Undo = False, as_json: Json = False) -> None:
    """Buy no more nodes, and give each back when its jobs have ended. Jobs that wait stay in the queue."""
    _change({"drain": not undo}, {}, file, as_json=as_json)


def _change(scale: Mapping[str, int | bool], of_pools: Mapping[str, int], file: Path, *, as_json: bool) -> None:
    wanted = change_file(file, scale, of_pools)
    was_asked(f"cluster status {file}")
    limits = {pool.name: pool.max_nodes for pool in wanted.pools}
    if as_json:
        found = {"max_nodes": wanted.scale.max_nodes, "pools": limits, "drain": wanted.scale.drain}
        print_json({"name": wanted.name, **found})
        return
    drained = "; it is drained, so nothing is bought" if wanted.scale.drain else ""
    told = ", ".join(f"{name} {number}" for name, number in limits.items())
    print_text(Text(f"{wanted.name}: at most {wanted.scale.max_nodes} nodes ({told}){drained}"))

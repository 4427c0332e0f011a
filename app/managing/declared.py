"""The cluster file as the manager and the commands read it, and as commands change it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from app.clusters.rules.wanted import MOST_BYTES, ClusterWanted, cluster_of_toml
from app.domain.inputs import InputError
from app.managing.events import Events
from app.managing.files import put

_TABLE = re.compile(r"\s*\[\[?\s*([A-Za-z_]+)\s*\]\]?\s*(#.*)?")


def read_cluster(file: Path) -> ClusterWanted:
    """Return the cluster that a file describes. Raise InputError if it cannot be read or meant."""
    try:
        return cluster_of_toml(_text(file))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1).decode()
    except OSError as error:
        raise InputError(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise InputError("it is no text in UTF-8") from None


# --- changing ---------------------------------------------------------------------------------------------------------


def change_file(file: Path, scale: Mapping[str, int | bool], max_nodes: Mapping[str, int]) -> ClusterWanted:
    """Set values of `scale`, and `max_nodes` of pools by name, in a cluster file; return what it describes then.

    All else stays as it is written. The file is replaced as a whole, or stays. Raise InputError if there is no such
    pool, if the values make no sense, or if the file is written in another way than by tables with a value a line.
    """
    old, lines = read_cluster(file), _text(file).splitlines()
    if unknown := max_nodes.keys() - {pool.name for pool in old.pools}:
        there = ", ".join(pool.name for pool in old.pools)
        raise InputError(f"{file}: no such pool: {', '.join(sorted(unknown))}; there are {there}")
    for name, value in scale.items():
        lines = _with_value(lines, "scale", "", name, value)
    for pool, number in max_nodes.items():
        lines = _with_value(lines, "pools", pool, "max_nodes", number)
    wanted = _changed(old, scale, max_nodes)
    text = "\n".join(lines) + "\n"
    try:
        is_meant = cluster_of_toml(text) == wanted
    except InputError:
        is_meant = False
    if not is_meant:
        raise InputError(f"{file}: it is not written by tables with a value a line: change it yourself")
    _put(file.resolve(), text)
    return wanted


def _changed(old: ClusterWanted, scale: Mapping[str, int | bool], max_nodes: Mapping[str, int]) -> ClusterWanted:
    """Return the cluster with other values. Raise InputError if they make no sense."""
    pools = tuple(replace(pool, max_nodes=max_nodes.get(pool.name, pool.max_nodes)) for pool in old.pools)
    wanted = replace(old, scale=replace(old.scale, **scale), pools=pools)  # type: ignore[arg-type]
    wanted.scale.check()
    for pool in pools:
        pool.check()
    return wanted


def _with_value(lines: list[str], table: str, pool: str, key: str, value: int | bool) -> list[str]:  # noqa: FBT001
    """Return the lines with a value in a table, or in that of a pool; whoever calls tries what became of them."""
    told = f"{key} = {str(value).lower()}"
    value_line = re.compile(rf"\s*{key}\s*=[^#]*")
    name_line = re.compile(rf"""\s*name\s*=\s*["']{pool}["']\s*(#.*)?""")
    for begin, end in _tables(lines, table):
        if pool and not any(map(name_line.fullmatch, lines[begin:end])):
            continue
        for at in range(begin, end):
            if found := value_line.match(lines[at]):
                rest = lines[at][found.end() :]
                return [*lines[:at], f"{told}  {rest}".rstrip(), *lines[at + 1 :]]
        return [*lines[: begin + 1], told, *lines[begin + 1 :]]
    first = next((at for at, line in enumerate(lines) if _TABLE.fullmatch(line)), len(lines))
    return [*lines[:first], f"[{table}]", told, *lines[first:]]


def _tables(lines: list[str], name: str) -> Iterator[tuple[int, int]]:
    """Yield from where to where the tables of a name go."""
    begins = [at for at, line in enumerate(lines) if _TABLE.fullmatch(line)]
    for begin, end in pairwise([*begins, len(lines)]):
        found = _TABLE.fullmatch(lines[begin])
        if found and found[1] == name:
            yield begin, end


def _put(place: Path, text: str) -> None:
    """Replace a file, so that whoever reads it sees all of the change or nothing of it."""
    try:
        found = place.stat()
        put(place, text, mode=found.st_mode & 0o7777, owner=(found.st_uid, found.st_gid), is_durable=True)
    except OSError as error:
        raise InputError(str(error)) from None


# --- following --------------------------------------------------------------------------------------------------------


class Declared:
    """The cluster that the file wants now. The manager asks each round, and the file is read when it has changed."""

    def __init__(self, file: Path, wanted: ClusterWanted, events: Events) -> None:
        self._file, self._wanted, self._events = file, wanted, events
        self._version: tuple[int, ...] = ()

    def now(self) -> ClusterWanted:
        """Return what is wanted now. A file that cannot be followed is told once, and what was wanted before stays."""
        try:
            found = self._file.stat()
        except OSError:
            return self._wanted
        version = found.st_mtime_ns, found.st_size, found.st_ino
        if version != self._version:
            self._version = version
            self._follow()
        return self._wanted

    def _follow(self) -> None:
        try:
            new = _followed(self._wanted, read_cluster(self._file))
        except InputError as error:
            self._events.write("file_refused", why=str(error))
            return
        if new != self._wanted:
            limits = {pool.name: pool.max_nodes for pool in new.pools}
            self._events.write("file_followed", max_nodes=new.scale.max_nodes, pools=limits, drain=new.scale.drain)
        self._wanted = new


def _followed(old: ClusterWanted, new: ClusterWanted) -> ClusterWanted:
    """Return the new one, if a manager that runs can follow it: the nodes that are there must stay their pools' own."""
    limits = ("max_nodes", "lifetime_s", "min_lease_s", "eviction_probability")
    alike = tuple(
        replace(pool, **{name: getattr(before, name) for name in limits})
        for pool, before in zip(new.pools, old.pools, strict=False)
    )
    if len(new.pools) != len(old.pools) or replace(new, scale=old.scale, pools=alike) != old:
        raise InputError("only scale and limits of pools change while the manager runs; start it again for the rest")
    return new

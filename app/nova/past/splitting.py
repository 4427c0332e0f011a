"""Rules by which a server of Nova's becomes stretches, each with one size on one host (docs/openstack.md)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from app.domain.servers import ServerStretch, StretchEnd
from app.domain.times import SECOND_US
from app.domain.values import Resources
from app.nova.rules.sizes import demand_of, is_spot, plain_name


class ServerMark(StrEnum):
    """An event of a server after which its stretch ends, or the time in its row is no longer that of its first start.

    The values are Nova's names. Nova sets `launched_at` anew at each of them but the first two.
    """

    SHELVED = "compute_shelve_instance"
    OFFLOADED = "compute_shelve_offload_instance"
    UNSHELVED = "compute_unshelve_instance"
    RESIZED = "compute_finish_resize"
    RESIZED_BY_SNAPSHOT = "compute_finish_snapshot_based_resize_at_dest"
    REVERTED = "compute_finish_revert_resize"
    REVERTED_BY_SNAPSHOT = "compute_finish_revert_snapshot_based_resize_at_source"
    REBUILT = "compute_rebuild_instance"
    RESCUED = "compute_rescue_instance"


_RESIZES = (ServerMark.RESIZED, ServerMark.RESIZED_BY_SNAPSHOT)
_REVERTS = (ServerMark.REVERTED, ServerMark.REVERTED_BY_SNAPSHOT)
_LEAVE = (ServerMark.SHELVED, ServerMark.OFFLOADED)


class NovaFlavor(NamedTuple):
    """A flavor's size, its name in Tenure if it is known, and True if it is sold as spot."""

    size: Resources
    name: str | None = None
    is_spot: bool = False


class NovaServer(NamedTuple):
    """A server's row. `size` is the one at its end; `ended_us` None: it is not deleted."""

    uuid: str
    size: Resources
    created_us: int
    launched_us: int | None
    ended_us: int | None
    host: str | None
    state: str
    flavor_id: int | None = None


class SizeChange(NamedTuple):
    """A change of a server's flavor that was begun at a time, by Nova's numbers of flavors."""

    at_us: int
    old: int | None
    new: int | None


def flavor_of(text: str | None, size: Resources) -> NovaFlavor:
    """Return a flavor from what Nova keeps of it beside a server, as JSON; without that, the size alone."""
    try:
        kept = json.loads(text or "")["cur"]["nova_object.data"]
        words = {"vcpus": kept["vcpus"], "ram": kept["memory_mb"], "disk": kept["root_gb"]}
        words |= {"ephemeral": kept["ephemeral_gb"], "swap": kept["swap"]}
        if any(type(told) is not int for told in words.values()):
            return NovaFlavor(size)
        return flavor_by_words(words, str(kept["name"]), kept.get("extra_specs") or {}) or NovaFlavor(size)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return NovaFlavor(size)


def flavor_by_words(words: Mapping[str, Any], name: str, specs: Mapping[str, str]) -> NovaFlavor | None:
    """Return a flavor in the words of Nova's interface; None if Tenure has no flavor of such a size."""
    size = demand_of(words)
    return None if size is None else NovaFlavor(size, plain_name(name, specs), is_spot(specs))


def never_ran(server: NovaServer) -> StretchEnd | None:
    """Return the reason for which a server never ran; None if it did."""
    if server.launched_us is not None:
        return None
    return StretchEnd.UNPLACED if server.host is None and server.state == "error" else StretchEnd.FAILED


def stretches_of(
    server: NovaServer,
    marks: Sequence[tuple[int, ServerMark]],
    changes: Sequence[SizeChange],
    flavors: Mapping[int, NovaFlavor],
) -> list[ServerStretch]:
    """Return the stretches of a server, in order. Marks and changes are sorted by time.

    Nova drops the fractions of a second in the row of a server, and keeps those of events. A server whose row has a
    time before 1970 is one stretch with these times, which is not possible.
    """
    times = server.created_us, server.launched_us, server.ended_us
    if min(at_us for at_us in times if at_us is not None) < 0:
        return [ServerStretch(server.uuid, 1, server.size, *times, StretchEnd.DELETED)]
    failed = never_ran(server)
    if failed is not None:
        row = server.uuid, 1, server.size, server.created_us, None, server.ended_us, failed
        return [_with_flavor(ServerStretch(*row, host=server.host), flavors.get(server.flavor_id or -1))]
    began_us = server.created_us if any(mark not in _LEAVE for _, mark in marks) else server.launched_us
    walk = _Walk(server, began_us or server.created_us, changes)
    for at_us, mark in marks:
        if server.ended_us is None or at_us // SECOND_US <= server.ended_us // SECOND_US:
            walk.take(at_us, mark)
    return walk.end(flavors)


class _Walk:
    """The way of a server through its marks: where each stretch began and ended, and with which flavor."""

    def __init__(self, server: NovaServer, began_us: int, changes: Sequence[SizeChange]) -> None:
        self._server = server
        self._changes = [change for change in changes if change.old != change.new]
        self._times = [change.at_us for change in self._changes]
        self._began_us: int | None = began_us
        self._shelved_us: int | None = None
        self._done: list[tuple[int, int, StretchEnd, int | None]] = []
        self._flavor_id = self._changes[0].old if self._changes else server.flavor_id

    def take(self, at_us: int, mark: ServerMark) -> None:
        """Go on to the next mark."""
        if mark is ServerMark.SHELVED:
            self._shelved_us = at_us
        elif mark is ServerMark.OFFLOADED:
            self._close(at_us, StretchEnd.SHELVED)
        elif mark is ServerMark.UNSHELVED:
            self._close(self._shelved_us or at_us, StretchEnd.SHELVED)
            self._began_us, self._shelved_us = at_us, None
        elif mark in _RESIZES or mark in _REVERTS:
            self._resize(at_us, is_revert=mark in _REVERTS)

    def end(self, flavors: Mapping[int, NovaFlavor]) -> list[ServerStretch]:
        """Close the last stretch, and return all."""
        server = self._server
        if server.state == "shelved_offloaded" and server.ended_us is None and self._shelved_us is not None:
            self._close(self._shelved_us, StretchEnd.SHELVED)
        if self._began_us is not None and server.ended_us is not None:
            self._close(server.ended_us, StretchEnd.DELETED)
        rows: list[tuple[int, int | None, StretchEnd, int | None]] = [*self._done]
        if self._began_us is not None:
            rows.append((self._began_us, None, StretchEnd.RUNNING, server.flavor_id))
        return [self._stretch(part, row, flavors, is_last=part == len(rows)) for part, row in enumerate(rows, 1)]

    def _resize(self, at_us: int, *, is_revert: bool) -> None:
        place = bisect_right(self._times, at_us)
        if not place:
            return
        change = self._changes[place - 1]
        flavor_id = change.old if is_revert else change.new
        if flavor_id == self._flavor_id:
            return
        if self._began_us is not None:
            self._close(at_us, StretchEnd.RESIZED)
            self._began_us = at_us
        self._flavor_id = flavor_id

    def _close(self, at_us: int, end: StretchEnd) -> None:
        if self._began_us is not None:
            self._done.append((self._began_us, max(at_us, self._began_us), end, self._flavor_id))
        self._began_us = None

    def _stretch(
        self,
        part: int,
        row: tuple[int, int | None, StretchEnd, int | None],
        flavors: Mapping[int, NovaFlavor],
        *,
        is_last: bool,
    ) -> ServerStretch:
        server, (began_us, ended_us, end, flavor_id) = self._server, row
        flavor = flavors.get(flavor_id if flavor_id is not None else -1)
        size = server.size if is_last or flavor is None else flavor.size
        known = is_last or flavor is not None
        stretch = ServerStretch(server.uuid, part, size, server.created_us, began_us, ended_us, end, size_known=known)
        return _with_flavor(stretch._replace(host=server.host if is_last else None), flavor)


def _with_flavor(stretch: ServerStretch, flavor: NovaFlavor | None) -> ServerStretch:
    """Name the flavor, if the stretch has its size."""
    if flavor is None:
        return stretch
    name = flavor.name if flavor.size == stretch.size else None
    return stretch._replace(flavor=name, is_spot=flavor.is_spot)

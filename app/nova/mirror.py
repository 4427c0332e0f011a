"""The servers as Nova last told of them, and how new that is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from threading import Lock

from app.nova.rules.seen import Server

OVERLAP_S = 5.0
"""Each poll asks again for so much of the time before: Nova's processes write their changes by their own clocks."""
_DELETED = "DELETED"
_BUILD = "BUILD"
_REMEMBERED = timedelta(minutes=10)


class Mirror:
    """A copy of Nova's list. What a poll of changes does not name has not changed. Threads may share it."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._servers: dict[str, Server] = {}
        self._newest = datetime(2000, 1, 1, tzinfo=UTC)
        self.fresh_at = self._newest

    def __len__(self) -> int:
        return len(self._servers)

    def since(self) -> datetime:
        """Return the time of Nova's from which on changes are to be asked for."""
        return self._newest - timedelta(seconds=OVERLAP_S)

    def replace(self, servers: Iterable[Server], asked_at: datetime) -> set[str]:
        """Take the whole list; return the ids that are not in it any more, and were not seen deleted.

        Those deleted lately are remembered.
        """
        fresh = {server.id: server for server in servers}
        with self._changing:
            lost = self._servers.keys() - fresh.keys()
            deleted = {one: self._servers[one] for one in lost if self._servers[one].status == _DELETED}
            kept = {one: row for one, row in deleted.items() if asked_at - row.updated_at < _REMEMBERED}
            self._servers = {**fresh, **kept}
            self._took(fresh.values(), asked_at)
        return lost - deleted.keys()

    def take(self, changed: Iterable[Server], asked_at: datetime) -> set[str]:
        """Take changed servers; return the ids of those that are not as they were."""
        with self._changing:
            found = [one for one in changed if self._servers.get(one.id) != one]
            self._servers |= {one.id: one for one in found}
            self._took(found, asked_at)
        return {one.id for one in found}

    def unplaced(self) -> set[str]:
        """Return the ids of servers that are being built and have no node. Some are in no cell yet.

        Changes do not name one that is deleted then: Nova keeps no row of it.
        """
        with self._changing:
            return {one.id for one in self._servers.values() if one.status == _BUILD and one.node is None}

    def drop(self, servers: Iterable[str]) -> None:
        """Forget servers that are not as they were, so that Nova is asked for them."""
        with self._changing:
            for one in servers:
                self._servers.pop(one, None)

    def put(self, server: Server) -> None:
        """Take one server that was asked for by itself."""
        with self._changing:
            self._servers[server.id] = server

    def get(self, server: str) -> tuple[Server | None, datetime]:
        """Return a server, None if it is not known, and the time at which that was surely so."""
        with self._changing:
            return self._servers.get(server), self.fresh_at

    def all(self) -> list[Server]:
        """Return all servers."""
        with self._changing:
            return [*self._servers.values()]

    def _took(self, servers: Iterable[Server], asked_at: datetime) -> None:
        self._newest = max([self._newest, *(one.updated_at for one in servers)])
        self.fresh_at = asked_at

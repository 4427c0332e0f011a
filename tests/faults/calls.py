"""One request to one process, written down; and the way in which a client goes on where the answer leaves it open."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from faults.record import NO_CONNECTION, Attempt, Record
from faults.stage import TOKEN

Asked = Mapping[str, Any]
HEADERS = {"X-Auth-Token": TOKEN}

TIMEOUT = httpx2.Timeout(4.0, connect=1.0)
_TRIES = 12
_RETRY_AFTER = frozenset({NO_CONNECTION, 429, 503})
NOT_REPEATED = frozenset({"remove_node", "drill"})
"""Calls that would be done twice, or be refused the second time: tried again only if they surely were not taken."""


def _path(template: str) -> Callable[[Asked], str]:
    return lambda asked: template.format(**asked)


ROUTES: Mapping[str, tuple[str, Callable[[Asked], str], str]] = {
    "start": ("POST", _path("instances"), "body"),
    "stop": ("DELETE", _path("instances/{id}"), ""),
    "extend": ("POST", _path("instances/{id}/extend"), "rest"),
    "move": ("POST", _path("instances/{id}/move"), "rest"),
    "batch": ("POST", _path("batch"), "body"),
    "confirm": ("POST", _path("handovers/{id}/confirm"), ""),
    "drill": ("POST", _path("drill"), "body"),
    "add_node": ("POST", _path("nodes"), "body"),
    "drain_node": ("POST", _path("nodes/{name}/drain"), ""),
    "open_node": ("POST", _path("nodes/{name}/open"), ""),
    "remove_node": ("DELETE", _path("nodes/{name}"), ""),
    "add_flavor": ("POST", _path("flavors"), "body"),
    "change_policy": ("PATCH", _path(""), "body"),
    "show_cloud": ("GET", _path(""), ""),
    "show_instance": ("GET", _path("instances/{id}"), ""),
    "list_running": ("GET", _path("instances?status=running&limit=1000"), ""),
    "list_nodes": ("GET", _path("nodes?limit=1000"), ""),
    "list_handovers": ("GET", _path("handovers?limit=1000"), ""),
    "list_events": ("GET", _path("events?after_seq={after_seq}&limit={limit}"), ""),
}
"""By what is asked: the method, the path below the cloud, and whether what is asked is the body, or the rest of it."""


class Caller:
    """Sends requests to the API processes by name, and keeps the record."""

    def __init__(self, urls: Mapping[str, str], record: Record, http: httpx2.AsyncClient, rng: random.Random) -> None:
        self.urls = urls
        self.rng = rng
        self.stopping = False
        self._record = record
        self._http = http

    def anyone(self) -> str:
        """A process at random."""
        return self.rng.choice(list(self.urls))

    async def ask(self, process: str, cloud: str, what: str, asked: Asked) -> Attempt:
        """One attempt, with its answer or without."""
        method, path, kind = ROUTES[what]
        url = f"{self.urls[process]}/v1/clouds/{cloud}/{path(asked)}".rstrip("/")
        attempt = self._record.begin(what, cloud, process, asked, time.monotonic())
        status, answer = None, None
        try:
            inside = {name: value for name, value in asked.items() if kind == "body" or name != "id"}
            body = {"json": inside} if kind else {}
            response = await self._http.request(method, url, headers=HEADERS, **body)
            status, answer = response.status_code, response.json() if response.content else None
        except httpx2.ConnectError as error:
            status, answer = NO_CONNECTION, repr(error)
        except httpx2.HTTPError as error:
            answer = repr(error)
        except ValueError:  # no JSON
            answer = response.text[:500]
        finally:
            self._record.end(attempt, time.monotonic(), status, answer)
        return attempt

    async def settle(self, process: str, cloud: str, what: str, asked: Asked) -> Attempt:
        """Ask until the answer is known, as docs/client.md tells clients to; after a failure mostly another process."""
        attempt = await self.ask(process, cloud, what, asked)
        for tries in range(_TRIES):
            if not self._tries_again(attempt) or self.stopping:
                break
            await asyncio.sleep(self.rng.uniform(0.05, 0.2) * (tries + 1))
            attempt = await self.ask(process if tries % 3 == 2 else self.anyone(), cloud, what, asked)
        return attempt

    def _tries_again(self, attempt: Attempt) -> bool:
        if attempt.what in NOT_REPEATED and attempt.is_unknown:
            return False
        return attempt.is_unknown or attempt.status in _RETRY_AFTER

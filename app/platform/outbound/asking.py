"""Requests to services of other organisations, with answers in JSON: bounded in time and size, without redirects.

Each goes to a checked address (`addresses`), over a connection that is kept for some seconds after an answer. The
service that is asked is not trusted: its answer is read no further than a bound, and what is no JSON object is no
answer. Whoever asks must bear that a request arrives twice: one over a kept connection that turns out to have ended is
sent again over a new one.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import h11

from app import __version__
from app.domain.errors import WebhookRefused
from app.platform.outbound.addresses import AddressRefused, Target, read_url, resolve
from app.platform.outbound.authorities import trusted
from app.platform.outbound.connection import Destination, NoAnswer
from app.platform.outbound.wires import KeptWires, Wire, WireKey

_RESOLVERS = 64
"""The names that are looked up at a time; of those whose name servers hang, each takes one thread."""
_LONGEST_NUMBER = 9


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A request: `place` is the other service by name, `token` what proves who asks."""

    place: str
    method: str
    url: str
    token: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The status and the JSON object of an answer; it is empty where there is none.

    `retry_after_s`: when to ask again, if it says so in whole seconds.
    """

    status: int
    body: Mapping[str, Any]
    retry_after_s: int | None = None


class Asker:
    """Asks other services. `at_once`: the requests to one service under way; so a slow one costs others nothing."""

    def __init__(self, *, timeout_s: float, allow_private: bool, at_once: int, most_bytes: int) -> None:
        self._timeout_s, self._allow_private, self._most_bytes = timeout_s, allow_private, most_bytes
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolve-peers")
        self._resolving: dict[WireKey, asyncio.Task[str]] = {}
        self._trusted = trusted()
        self._wires = KeptWires()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._wires.close()
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def ask(self, inquiry: Inquiry) -> Reply:
        """Return the answer. Raise NoAnswer if there is none in time that can be read."""
        async with self._places[inquiry.place]:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._asked(inquiry)
            except TimeoutError as error:
                raise NoAnswer(f"no answer within {self._timeout_s:g} s") from error
            except (AddressRefused, WebhookRefused) as error:
                raise NoAnswer(str(error)) from error
            except (OSError, h11.RemoteProtocolError) as error:
                raise NoAnswer("no connection could be made, or what came over it was no HTTP") from error

    async def _asked(self, inquiry: Inquiry) -> Reply:
        target = read_url(inquiry.url, allow_private=self._allow_private)
        body = b"" if inquiry.body is None else json.dumps(inquiry.body).encode()
        head = _head(inquiry, target, len(body))
        key = inquiry.place, target.scheme, target.host, target.port
        kept = self._wires.take(key)
        if kept is not None:
            try:
                return await self._over(kept, key, head, body)
            except (OSError, h11.RemoteProtocolError):  # it has ended meanwhile, as connections without requests do
                pass
        return await self._over(await Wire.open(await self._destination(target, key)), key, head, body)

    async def _destination(self, target: Target, key: WireKey) -> Destination:
        """Return where to connect. Those who ask for a name that is being looked up wait for the same answer."""
        if key not in self._resolving:
            asked = asyncio.create_task(resolve(target, self._resolvers, allow_private=self._allow_private))
            self._resolving[key] = asked
            asked.add_done_callback(lambda _: self._resolved(key))
        address = await asyncio.shield(self._resolving[key])
        return Destination(address, target.port, target.host, self._trusted if target.scheme == "https" else None)

    def _resolved(self, key: WireKey) -> None:
        asked = self._resolving.pop(key)
        if not asked.cancelled():
            asked.exception()  # taken, so that it is no error where nobody waits any more

    async def _over(self, wire: Wire, key: WireKey, head: h11.Request, body: bytes) -> Reply:
        """Ask over a connection, and keep it if the answer leaves it as it was before."""
        try:
            told, found = await wire.exchange(head, body, self._most_bytes)
        except BaseException:
            wire.close()
            raise
        self._wires.keep(key, wire)
        return Reply(told.status_code, _object(found), _retry_after_s(told))


def _head(inquiry: Inquiry, target: Target, length: int) -> h11.Request:
    headers = {
        "host": target.authority,
        "user-agent": f"tenure/{__version__}",
        "accept": "application/json",
        "content-type": "application/json",
        "x-auth-token": inquiry.token,
        "content-length": str(length),
    }
    return h11.Request(method=inquiry.method, target=target.path, headers=[*headers.items()])


def _retry_after_s(told: h11.Response) -> int | None:
    value = next((value for name, value in told.headers if name == b"retry-after"), b"")
    return int(value) if value.isdigit() and len(value) <= _LONGEST_NUMBER else None


def _object(found: bytes) -> Mapping[str, Any]:
    if not found:
        return {}
    try:
        read = json.loads(found)
    except (ValueError, RecursionError) as error:
        raise NoAnswer("the answer is no JSON") from error
    if not isinstance(read, dict):
        raise NoAnswer("the answer is no JSON object")
    return read

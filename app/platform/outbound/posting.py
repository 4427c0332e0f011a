"""Sends one message to one receiver: bounded in time, without redirects, to a checked address.

Receivers and their name servers may be slow. Each cloud has a number of places of its own, so its receivers do not
delay those of others, and names are resolved by threads that nothing else uses.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Self

from app import __version__
from app.domain.errors import WebhookRefused
from app.platform.outbound.addresses import AddressRefused, Target, read_url, resolve
from app.platform.outbound.authorities import trusted
from app.platform.outbound.connection import Destination, NoAnswer, status_of
from app.platform.outbound.messages import Message, signed_headers

_ERROR_MAX = 300
_AGENT = f"tenure/{__version__}"
_RESOLVERS = 32
_RESOLVED_AT_ONCE = 2
"""Names resolved at once for one cloud. One without answer occupies a thread until the system gives up."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receiver's answer: the status, or why there was none."""

    status: int | None
    error: str | None

    @property
    def taken(self) -> bool:
        """True if the receiver accepted the message."""
        return self.status is not None and HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class Poster:
    """Sends messages. `at_once` is the number of messages of one cloud under way; `now` is the clock."""

    def __init__(self, *, timeout_s: float, allow_private: bool, at_once: int, now: Callable[[], datetime]) -> None:
        self._timeout_s = timeout_s
        self._allow_private = allow_private
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self._resolving: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_RESOLVED_AT_ONCE))
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolve")
        self._now = now
        self._trusted = trusted()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def post(self, cloud: str, url: str, secret: str, message: Message) -> Receipt:
        """Send a cloud's message and return the receipt. Never raises because of the receiver."""
        async with self._places[cloud]:
            try:
                async with asyncio.timeout(self._timeout_s):
                    target = read_url(url, allow_private=self._allow_private)
                    return await self._send(target, await self._resolve(cloud, target), secret, message)
            except TimeoutError:
                return Receipt(None, f"no answer within {self._timeout_s:g} s")
            except (AddressRefused, WebhookRefused, NoAnswer) as error:
                return Receipt(None, str(error)[:_ERROR_MAX])

    async def _resolve(self, cloud: str, target: Target) -> str:
        """Return the address of the name. The cloud's place is taken until the thread ends, even if nobody waits."""
        turn = self._resolving[cloud]
        await turn.acquire()
        asked = asyncio.ensure_future(resolve(target, self._resolvers, allow_private=self._allow_private))
        asked.add_done_callback(lambda _: turn.release())
        return await asyncio.shield(asked)

    async def _send(self, target: Target, address: str, secret: str, message: Message) -> Receipt:
        signed = signed_headers(message, secret, self._now())
        place = Destination(address, target.port, target.host, self._trusted if target.scheme == "https" else None)
        status = await status_of(
            place, target.path, {"host": target.authority, "user-agent": _AGENT, **signed}, message.body
        )
        receipt = Receipt(status, None)
        return receipt if receipt.taken else Receipt(status, f"answered {status}")

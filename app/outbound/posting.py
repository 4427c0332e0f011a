"""Sending one message to one receiver: bounded in time, without redirects, to an address that was looked at."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Self

import httpx2

from app import __version__
from app.domain.errors import WebhookRefused
from app.outbound.addresses import AddressRefused, Target, read_url, resolve
from app.outbound.messages import Message, signed_headers

_ERROR_MAX = 300
_AGENT = f"tenure/{__version__}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """How a receiver answered: the status, or why there was none."""

    status: int | None
    error: str | None

    @property
    def taken(self) -> bool:
        """Whether it has the message."""
        return self.status is not None and HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class Poster:
    """See the module's docstring. `now` is the server's clock."""

    def __init__(self, *, timeout_s: float, allow_private: bool, at_once: int, now: Callable[[], datetime]) -> None:
        self._timeout_s = timeout_s
        self._allow_private = allow_private
        self._room = asyncio.Semaphore(at_once)
        self._now = now
        # No proxy of the environment comes between: it would resolve the name anew. No connection is kept: it would be
        # found again by its address, whatever name its certificate was checked for. Nor is a cookie: all receivers at
        # an address would be sent those of each.
        self._http = httpx2.AsyncClient(
            verify=_trusted(),
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=False,
            limits=httpx2.Limits(max_keepalive_connections=0),
            headers={"user-agent": _AGENT},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def post(self, url: str, secret: str, message: Message) -> Receipt:
        """Send it, and tell what came of that; never raises because of the receiver."""
        async with self._room:
            try:
                async with asyncio.timeout(self._timeout_s):
                    target = read_url(url, allow_private=self._allow_private)
                    address = await resolve(target, allow_private=self._allow_private)
                    return await self._send(target, address, secret, message)
            except TimeoutError:
                return Receipt(None, f"no answer within {self._timeout_s:g} s")
            except (AddressRefused, WebhookRefused, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                return Receipt(None, (str(error) or type(error).__name__)[:_ERROR_MAX])

    async def _send(self, target: Target, address: str, secret: str, message: Message) -> Receipt:
        host = f"[{address}]" if ":" in address else address
        headers = {**signed_headers(message, secret, self._now()), "host": target.authority}
        request = self._http.build_request(
            "POST",
            f"{target.scheme}://{host}:{target.port}{target.path}",
            content=message.body,
            headers=headers,
            extensions={"sni_hostname": target.host, "timeout": httpx2.Timeout(self._timeout_s).as_dict()},
        )
        response = await self._http.send(request, stream=True)
        try:  # the answer's body is nobody's business, however long it is
            taken = response.is_success
            return Receipt(response.status_code, None if taken else f"answered {response.status_code}")
        finally:
            await response.aclose()


def _trusted() -> ssl.SSLContext:
    """The system's authorities, or those of the environment in their place. OSError where they cannot be read."""
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        raise OSError(f"SSL_CERT_FILE or SSL_CERT_DIR holds no authorities that can be read: {error}") from error

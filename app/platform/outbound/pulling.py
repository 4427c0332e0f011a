"""Objects of other organisations, pulled into a file by links that read: bounded in size, without redirects.

The store that is asked is not trusted. A connection goes to a checked address, and to no other host than the link
names; not a byte more is read than was declared. What has come stays in the file, and the next try asks for the rest.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Self

import h11

from app import __version__
from app.domain.errors import WebhookRefused
from app.domain.jobs import DataFault
from app.platform.outbound.addresses import AddressRefused, Target, read_url, resolve
from app.platform.outbound.authorities import trusted
from app.platform.outbound.connection import INFORMATIONAL_MAX

_READ = 256 * 1024
_SILENT_S = 15.0
_RESOLVERS = 4
_WHOLE, _PART = 200, 206
_FAULTS = {404: DataFault.MISSING, 410: DataFault.MISSING, 401: DataFault.LINK, 403: DataFault.LINK}
_RANGE = re.compile(rb"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class PullFault(Exception):
    """An object did not come, or not all of it."""

    def __init__(self, fault: DataFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class Throttle:
    """A bound on bytes per second of all pulls together; 0: there is none."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s, self._free_s = bytes_per_s, 0.0

    async def pass_through(self, count: int) -> None:
        """Wait until so many bytes may have come."""
        if self._bytes_per_s:
            self._free_s = max(self._free_s, monotonic()) + count / self._bytes_per_s
            await asyncio.sleep(max(self._free_s - monotonic(), 0.0))


@dataclass(frozen=True, slots=True)
class Pull:
    """An object to pull: its link, the file that it comes into, and its size in bytes."""

    url: str
    path: Path
    size: int


class Puller:
    """Pulls objects. `allow_private`: stores may be at private addresses, and without TLS.

    `reserve`: so many bytes of the disk that they come to are left to others, which may be a database.
    """

    def __init__(self, *, allow_private: bool, bytes_per_s: int, reserve: int = 0) -> None:
        self._reserve = reserve
        self._allow_private, self._throttle = allow_private, Throttle(bytes_per_s)
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolve-stores")
        self._trusted = trusted()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def pull(self, wanted: Pull, came: Callable[[int], None]) -> None:
        """Bring the rest of an object into its file; `came` is told of each piece. Raises PullFault."""
        have = wanted.path.stat().st_size if wanted.path.exists() else 0
        if have > wanted.size:
            wanted.path.unlink()
            have = 0
        if have == wanted.size and wanted.path.exists():
            return
        self._check_room(wanted.path.parent, wanted.size - have)
        try:
            await self._pulled(wanted, have, came)
        except (AddressRefused, WebhookRefused, TimeoutError, h11.RemoteProtocolError, ConnectionError) as error:
            raise PullFault(DataFault.UNREACHABLE) from error
        except ssl.SSLError as error:
            raise PullFault(DataFault.UNREACHABLE) from error

    def _check_room(self, folder: Path, size: int) -> None:
        if shutil.disk_usage(folder).free < size + self._reserve:
            raise PullFault(DataFault.SPOOL)

    async def _pulled(self, wanted: Pull, have: int, came: Callable[[int], None]) -> None:
        target = read_url(wanted.url, allow_private=self._allow_private)
        reader, writer = await self._connected(target)
        try:
            http = h11.Connection(h11.CLIENT)
            writer.write(http.send(_head(target, have)) or b"")
            writer.write(http.send(h11.EndOfMessage()) or b"")
            await self._taken(reader, http, wanted, have, came)
        finally:
            writer.transport.abort()

    async def _connected(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = self._trusted if target.scheme == "https" else None
        async with asyncio.timeout(_SILENT_S):
            address = await resolve(target, self._resolvers, allow_private=self._allow_private)
            name = None if tls is None else target.host
            try:
                return await asyncio.open_connection(address, target.port, ssl=tls, server_hostname=name)
            except OSError as error:
                raise PullFault(DataFault.UNREACHABLE) from error

    async def _taken(
        self, reader: asyncio.StreamReader, http: h11.Connection, wanted: Pull, have: int, came: Callable[[int], None]
    ) -> None:
        """Read the answer to its end, and write what comes."""
        informational = 0
        with wanted.path.open("ab") as file:
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    async with asyncio.timeout(_SILENT_S):
                        http.receive_data(await reader.read(_READ))
                elif isinstance(event, h11.Response):
                    _check(event, wanted.size, have)
                elif isinstance(event, h11.Data):
                    have += len(event.data)
                    if have > wanted.size:
                        raise PullFault(DataFault.SIZE)
                    self._check_room(wanted.path.parent, len(event.data))  # others come at the same time
                    _write(file.write, bytes(event.data))
                    came(len(event.data))
                    await self._throttle.pass_through(len(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    if have != wanted.size:
                        raise PullFault(DataFault.SIZE)
                    return
                elif isinstance(event, h11.InformationalResponse) and informational < INFORMATIONAL_MAX:
                    informational += 1
                else:
                    raise PullFault(DataFault.UNREACHABLE)


def _write(write: Callable[[bytes], object], data: bytes) -> None:
    try:
        write(data)
    except OSError as error:
        raise PullFault(DataFault.SPOOL) from error


def _head(target: Target, have: int) -> h11.Request:
    headers = {"host": target.authority, "user-agent": f"tenure/{__version__}", "accept-encoding": "identity"}
    if have:
        headers["range"] = f"bytes={have}-"
    return h11.Request(method="GET", target=target.path, headers=[*headers.items()])


def _check(told: h11.Response, size: int, have: int) -> None:
    """Raise PullFault unless the answer is the wanted rest of an object of the declared size.

    It must not come in chunks, for these may be a byte each, and every one costs the event loop time.
    """
    if told.status_code in _FAULTS:
        raise PullFault(_FAULTS[told.status_code])
    headers = dict(told.headers)
    if b"transfer-encoding" in headers:
        raise PullFault(DataFault.UNREACHABLE)
    if have and told.status_code == _PART:
        part = _RANGE.fullmatch(headers.get(b"content-range", b""))
        if part is None or tuple(map(int, part.groups())) != (have, size - 1, size):
            raise PullFault(DataFault.SIZE)
        return
    if have or told.status_code != _WHOLE:
        raise PullFault(DataFault.UNREACHABLE)
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or int(length[:19]) != size:
        raise PullFault(DataFault.SIZE)

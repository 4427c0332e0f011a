"""Where the service may be made to send: http and https, and no private network unless that is allowed.

Whoever may create a webhook chooses where this service sends requests from inside its network. So a name is resolved
here, all of its addresses are looked at, and the request goes to the very address that was looked at: a name that
changes its mind between the look and the request gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from app.domain.errors import WebhookRefused

URL_MAX = 2000
_PORTS = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """The name leads to an address that nothing is sent to, or to none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL taken apart."""

    scheme: str
    host: str
    port: int
    path: str
    authority: str


def read_url(url: str, *, allow_private: bool) -> Target:
    """The URL's parts; WebhookRefused where nothing could be sent there."""
    if len(url) > URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise WebhookRefused(f"the URL must be at most {URL_MAX} printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise WebhookRefused(f"this is not a URL: {error}") from error
    _check_parts(parts)
    host = parts.hostname or ""
    literal = _literal(host)
    if literal is not None and not (allow_private or is_public(literal)):
        raise WebhookRefused(f"{host} is not an address of the public internet")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path, parts.netloc)


def _check_parts(parts: SplitResult) -> None:
    if parts.scheme not in _PORTS or not parts.hostname:
        raise WebhookRefused("the URL must begin with https:// or http:// and name a host")
    if "@" in parts.netloc or parts.fragment:
        raise WebhookRefused("the URL may not hold a user, a password or a fragment")


async def resolve(target: Target, *, allow_private: bool) -> str:
    """An address to connect to. AddressRefused where any of the name's addresses is not to be sent to."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"{target.host} has no address: {error}") from error
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not (allow_private or is_public(ip_address(address.partition("%")[0]))):
            raise AddressRefused(f"{target.host} leads to {address}, which is not of the public internet")
    return addresses[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether the address, and what it may stand for, is of the public internet."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64 or address.sixtofour is not None or address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None

"""Addresses to which callers may have the service send: http and https, and no private network unless allowed.

A caller who creates a webhook chooses where this service sends requests from inside its network. So names are resolved
here, all their addresses are checked, and the request goes to a checked address; a name that changes in between gains
nothing. Refusals do not say whether a name has no address or an internal one, so they reveal nothing of the network.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from app.domain.errors import WebhookRefused

URL_MAX = 2000
_NOT_PUBLIC = "is not an address of the public internet"
_PORTS = {"http": 80, "https": 443}
_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by providers; also metadata services
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's services for its machines
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocols; 192.0.0.192 is a metadata service
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))  # tunnels, protocols, documentation
)


class AddressRefused(Exception):
    """The name leads to an address to which nothing may be sent, or to none."""


class NameUnknown(AddressRefused):
    """The name has no address. The text is that of one that is refused: not everybody may learn which names exist."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL."""

    scheme: str
    host: str
    port: int
    path: str
    authority: str


def read_url(url: str, *, allow_private: bool) -> Target:
    """Return the URL's parts. Raise WebhookRefused if nothing may be sent there."""
    if len(url) > URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise WebhookRefused(f"the URL must be at most {URL_MAX} printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise WebhookRefused(f"this is not a URL: {error}") from error
    if port == 0:
        raise WebhookRefused("a URL's port is a number from 1 to 65535")
    _check_parts(parts)
    host = parts.hostname or ""
    literal = _literal(host)
    if literal is not None and not (allow_private or is_public(literal)):
        raise WebhookRefused(f"{host} {_NOT_PUBLIC}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path, parts.netloc)


def read_new_url(url: str, *, allow_private: bool) -> Target:
    """Return the parts of a URL that a caller enters. Raise WebhookRefused also for this machine's own name.

    Other names are looked up whenever something is sent.
    """
    target = read_url(url, allow_private=allow_private)
    if not allow_private and target.host.rstrip(".").rpartition(".")[2] == "localhost":
        raise WebhookRefused(f"{target.host} {_NOT_PUBLIC}")
    return target


def _check_parts(parts: SplitResult) -> None:
    if parts.scheme not in _PORTS or not parts.hostname:
        raise WebhookRefused("the URL must begin with https:// or http:// and name a host")
    if "@" in parts.netloc or parts.fragment:
        raise WebhookRefused("the URL may not hold a user, a password or a fragment")


async def resolve(target: Target, resolvers: Executor, *, allow_private: bool) -> str:
    """Return an address to connect to. Raise AddressRefused if the name has none, or any that is not allowed.

    `resolvers` are the threads that query name servers.
    """
    ask = partial(socket.getaddrinfo, target.host, target.port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(resolvers, ask)
    except (OSError, UnicodeError):
        found = []
    addresses, why = [str(entry[4][0]) for entry in found], f"{target.host} leads to no address that is sent to"
    if not addresses:
        raise NameUnknown(why)
    if not (allow_private or all(is_public(ip_address(one.partition("%")[0])) for one in addresses)):
        raise AddressRefused(why)
    return addresses[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return True if the address is public, by a list of our own: others allow too much."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    host = host.rstrip(".")  # resolvers take 127.0.0.1. for the same
    with suppress(ValueError):
        return ip_address(host.partition("%")[0])
    with suppress(OSError):
        return IPv4Address(socket.inet_aton(host))  # 127.1, 0x7f000001, which name servers are not asked for
    return None

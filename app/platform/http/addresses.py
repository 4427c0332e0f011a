"""Callers' addresses: how they are grouped for limits, which are known, and their open connections."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from time import monotonic

_NETWORK_BITS = 64
"""The prefix length of an IPv6 network. It counts as one address, because its owner has all addresses in it."""
_KNOWN_S = 3600.0
_NOTED_S = 60.0
"""A known address is not noted again within this time."""
_MOST_KNOWN = 10_000
_FEW = 4
"""The number of reserved connections that each unknown address may use."""


@lru_cache(maxsize=4096)
def place_of(host: str | None) -> str:
    """Return the group of an address: the network for IPv6; IPv4 addresses, mapped to IPv6 or not, stand alone."""
    if host is None:
        return "local"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return str(int(address) >> _NETWORK_BITS) if isinstance(address, IPv6Address) else str(address)


class Addresses:
    """The addresses of one process's callers."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._total = 0
        self._known: dict[str, float] = {}
        self._noted: dict[str | None, float] = {}

    def know(self, host: str | None) -> None:
        """Remember for an hour that a valid token came from there."""
        now = monotonic()
        if host in self._noted and self._noted[host] > now:
            return
        if len(self._noted) >= _MOST_KNOWN:
            self._known.clear()
            self._noted.clear()
        self._known[place_of(host)] = now + _KNOWN_S
        self._noted[host] = now + _NOTED_S

    def open(self, host: str | None, most: int, most_of_one: int) -> str | None:
        """Count one more connection, of `most`, or return why it cannot be kept; then it is not counted.

        The last twentieth of all places is for known addresses, the one before for addresses with few connections.
        """
        place = place_of(host)
        why = self._refusal(place, most, most_of_one)
        if why is None:
            self._open[place] += 1
            self._total += 1
        return why

    def close(self, host: str | None) -> None:
        """Count one that was kept no more."""
        place = place_of(host)
        self._total -= 1
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]

    def _refusal(self, place: str, most: int, most_of_one: int) -> str | None:
        if self._total >= most:
            return "there are too many connections"
        if self._open[place] >= most_of_one:
            return "there are too many connections from this address"
        kept = most // 20
        if self._total < most - 2 * kept or self._known.get(place, 0.0) > monotonic():
            return None
        if self._total < most - kept and self._open[place] < _FEW:
            return None
        return "the last connections are kept for addresses that are known"

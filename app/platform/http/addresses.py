"""Where callers are: the addresses that limits are kept by, which of them are known, and their open connections."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from time import monotonic

_NETWORK_BITS = 64
"""Of an IPv6 address: whoever has one has the whole network of this length."""
_KNOWN_S = 3600.0
_NOTED_S = 60.0
"""So long what is known need not be noted again."""
_MOST_KNOWN = 10_000
_FEW = 4
"""So many connections of an address that is not known may be among those that are kept."""


@lru_cache(maxsize=4096)
def place_of(host: str | None) -> str:
    """What an address counts as: of IPv6 the network, but IPv4 that is written as IPv6 for itself."""
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
        """Count one more connection, of `most`; or say why it cannot be kept, and leave it uncounted.

        The last twentieth of all places is for addresses that are known, the one before for those that have few.
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

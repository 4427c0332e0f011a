"""The file in which Nova's past is taken along: a line of JSON for each piece, without anything that names anybody.

A server's id, a flavor's and a host's name become HMAC-SHA-256 under a key that stays with the operator. The rest is
numbers and words of this service's own, so no name, address, key or text of a user can be in the file. docs/import.md
describes the lines.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from app.domain.servers import ServerNode, ServerRecord, ServerRecordEnd, ServerStretch, is_possible
from app.domain.values import Market
from app.nova.past.source import ServerPieces

FORMAT = "tenure-servers"
VERSION = 1
SHORTEST_KEY = 16
"""The least number of bytes of a key."""
_HEX_DIGITS = 32
_write = json.JSONEncoder(separators=(",", ":")).encode


class Hiding:
    """Replaces names under a key. The same name has the same replacement as long as the key is the same."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.repeated = lru_cache(maxsize=10_000)(self.once)

    def once(self, name: str) -> str:
        """Return what stands for a name."""
        return hmac.digest(self._key, name.encode(), "sha256").hex()[:_HEX_DIGITS]


def hidden_lines(pieces: ServerPieces, hiding: Hiding) -> Iterator[str]:
    """Yield the lines of the file, without line ends."""
    stretches, whole_from_us = 0, 0
    for piece in pieces:
        if isinstance(piece, ServerStretch):
            if is_possible(piece) and (piece.ended_us is None or piece.ended_us > whole_from_us):
                stretches += 1
                yield _write(_stretch(piece, hiding))
        elif isinstance(piece, ServerRecord):
            whole_from_us = piece.whole_from_us
            told = {"format": FORMAT, "version": VERSION}
            yield _write(told | {"whole_from_us": whole_from_us, "read_at_us": piece.read_at_us})
            yield from (_write(_node(node, hiding)) for node in piece.nodes)
        else:
            yield _write(_end(piece, stretches))


def _node(node: ServerNode, hiding: Hiding) -> dict[str, Any]:
    return {
        "node_hmac": hiding.repeated(node.name),
        "vcpus": node.has.cores,
        "memory_mib": node.has.memory_mib,
        "disk_gib": node.has.disk_gib,
        "ratios": list(node.ratios),
        "added_us": node.added_us,
        "removed_us": node.removed_us,
    }


def _stretch(stretch: ServerStretch, hiding: Hiding) -> dict[str, Any]:
    return {
        "id_hmac": hiding.once(stretch.server),
        "part": stretch.part,
        "flavor_hmac": None if stretch.flavor is None else hiding.repeated(stretch.flavor),
        "vcpus": stretch.size.cores,
        "memory_mib": stretch.size.memory_mib,
        "disk_gib": stretch.size.disk_gib,
        "size_known": stretch.size_known,
        "created_us": stretch.created_us,
        "began_us": stretch.began_us,
        "ended_us": stretch.ended_us,
        "host_hmac": None if stretch.host is None else hiding.repeated(stretch.host),
        "market": Market.SPOT if stretch.is_spot else Market.ON_DEMAND,
        "end": stretch.end,
    }


def _end(end: ServerRecordEnd, stretches: int) -> dict[str, int]:
    return {"rows": end.rows, "duplicates": end.duplicates, "stretches": stretches}

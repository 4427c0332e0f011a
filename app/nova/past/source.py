"""A past as a reader of Nova gives it, piece by piece: the head, the stretches, the end."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.servers import ServerRecord, ServerRecordEnd, ServerStretch

ServerPieces = Iterator[ServerRecord | ServerStretch | ServerRecordEnd]
"""One head, then stretches, then one end."""

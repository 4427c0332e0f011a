"""Files that may be compressed by gzip."""

from __future__ import annotations

import gzip
from typing import BinaryIO

_GZIP = b"\x1f\x8b"


def unpacked(raw: BinaryIO) -> BinaryIO:
    """Return what reads the file's content: compressed by gzip, which its first bytes tell, or not."""
    beginning = raw.read(len(_GZIP))
    raw.seek(0)
    return gzip.open(raw) if beginning == _GZIP else raw  # type: ignore[return-value]

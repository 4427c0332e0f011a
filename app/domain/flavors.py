"""Flavors that are asked for by name."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from app.domain.errors import FlavorNotFound

_TOLD = 10


def check_flavor(flavors: Collection[str], name: str) -> None:
    """Raise FlavorNotFound if the flavors of a cloud have none of this name."""
    if name not in flavors:
        raise FlavorNotFound(f"there is no flavor {name!r}: there {told_flavors(flavors)}")


def told_flavors(flavors: Collection[str]) -> str:
    """Return some of the flavors that there are, in words that follow `there`."""
    more = ", ..." if len(flavors) > _TOLD else ""
    return f"are {', '.join(islice(flavors, _TOLD))}{more}" if flavors else "is none yet"

"""The functions that an API process compiles, or loads from the compiler's cache, before it answers."""

from __future__ import annotations

from app.clusters.warming import warm_up as warm_up_advice
from app.engine.cloud import warm_up as warm_up_engine
from app.venues.rules.warming import warm_up as warm_up_venues


def warm_up() -> None:
    """Compile the live scheduler, quotes of venues, plans and advice now, so that no request waits for the compiler."""
    warm_up_engine()
    warm_up_venues()
    warm_up_advice()

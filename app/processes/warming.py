"""The functions that a process compiles, or loads from the compiler's cache: an API process before it answers."""

from __future__ import annotations

from app.clusters.warming import warm_up as warm_up_advice
from app.engine.cloud import warm_up as warm_up_engine
from app.engine.compiled import note_all_compiled
from app.forecasts.recompute import warm_up as warm_up_forecast
from app.venues.rules.warming import warm_up as warm_up_venues


def warm_up() -> None:
    """Compile the live scheduler, quotes of venues, plans and advice now, so that no request waits for the compiler."""
    warm_up_engine()
    warm_up_venues()
    warm_up_advice()


def warm_up_worker() -> None:
    """Compile the live scheduler, recomputations, quotes of venues and plans, and note that this is done."""
    warm_up_forecast()
    warm_up_venues()
    note_all_compiled()

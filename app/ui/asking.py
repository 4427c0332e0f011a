"""What pages ask of the services, and the query parameters that they take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from starlette.requests import Request

from app.services.reading import Reading
from app.services.scheduler import Scheduler
from app.services.utilisation import UtilisationHistory
from app.services.watching import Watching


def scheduler(request: Request) -> Scheduler:
    """Everything about a cloud's state."""
    return cast("Scheduler", request.app.state.services.scheduler)


def reading(request: Request) -> Reading:
    """Everything that is read from the store."""
    return cast("Reading", request.app.state.services.reading)


def history(request: Request) -> UtilisationHistory:
    """What was in use over time."""
    return cast("UtilisationHistory", request.app.state.services.history)


def watching(request: Request) -> Watching:
    """Whether anything changed."""
    return cast("Watching", request.app.state.services.watching)


def server_time() -> datetime:
    """The server's clock."""
    return datetime.now(UTC)


def number(request: Request, name: str, most: int = 10**15) -> int | None:
    """A whole number of the query; None where there is none that makes sense."""
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 17):
        return None
    return min(int(text), most)


def choice(request: Request, name: str, allowed: tuple[str, ...]) -> str | None:
    """One of a few values of the query; None where it is none of them."""
    text = request.query_params.get(name)
    return text if text in allowed else None

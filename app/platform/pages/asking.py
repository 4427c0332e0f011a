"""The query parameters of pages, and the clock that they show."""

from __future__ import annotations

from datetime import datetime

from starlette.requests import Request

from app.platform.clock import ServerClock
from app.platform.http.reached import reached

MISREAD = "misread"
"""The key, in the state of a request, of the numbers in its query that could not be read."""


def server_time(request: Request) -> datetime:
    """Return the time of the clock that decisions are taken by."""
    return reached(request, ServerClock).now()


def number(request: Request, name: str, most: int = 10**15) -> int | None:
    """Return a whole number from the query; None if it is missing, or invalid, which the page then tells."""
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 17):
        if text:
            request.scope["state"].setdefault(MISREAD, []).append((name, text[:40]))
        return None
    return min(int(text), most)


def choice(request: Request, name: str, allowed: tuple[str, ...]) -> str | None:
    """Return one of the allowed values from the query; None if it is missing or another one."""
    text = request.query_params.get(name)
    return text if text in allowed else None

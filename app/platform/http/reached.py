"""The services of a process, which handlers and pages reach through the request."""

from __future__ import annotations

from typing import TypeVar, cast

from starlette.requests import Request

T = TypeVar("T")


def reached(request: Request, kind: type[T]) -> T:
    """Return the process's service of this class; the composition put it at `app.state.services`."""
    return cast("T", request.app.state.services[kind])

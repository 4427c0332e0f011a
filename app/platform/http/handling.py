"""Handlers that answer the errors of the application and of its router."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.platform.http.auth import count_unasked, token_of
from app.platform.http.errors import (
    PROBLEMS,
    MethodUnknown,
    PathUnknown,
    RateExceeded,
    RequestInvalid,
    answer,
)


def install_handlers(app: FastAPI) -> None:
    """Answer every error by the table of errors. The middleware answers and logs those that it does not contain."""
    for error in (*PROBLEMS, RequestInvalid):
        app.add_exception_handler(error, _answer_known)
    app.add_exception_handler(HTTPException, _answer_routing)


async def _answer_known(request: Request, error: Exception) -> Response:
    return answer(request.scope, error)


async def _answer_routing(request: Request, error: Exception) -> Response:
    """Answer the router's errors: unknown path or method. OPTIONS lists the methods."""
    assert isinstance(error, HTTPException)
    try:
        count_unasked(request, token_of(request.scope))
    except RateExceeded as exceeded:
        return answer(request.scope, exceeded)
    if error.status_code != 405:
        return answer(request.scope, PathUnknown(f"there is nothing at {request.url.path}"))
    allow = {"Allow": ", ".join(_methods_at(request))}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=allow)
    refusal = answer(request.scope, MethodUnknown(f"{request.method} is not among {allow['Allow']}"))
    refusal.headers.update(allow)
    return refusal


def _methods_at(request: Request) -> list[str]:
    """Return all methods of the path, over all routes that have it."""
    methods = {"OPTIONS"}
    for route in request.app.routes:
        pattern = getattr(route, "path_regex", None)
        if pattern is not None and pattern.match(request.scope["path"]):
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))

"""The common part of all pages: access, security headers, errors as pages.

The session is the token itself, in a cookie that scripts cannot read and that browsers do not send for other sites'
pages. Nothing is stored; revoking a token signs its pages out.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.errors import CloudNotFound, TenureError
from app.domain.values import Caller, Role
from app.platform.http.auth import count_unasked, granted_to, identify
from app.platform.http.dear import read_in_turn
from app.platform.http.errors import (
    PROBLEMS,
    Forbidden,
    FormInvalid,
    HeadTooLarge,
    RateExceeded,
    Unauthenticated,
)
from app.platform.pages.cookies import read_cookie
from app.platform.pages.rendering import render_problem
from app.platform.telemetry.context import shown
from app.platform.telemetry.metrics import PAGE

logger = logging.getLogger(__name__)

PageHandler = Callable[[Request], Awaitable[Response]]

COOKIE = "tenure_token"
_OF_PROJECTS = (Role.PROJECT_READER, Role.PROJECT_MEMBER)
_MOST_COOKIES = 50
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Scripts and styles come only from this service's files: nothing inline, nothing from elsewhere, no framing."""


class NotSignedIn(Exception):
    """There is no cookie with a valid token."""


def public(page: PageHandler) -> PageHandler:
    """Wrap a page that needs no token."""

    async def handle(request: Request) -> Response:
        request.scope["state"]["operation"] = PAGE
        response = await _answered(page, request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return handle


def guarded(page: PageHandler) -> PageHandler:
    """Wrap a page for tokens that may read; tokens of one cloud see only that cloud's pages."""

    async def authorised(request: Request) -> Response:
        caller = await still_signed_in(request)
        check(caller, request.path_params.get("cloud"))
        async with read_in_turn(request):
            return await page(request)

    return public(authorised)


def check(caller: Caller, cloud: str | None) -> None:
    """Raise Forbidden if the caller may not read, CloudNotFound if the cloud is hidden from them."""
    if Role.READER not in granted_to(caller.role):
        instead = "; openstack tenure tells of your project's own servers" if caller.role in _OF_PROJECTS else ""
        raise Forbidden(f"these pages need the role reader, and your token's is {caller.role}{instead}")
    if cloud is not None and caller.cloud not in (None, cloud):
        raise CloudNotFound.named(cloud)


async def still_signed_in(request: Request) -> Caller:
    """Return the viewer of the page. Raise NotSignedIn if the cookie's token is not valid, or no longer."""
    if sum(value.count(";") for value in request.headers.getlist("cookie")) >= _MOST_COOKIES:
        raise HeadTooLarge(f"a request has up to {_MOST_COOKIES} cookies")
    token = read_cookie(request, COOKIE)
    if not token:
        request.app.state.rates.count_address(request.scope)
        raise NotSignedIn
    try:
        return await identify(request, token.encode())
    except Unauthenticated:
        raise NotSignedIn from None


def count_file(request: Request) -> None:
    """Count a request for a file of the pages: for the viewer, or for the address without one."""
    token = read_cookie(request, COOKIE)
    count_unasked(request, token.encode() if token else None)


async def _answered(page: PageHandler, request: Request) -> Response:
    try:
        return await page(request)
    except NotSignedIn:
        return _to_sign_in(request)
    except CloudNotFound as error:  # without the tabs of a cloud that does not exist
        return render_problem(request, 404, str(error), cloud=None)
    except (TenureError, Forbidden, FormInvalid, HeadTooLarge) as error:
        return render_problem(request, PROBLEMS[type(error)].status, str(error))
    except RateExceeded as error:
        refused = render_problem(request, 429, str(error))
        refused.headers["Retry-After"] = str(error.retry_after_s)
        return refused
    except Exception:
        logger.exception("%s: page %s failed", request.scope["state"]["request_id"], shown(request.url.path))
        detail = "Something went wrong here. The service's log has the details under the request id below."
        return render_problem(request, 500, detail)


def _to_sign_in(request: Request) -> Response:
    """Send scripts a 401; redirect browsers to the sign-in form, which returns them afterwards."""
    if "x-tenure-live" in request.headers or "text/event-stream" in request.headers.get("accept", ""):
        return Response(status_code=401)
    wanted = quote(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
    return RedirectResponse(f"/ui/sign-in?next={wanted}", 303)

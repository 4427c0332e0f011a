"""Pages that sign in with a token, and sign out."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.platform.http.auth import identify
from app.platform.http.errors import Forbidden, FormInvalid, Unauthenticated
from app.platform.pages.cookies import drop_cookie, keep_cookie
from app.platform.pages.guard import COOKIE, check
from app.platform.pages.rendering import render

_LONGEST_FORM = 4096
_MOST_FIELDS = 10
_HOME = "/ui"


async def show_form(request: Request) -> Response:
    """Show the form that asks for a token."""
    request.app.state.rates.count_address(request.scope)
    return _form(request, _target(request.query_params.get("next")))


async def sign_in(request: Request) -> Response:
    """Keep the token in a cookie of the browser, if it is valid and allows these pages."""
    _check_origin(request)
    form = await _read_form(request)
    target, token = _target(form.get("next")), form.get("token", "").strip()
    try:
        check(await identify(request, token.encode()), None)
    except Unauthenticated:
        return _form(
            request, target, "This token is not valid. It may have a typing error, have expired or be revoked."
        )
    except Forbidden as error:
        return _form(request, target, f"{str(error).capitalize()}.")
    answer = RedirectResponse(target, 303)
    keep_cookie(answer, COOKIE, token, secure=_is_secure(request))
    return answer


async def sign_out(request: Request) -> Response:
    """Forget the token in this browser. It stays valid elsewhere until it is revoked."""
    _check_origin(request)
    answer = RedirectResponse("/ui/sign-in", 303)
    drop_cookie(answer, COOKIE, secure=_is_secure(request))
    return answer


def _form(request: Request, target: str, problem: str | None = None) -> Response:
    return render(request, "sign_in.html", target=target, problem=problem, status_code=400 if problem else 200)


def _check_origin(request: Request) -> None:
    """Raise Forbidden if a page of another site sent the form; browsers name the sender in one of two headers."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        own = site in {"same-origin", "none"}
    else:
        host = request.headers.get("host", "")
        own = request.headers.get("origin") in {f"http://{host}", f"https://{host}"}
    if not own:
        raise Forbidden("this form was sent by a page of another site")


async def _read_form(request: Request) -> dict[str, str]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _LONGEST_FORM:
            raise FormInvalid("the form is too long")
    if content.count(b"&") >= _MOST_FIELDS:
        raise FormInvalid("the form has too many fields")
    return dict(parse_qsl(content.decode("utf-8", "replace")))


def _target(wanted: str | None) -> str:
    """Return the page to go to after signing in: one of ours, never another site's."""
    if not wanted or len(wanted) > 1000 or not wanted.isprintable() or "\\" in wanted:
        return _HOME
    return wanted if wanted == _HOME or wanted.startswith((f"{_HOME}/", f"{_HOME}?")) else _HOME


def _is_secure(request: Request) -> bool:
    """Return True if the browser speaks TLS to us or to a proxy that says so.

    A false header can only make the cookie stricter.
    """
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "") == "https"

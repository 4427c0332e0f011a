"""Pages that sign in with a token, and sign out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.errors import IdentityUnavailable
from app.platform.http.auth import identify
from app.platform.http.dear import sign_in_turn
from app.platform.http.errors import Forbidden, FormInvalid, Unauthenticated
from app.platform.pages.cookies import drop_cookie, keep_cookie
from app.platform.pages.guard import COOKIE, check
from app.platform.pages.rendering import render

_LONGEST_FORM = 4096
_MOST_FIELDS = 10
_HOME = "/ui"
_USUAL_DOMAIN = "Default"
_NOT_GIVEN = "Enter a token."
_NOT_VALID = "This token is not valid. It may have a typing error, have expired or be revoked."
_NOT_PROVEN = "Keystone knows no such user with this password in this project and domain."


async def show_form(request: Request) -> Response:
    """Show the form that asks for a token."""
    request.app.state.rates.count_address(request.scope)
    return _form(request, _target(request.query_params.get("next")))


async def sign_in(request: Request) -> Response:
    """Keep the token in a cookie of the browser, if it is valid and allows these pages.

    Who gives a name and a password of Keystone's instead gets a token of Keystone's.
    """
    _check_origin(request)
    form = await _read_form(request)
    target = _target(form.get("next"))
    of_keystone = request.app.state.tokens.keystone is not None and "user" in form
    if not of_keystone and not form.get("token", "").strip():
        request.app.state.rates.count_address(request.scope)
        return _form(request, target, _NOT_GIVEN)
    try:
        async with sign_in_turn(request) if of_keystone else nullcontext():
            token = await (_new_token if of_keystone else _given_token)(request, form)
            check(await identify(request, token.encode()), None)
    except Unauthenticated:
        return _form(request, target, _NOT_PROVEN if "user" in form else _NOT_VALID, form)
    except (Forbidden, IdentityUnavailable) as error:
        request.app.state.rates.count_address(request.scope)
        return _form(request, target, f"{str(error).capitalize()}.", form)
    answer = RedirectResponse(target, 303)
    keep_cookie(answer, COOKIE, token, secure=_is_secure(request))
    return answer


async def _given_token(_: Request, form: dict[str, str]) -> str:
    return form.get("token", "").strip()


async def _new_token(request: Request, form: dict[str, str]) -> str:
    """Return a new token of Keystone's. Raise Unauthenticated if Keystone refuses."""
    request.app.state.rates.check_address(request.scope)
    domain = form.get("domain", "").strip() or _USUAL_DOMAIN
    keystone = request.app.state.tokens.keystone
    token = await keystone.log_in(form["user"], form.get("password", ""), form.get("project", ""), domain)
    if token is None:
        request.app.state.rates.count_address(request.scope)
        raise Unauthenticated("Keystone refuses the name or the password")
    return str(token)


async def sign_out(request: Request) -> Response:
    """Forget the token in this browser. It stays valid elsewhere until it is revoked."""
    _check_origin(request)
    answer = RedirectResponse("/ui/sign-in", 303)
    drop_cookie(answer, COOKIE, secure=_is_secure(request))
    return answer


def _form(
    request: Request, target: str, problem: str | None = None, given: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """Show both forms; a problem stands in the one that was sent, with what was given there but for the password."""
    has_keystone = request.app.state.tokens.keystone is not None
    of_keystone = has_keystone and "user" in given
    return render(
        request,
        "sign_in.html",
        caller=None,  # a token that was refused opens no other page either
        target=target,
        problem=None if of_keystone else problem,
        keystone_problem=problem if of_keystone else None,
        named={"user": "", "project": "", "domain": _USUAL_DOMAIN, **given},
        has_keystone=has_keystone,
        status_code=400 if problem else 200,
    )


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

"""Cookies of the pages' own, read in time that grows with their length alone.

Python's reader takes quadratic time for quoted values, and browsers send the cookies of every program on this host. So
a value of ours is kept as URLs keep it, which needs no quotes.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response


def read_cookie(request: Request, name: str) -> str | None:
    """Return the value of the first cookie of this name, or None."""
    begin = f"{name}=".encode()
    for header, value in request.scope["headers"]:
        if header == b"cookie":
            for part in value.split(b";"):
                if part.lstrip().startswith(begin):
                    return unquote(part.strip()[len(begin) :].decode("latin-1"))
    return None


def keep_cookie(answer: Response, name: str, value: str, *, secure: bool) -> None:
    """Have the browser keep the value for the pages alone, out of reach of scripts and of other sites."""
    answer.set_cookie(name, quote(value, safe=""), path="/ui", httponly=True, samesite="strict", secure=secure)


def drop_cookie(answer: Response, name: str, *, secure: bool) -> None:
    """Have the browser forget the value."""
    answer.delete_cookie(name, path="/ui", httponly=True, samesite="strict", secure=secure)

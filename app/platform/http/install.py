"""Putting everything HTTP on a FastAPI application."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.sse import EventSourceResponse
from starlette.responses import JSONResponse, PlainTextResponse, Response

from app.platform.http.addresses import Addresses
from app.platform.http.auth import TokenAuthenticator
from app.platform.http.dear import Lines
from app.platform.http.handling import install_handlers
from app.platform.http.middleware import Envelope
from app.platform.http.openapi import DESCRIPTION, extra, install_docs, responses
from app.platform.http.rates import Rates
from app.platform.http.serving import Served, ServedRoute

__all__ = ["DESCRIPTION", "Terms", "install", "install_docs"]


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms requests are taken."""

    max_body_bytes: int
    token_requests_per_s: int
    address_requests_per_min: int


def install(app: FastAPI, rows: Iterable[Served], terms: Terms) -> None:
    """Put these rows, errors, tokens and versions on an application.

    The application is made with `FastAPI(**DESCRIPTION)`; its lifespan must put the services at
    `app.state.services`, by class, and the keeper of tokens at `app.state.tokens`.
    """
    app.add_middleware(Envelope, max_body_bytes=terms.max_body_bytes)
    app.state.authenticator = TokenAuthenticator(lambda: app.state.tokens)
    app.state.addresses = Addresses()
    app.state.lines = Lines()
    app.state.rates = Rates(terms.token_requests_per_s, terms.address_requests_per_min)
    install_handlers(app)
    for row in rows:
        _add(app, row)


def _add(app: FastAPI, row: Served) -> None:
    app.router.add_api_route(
        row.path,
        row.guarded(),
        methods=[row.method],
        route_class_override=ServedRoute,
        name=row.name,
        operation_id=row.name,
        tags=[row.endpoint.chapter],
        summary=row.endpoint.summary,
        description=row.handler.__doc__,
        status_code=row.endpoint.status,
        response_model=None,
        response_class=_form_of(row),
        responses=responses(row),
        openapi_extra=extra(row),
    )


def _form_of(row: Served) -> type[Response]:
    """What the answer is written as."""
    if row.streams:
        return EventSourceResponse
    return PlainTextResponse if row.answer is None else JSONResponse

"""Sets up everything HTTP on a FastAPI application."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi.sse import EventSourceResponse
from starlette.responses import JSONResponse, PlainTextResponse, Response

from app.platform.http.addresses import Addresses
from app.platform.http.application import Application
from app.platform.http.auth import Authenticator
from app.platform.http.dear import DearQueues
from app.platform.http.handling import install_handlers
from app.platform.http.openapi import responses
from app.platform.http.rates import Rates
from app.platform.http.serving import Served, ServedRoute


def install(
    app: Application, rows: Iterable[Served], rates: Rates, max_body_bytes: int, keystone_url: str | None = None
) -> None:
    """Install these rows, and the handling of errors, tokens and versions, on an application.

    The application is made with `Application(**DESCRIPTION)`. Its lifespan must put the services, by class, at
    `app.state.services` and the store of tokens at `app.state.tokens`.
    `keystone_url`: where who has no valid token is sent for one.
    """
    app.envelop(max_body_bytes)
    app.state.authenticator = Authenticator(lambda: app.state.tokens)
    app.state.addresses = Addresses()
    app.state.dear = DearQueues()
    app.state.expositions = {}
    app.state.rates = rates
    app.state.keystone_url = keystone_url
    install_handlers(app)
    for row in rows:
        _add(app, row)


def _add(app: Application, row: Served) -> None:
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
    )


def _form_of(row: Served) -> type[Response]:
    """Return the class of response that the answer takes."""
    if row.streams:
        return EventSourceResponse
    return PlainTextResponse if row.answer is None else JSONResponse

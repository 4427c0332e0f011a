"""Putting everything HTTP on a FastAPI application."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fastapi import FastAPI
from fastapi.sse import EventSourceResponse
from starlette.responses import JSONResponse, PlainTextResponse, Response

from app.api.addresses import Addresses
from app.api.auth import TokenAuthenticator
from app.api.handling import install_handlers
from app.api.middleware import Envelope
from app.api.openapi import DESCRIPTION, extra, install_docs, responses
from app.api.operations import Operation, OperationRoute
from app.api.rates import Rates
from app.api.routes import METRICS, OPERATIONS, WORKERS

__all__ = ["DESCRIPTION", "Terms", "install", "install_worker"]


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms requests are taken."""

    max_body_bytes: int
    token_requests_per_s: int
    address_requests_per_min: int
    open_metrics: bool


def install(app: FastAPI, terms: Terms) -> None:
    """Routes, errors, tokens, versions and documentation.

    The application is made with `FastAPI(**DESCRIPTION)`; its lifespan must put the services at
    `app.state.services`, by class, and the keeper of tokens at `app.state.tokens`.
    """
    _install(app, OPERATIONS, terms)
    install_docs(app)


def install_worker(app: FastAPI, terms: Terms) -> None:
    """As `install`, but only what a worker tells of itself."""
    _install(app, WORKERS, terms)


def _install(app: FastAPI, operations: Iterable[Operation], terms: Terms) -> None:
    app.add_middleware(Envelope, max_body_bytes=terms.max_body_bytes)
    app.state.authenticator = TokenAuthenticator(lambda: app.state.tokens)
    app.state.addresses = Addresses()
    app.state.rates = Rates(terms.token_requests_per_s, terms.address_requests_per_min)
    install_handlers(app)
    for operation in operations:
        _add(app, replace(operation, role=None) if terms.open_metrics and operation in METRICS else operation)


def _add(app: FastAPI, operation: Operation) -> None:
    app.router.add_api_route(
        operation.path,
        operation.guarded(),
        methods=[operation.method],
        route_class_override=OperationRoute,
        name=operation.name,
        operation_id=operation.name,
        tags=[operation.tag],
        summary=operation.summary,
        description=operation.handler.__doc__,
        status_code=operation.status,
        response_model=None,
        response_class=_form_of(operation),
        responses=responses(operation),
        openapi_extra=extra(operation),
    )


def _form_of(operation: Operation) -> type[Response]:
    """What the answer is written as."""
    if operation.streams:
        return EventSourceResponse
    return PlainTextResponse if operation.answer is None else JSONResponse

"""Putting everything HTTP on a FastAPI application."""

from __future__ import annotations

from functools import partial

from fastapi import FastAPI

from app.api.auth import TokenAuthenticator
from app.api.errors import install_handlers
from app.api.middleware import Envelope
from app.api.openapi import DESCRIPTION, error_responses, extra, install_docs, make_openapi
from app.api.operations import Operation, OperationRoute
from app.api.routes import OPERATIONS

__all__ = ["DESCRIPTION", "install"]


def install(app: FastAPI, *, max_body_bytes: int) -> None:
    """Routes, errors, tokens, versions and documentation.

    The application is made with `FastAPI(**DESCRIPTION)`; its lifespan must put the services at `app.state.services`.
    """
    app.add_middleware(Envelope, max_body_bytes=max_body_bytes)
    app.state.authenticator = TokenAuthenticator(lambda: app.state.services.tokens)
    install_handlers(app)
    for operation in OPERATIONS:
        _add(app, operation)
    install_docs(app)
    app.openapi = partial(_document, app)  # type: ignore[method-assign]


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
        response_model=operation.answer,
        responses=error_responses(operation),
        openapi_extra=extra(operation),
    )


def _document(app: FastAPI) -> dict[str, object]:
    if app.openapi_schema is None:
        app.openapi_schema = make_openapi(app)
    return app.openapi_schema

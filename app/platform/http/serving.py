"""A row of the table of served endpoints, and the route made of it.

Handlers take the request and return the finished answer. FastAPI only routes and documents, because it must not slow
down starts and stops, which come by the thousand a second.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.domain.values import Role
from app.platform.asked import reading
from app.platform.http.auth import authorise
from app.platform.http.bodies import read_query
from app.platform.http.dear import GREAT_BODIES, READS, body_in_turn, message_in_turn, read_in_turn
from app.platform.http.fields import Body, Query
from app.platform.http.rates import PEER_MESSAGES
from tenure_client.endpoints import Endpoint
from tenure_client.forms.answer import Answer

PROBES = {"check_health", "check_readiness"}
"""Operations called by machines, whose address others may share."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class Served:
    """An endpoint with the service's handler and conditions.

    `role` is the least role required, None if no token is needed. A token of one cloud may use endpoints whose path
    contains that cloud, and those that are `for_scoped`, whose handlers show such a caller its own cloud alone.
    `errors` are those that it can answer beyond those of every endpoint of its kind. The examples are documented, and a
    test runs them. `streams`: the answer is a stream of server-sent events. `may_say_no`: a 503 may have the form of
    the answer.
    """

    endpoint: Endpoint[Any]
    handler: Handler
    _: KW_ONLY
    role: Role | None
    body: type[Body] | None = None
    query: type[Query] | None = None
    errors: tuple[type[Exception], ...] = ()
    example: Mapping[str, Any] | None = None
    streams: bool = False
    may_say_no: bool = False
    query_example: Mapping[str, Any] = field(default_factory=dict)
    for_scoped: bool = False

    @property
    def method(self) -> str:
        """The endpoint's method."""
        return self.endpoint.method

    @property
    def path(self) -> str:
        """The endpoint's path, with its places in braces."""
        return self.endpoint.path

    @property
    def answer(self) -> type[Answer] | None:
        """The form of the answer; None if it is text or empty."""
        answer = self.endpoint.answer
        return answer if issubclass(answer, Answer) else None

    @property
    def name(self) -> str:
        """The permanent id of the operation."""
        return self.handler.__name__

    @property
    def is_for_scoped(self) -> bool:
        """True if a token of one cloud may use the endpoint."""
        return self.for_scoped or "{cloud}" in self.path

    def guarded(self) -> Handler:
        """Return the handler behind the checks that all endpoints share."""
        role, for_scoped, takes_query = self.role, self.for_scoped, self.query is not None
        handler, is_probe = _in_turn(self.handler, is_read=self.method == "GET"), self.name in PROBES

        async def handle(request: Request) -> Response:
            if role is not None:
                await authorise(request, role, for_scoped=for_scoped)
            elif is_probe:
                request.app.state.rates.count_probe(request.scope)
            else:
                request.app.state.rates.count_address(request.scope)
            if not takes_query and request.scope["query_string"]:
                read_query(request, Query)
            return await handler(request)

        return handle


def _in_turn(handler: Handler, *, is_read: bool) -> Handler:
    """The handler, where it is dear behind those of the same caller that came before."""
    name = handler.__name__
    handler = _reading(handler) if is_read else handler
    if name not in READS | GREAT_BODIES | PEER_MESSAGES:
        return handler
    turn = read_in_turn if name in READS else message_in_turn if name in PEER_MESSAGES else body_in_turn

    async def handle(request: Request) -> Response:
        async with turn(request):
            return await handler(request)

    return handle


def _reading(handler: Handler) -> Handler:
    """The handler, with the reads' part of the database's connections."""

    async def handle(request: Request) -> Response:
        with reading():
            return await handler(request)

    return handle


class ServedRoute(APIRoute):
    """A route that passes the request to its handler without FastAPI's own steps in between."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to this path. Other methods are answered like FastAPI does."""
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        scope["state"]["operation"] = self.name
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

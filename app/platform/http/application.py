"""The application: operations take a short way, all else goes through FastAPI's layers and its router."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.platform.http.middleware import Envelope
from app.platform.http.pacing import RefusalPace
from app.platform.http.serving import ServedRoute


class Application(FastAPI):
    """FastAPI, but for operations: nothing stands before the envelope of these, and nothing but their handler in it.

    Of what FastAPI puts in between, exit stacks, form limits and telemetry, they use nothing.
    """

    _short: ASGIApp | None = None
    _roads: dict[tuple[str, int], list[ServedRoute]] | None = None

    def envelop(self, max_body_bytes: int) -> None:
        """Put the envelope around all that is answered."""
        pace = RefusalPace()
        self._short = Envelope(_handle, max_body_bytes, pace)
        self.add_middleware(Envelope, max_body_bytes=max_body_bytes, pace=pace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live through one lifespan."""
        if scope["type"] == "http" and self._short is not None and self._finds(scope):
            await self._short(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _finds(self, scope: Scope) -> bool:
        """Tell whether an operation is asked for; it then stands in the scope, as the router would have put it."""
        path, method = scope["path"], scope["method"]
        if self._roads is None:
            self._roads = _roads(self.routes)
        for route in self._roads.get(("GET" if method == "HEAD" else method, path.count("/")), ()):
            found = route.path_regex.match(path)
            if found is not None:
                scope.update(app=self, route=route, endpoint=route.endpoint, path_params=found.groupdict())
                return True
        return False


def _roads(routes: Iterable[BaseRoute]) -> dict[tuple[str, int], list[ServedRoute]]:
    """Return the operations by method and number of slashes: a name in a path has none."""
    roads: dict[tuple[str, int], list[ServedRoute]] = {}
    for route in routes:
        if isinstance(route, ServedRoute):
            for method in route.methods or ():
                roads.setdefault((method, route.path.count("/")), []).append(route)
    return roads


async def _handle(scope: Scope, receive: Receive, send: Send) -> None:
    await scope["route"].handle(scope, receive, send)

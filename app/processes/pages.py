"""Adds the pages to the application, below /ui."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.clusters import pages as batch_clusters
from app.explaining import pages as decisions
from app.federation import pages as federation
from app.following.pages import follow_all, follow_cloud, followed
from app.forecasts.pages import curves, promise, quotes
from app.identity import pages as signing
from app.observing.pages import cloud, clouds, epochs, owners
from app.planning import pages as plans
from app.platform.pages.guard import count_file, guarded, public
from app.platform.pages.rendering import STATIC, render_problem
from app.venues.pages import pool, venues

_CLOUD = "/ui/clouds/{cloud}"


class _PageFiles(StaticFiles):
    """The pages' own files. A browser asks each time if its copy is still good."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        count_file(Request(scope))
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


async def _missing(request: Request) -> Response:
    return render_problem(request, 404, "There is no such page.")


def install_pages(app: FastAPI) -> None:
    """Add the pages' routes. The application must have its authenticator before."""
    app.router.routes.extend(_routes())


def _routes() -> list[BaseRoute]:
    return [
        Mount("/ui/static", _PageFiles(directory=STATIC)),
        Route("/ui/sign-in", public(signing.show_form)),
        Route("/ui/sign-in", public(signing.sign_in), methods=["POST"]),
        Route("/ui/sign-out", public(signing.sign_out), methods=["POST"]),
        Route("/ui", guarded(clouds.show)),
        Route("/ui/live", guarded(follow_all)),
        Route(_CLOUD, guarded(cloud.show)),
        Route(f"{_CLOUD}/live", guarded(follow_cloud)),
        Route(f"{_CLOUD}/promise", guarded(promise.show)),
        Route(f"{_CLOUD}/quotes", guarded(quotes.show)),
        Route(f"{_CLOUD}/curves", guarded(curves.show)),
        Route(f"{_CLOUD}/owners", guarded(owners.show)),
        Route(f"{_CLOUD}/epochs", guarded(epochs.show)),
        Route(f"{_CLOUD}/decisions", guarded(decisions.show)),
        Route(f"{_CLOUD}/instances/{{instance}}", guarded(decisions.explain)),
        Route(f"{_CLOUD}/jobs", guarded(federation.show_jobs)),
        Route(f"{_CLOUD}/jobs/{{job}}", guarded(federation.show_job)),
        Route("/ui/federation", guarded(federation.show_peers)),
        Route("/ui/venues", guarded(venues.show_all)),
        Route("/ui/venues/{venue}", guarded(venues.show)),
        Route("/ui/venues/{venue}/live", guarded(followed(venues.look))),
        Route("/ui/venues/{venue}/pools/{pool}", guarded(pool.show)),
        Route("/ui/clusters", guarded(batch_clusters.show_all)),
        Route("/ui/clusters/{cluster}", guarded(batch_clusters.show)),
        Route("/ui/clusters/{cluster}/live", guarded(followed(batch_clusters.look))),
        Route("/ui/venues/{venue}/reliability", guarded(plans.show_reliability)),
        Route("/ui/peers/{peer}/reliability", guarded(plans.show_peer_reliability)),
        Route("/ui/plans", guarded(plans.show_all)),
        Route("/ui/plans/{plan}", guarded(plans.show)),
        Route("/ui/{path:path}", guarded(_missing)),
    ]

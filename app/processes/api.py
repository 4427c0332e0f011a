"""The applications of an API process and of a worker: routers and lifespan, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from fastapi import FastAPI

from app.following.feed import Feed
from app.following.page_watch import PageWatch, WatchLimits
from app.identity.callers import Callers
from app.identity.service import TokenKeeper
from app.planning.plans import Plans
from app.platform.clock import ServerClock
from app.platform.http.addresses import Addresses
from app.platform.http.application import Application
from app.platform.http.connection import BoundedConnection, ConnectionLimits
from app.platform.http.install import install
from app.platform.http.openapi import DESCRIPTION, install_docs
from app.platform.http.rates import Rates
from app.platform.http.serving import Served
from app.platform.settings import Settings
from app.platform.telemetry.context import keep_secret
from app.processes.callers import open_callers
from app.processes.endpoints import ENDPOINTS, METRICS, WORKERS
from app.processes.pages import install_pages
from app.processes.service_wiring import Services, open_services
from app.processes.warming import warm_up
from app.processes.worker_wiring import WorkerParts
from app.scheduling.log_heads import HeadPauses
from app.scheduling.scheduler import Scheduler
from app.venues.reads import VenueReads


def end_waits(app: FastAPI) -> None:
    """End the answers that would never end by themselves or wait for a table, so that the process can stop."""
    app.state.services[Scheduler].end_waits()
    app.state.services[Plans].end_waits()
    app.state.services[Feed].close()
    app.state.services[PageWatch].close()


def create_app(settings: Settings, pauses: HeadPauses | None = None, watch: WatchLimits | None = None) -> FastAPI:
    """Return the application. It opens the database when it starts and closes it when it stops.

    `pauses`, `watch` None: the default ones of looks at the logs and of open pages.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(warm_up)
        secret = None if settings.admin_token is None else settings.admin_token.get_secret_value()
        if secret is not None:
            keep_secret(secret)
        async with (
            open_services(settings, pauses, watch) as services,
            services[TokenKeeper].admin(secret) as token,
            open_callers(settings, services[TokenKeeper], services[ServerClock]) as callers,
        ):
            app.state.services, app.state.tokens = services, callers
            app.state.admin_token = token
            await services[VenueReads].warm_up()
            yield

    app = Application(**DESCRIPTION, lifespan=lifespan)
    _install(app, settings, ENDPOINTS)
    install_docs(app, ENDPOINTS)
    install_pages(app)
    return app


def create_worker_app(settings: Settings, parts: WorkerParts) -> FastAPI:
    """Return a worker's application: its health and its metrics."""
    app = Application(**DESCRIPTION)
    app.state.services, app.state.tokens = Services(parts.health), Callers(parts.tokens, None)
    _install(app, settings, WORKERS)
    return app


def connections(app: FastAPI, settings: Settings) -> Callable[..., BoundedConnection]:
    """Return the protocol class by which uvicorn serves each connection."""
    addresses = getattr(app.state, "addresses", None) or Addresses()
    limits = ConnectionLimits(
        settings.request_timeout_s, settings.max_connections, settings.max_connections_per_address, addresses
    )
    return partial(BoundedConnection, limits)


def _install(app: Application, settings: Settings, rows: Iterable[Served]) -> None:
    """Install the endpoints of this process; metrics need no token if the settings say so."""
    is_open = settings.metrics_access == "open"
    served = [replace(row, role=None) if is_open and row in METRICS else row for row in rows]
    rates = Rates(
        settings.token_requests_per_s,
        settings.address_requests_per_min,
        peer_messages_per_s=settings.peer_messages_per_s,
    )
    install(app, served, rates, settings.max_body_bytes, settings.keystone_url)

"""The applications of an API process and of a worker: routers and lifespan, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app.api.install import DESCRIPTION, install, install_worker
from app.engine.cloud import warm_up
from app.settings import Settings
from app.wiring import WorkerParts, open_services


def end_streams(app: FastAPI) -> None:
    """End the answers that would never end by themselves, so that the process can stop."""
    app.state.services.feed.close()


def create_app(settings: Settings) -> FastAPI:
    """The application; it opens the database when it starts and leaves it when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(warm_up)
        async with open_services(settings) as services:
            app.state.services = services
            yield

    app = FastAPI(**DESCRIPTION, lifespan=lifespan)
    install(app, max_body_bytes=settings.max_body_bytes, open_metrics=settings.metrics_access == "open")
    return app


def create_worker_app(settings: Settings, parts: WorkerParts) -> FastAPI:
    """What a worker tells of itself: its health and its metrics."""
    app = FastAPI(**DESCRIPTION, openapi_url=None)
    app.state.services = parts
    install_worker(app, max_body_bytes=settings.max_body_bytes, open_metrics=settings.metrics_access == "open")
    return app

"""The API process: routers and lifespan, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app.api.install import DESCRIPTION, Rates, install
from app.engine.cloud import warm_up
from app.settings import Settings
from app.wiring import open_services


def create_app(settings: Settings) -> FastAPI:
    """The application; it opens the database when it starts and leaves it when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(warm_up)
        async with open_services(settings) as services:
            app.state.services = services
            yield

    app = FastAPI(**DESCRIPTION, lifespan=lifespan)
    rates = Rates(settings.token_requests_per_s, settings.address_requests_per_min)
    install(app, max_body_bytes=settings.max_body_bytes, rates=rates)
    return app

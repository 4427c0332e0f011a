"""The services that handlers and pages call; `app.state.services` is put there by wiring."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request

from app.services.feed import Feed
from app.services.observing import Observing
from app.services.reading import Reading
from app.services.scheduler import Scheduler
from app.services.tokens import TokenKeeper
from app.services.utilisation import UtilisationHistory
from app.services.watching import Watching
from app.services.webhooks import WebhookKeeper


def scheduler(request: Request) -> Scheduler:
    """Everything that changes a cloud, and its state."""
    return cast("Scheduler", request.app.state.services.scheduler)


def history(request: Request) -> UtilisationHistory:
    """What was in use over time."""
    return cast("UtilisationHistory", request.app.state.services.history)


def reading(request: Request) -> Reading:
    """What is read from the store without the state."""
    return cast("Reading", request.app.state.services.reading)


def observing(request: Request) -> Observing:
    """What is so of all clouds right now."""
    return cast("Observing", request.app.state.services.observing)


def tokens(request: Request) -> TokenKeeper:
    """Access tokens."""
    return cast("TokenKeeper", request.app.state.services.tokens)


def feed(request: Request) -> Feed:
    """Logs as they grow."""
    return cast("Feed", request.app.state.services.feed)


def webhooks(request: Request) -> WebhookKeeper:
    """Webhook subscriptions."""
    return cast("WebhookKeeper", request.app.state.services.webhooks)


def watching(request: Request) -> Watching:
    """Whether anything changed."""
    return cast("Watching", request.app.state.services.watching)

"""Handlers for what peers ask: whether a job may run here, that it shall, and what became of it.

The origin is always the peer whose token is shown; nothing in a request says who asks.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import OfferNotFound
from app.domain.jobs import LONGEST_JOB_ID, AttemptKey
from app.domain.values import NAME_PATTERN
from app.federation.hosting import Hosting
from app.federation.promising import PromiseToPeers
from app.federation.wire.offers import AwardBody, OfferBody, PromiseQuery, offer_answer, outputs_answer, promise_answer
from app.platform.http.auth import caller_of
from app.platform.http.bodies import read_body, read_query
from app.platform.http.reached import reached
from app.platform.http.respond import respond

_ATTEMPT = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
"""A job has at most three attempts at each of 64 peers; a host that looked through any number would be slow."""
_NAME = re.compile(NAME_PATTERN, re.ASCII)


async def offer_job(request: Request) -> Response:
    """Hold room for an attempt to run a peer's job, or refuse it. The same offer again has the same answer."""
    body, key = await read_body(request, OfferBody), _key(request)
    return respond(offer_answer(await _hosting(request).offer(_cloud(request), key, body.job())), 201)


async def award_job(request: Request) -> Response:
    """Start an attempt whose room is held still. One that was never offered can never be offered later.

    One with inputs starts once they have been pulled. The same award again brings new links, and tells how far it is.
    """
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    given = (await read_body(request, AwardBody)).given() if has_body else None
    return respond(offer_answer(await _hosting(request).award(_cloud(request), _key(request), given)))


async def show_outputs(request: Request) -> Response:
    """Tell where the outputs of an attempt can be read, once it has finished and they are all there."""
    return respond(outputs_answer(await _hosting(request).outputs(_cloud(request), _key(request))))


async def release_outputs(request: Request) -> Response:
    """Let the outputs of an attempt go: its origin has them, or wants none."""
    await _hosting(request).release(_cloud(request), _key(request))
    return Response(status_code=204)


async def promise_peer(request: Request) -> Response:
    """Tell a peer how long instances of a size would live if they started now. Nothing is held; plans rest on it."""
    query, origin = read_query(request, PromiseQuery), caller_of(request).name.partition(".")[0]
    found = await reached(request, PromiseToPeers).promise(_cloud(request), origin, query.demand())
    return respond(promise_answer(found))


async def show_offer(request: Request) -> Response:
    """Tell what became of an attempt."""
    return respond(offer_answer(await _hosting(request).known(_cloud(request), _key(request))))


async def withdraw_offer(request: Request) -> Response:
    """End an attempt, whatever has become of it. The answer is the last word on it."""
    return respond(offer_answer(await _hosting(request).withdraw(_cloud(request), _key(request))))


def _hosting(request: Request) -> Hosting:
    return reached(request, Hosting)


def _cloud(request: Request) -> str:
    return str(request.path_params["cloud"])


def _key(request: Request) -> AttemptKey:
    path = request.path_params
    attempt = path["attempt"]
    if not _ATTEMPT.fullmatch(attempt):
        raise OfferNotFound("there is no such attempt")
    if not _NAME.fullmatch(path["offer"]) or len(path["offer"]) > LONGEST_JOB_ID:
        raise OfferNotFound("no job has such an id")
    return AttemptKey(caller_of(request).name.partition(".")[0], path["offer"], int(attempt))

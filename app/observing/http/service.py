"""Handlers for the service itself: discovery, health, readiness."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from app.domain.errors import LogNewer, TaskFailing, Unavailable
from app.domain.values import Role
from app.observing.health import HealthCheck
from app.platform.http.auth import may, recognise
from app.platform.http.errors import MAX_VERSION, MIN_VERSION, PROBLEMS, RETRY_AFTER_S
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.platform.http.safety import SAFE_HEADERS
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.service import CloudReadinessAnswer, ReadinessAnswer, VersionAnswer, VersionsAnswer

_VERSIONS = VersionsAnswer(
    versions=[
        VersionAnswer(
            id="v1",
            status="CURRENT",
            min_version=MIN_VERSION,
            max_version=MAX_VERSION,
            links=[Link(rel="self", href="/v1"), Link(rel="describedby", href="/openapi.json")],
        )
    ]
)


async def discover(request: Request) -> Response:
    """List the versions of this interface; a browser, which asks for a page, is sent to the pages."""
    if "text/html" in request.headers.get("Accept", ""):
        return RedirectResponse("/ui", 303, SAFE_HEADERS)
    return respond(_VERSIONS, headers=SAFE_HEADERS)


async def check_health(request: Request) -> Response:
    """Return `OK` if the service can answer, else 503 with the reason."""
    try:
        await reached(request, HealthCheck).check_ready()
    except Unavailable as error:
        return PlainTextResponse(f"{PROBLEMS[type(error)].code}: {error}", 503, {"Retry-After": str(RETRY_AFTER_S)})
    return PlainTextResponse("OK")


async def check_readiness(request: Request) -> Response:
    """Check that the database answers and that this process can read its logs.

    A caller with the role of reader also gets the age of each cloud's newest quantile table by that cloud's clock, and
    how far the time of its log is ahead.
    """
    try:
        caller = await recognise(request)
        await reached(request, HealthCheck).check_ready()
        found = [] if caller is None else await reached(request, HealthCheck).readiness()
    except Unavailable as error:
        return respond(_not_ready(error), 503, {"Retry-After": str(RETRY_AFTER_S)})
    clouds = [
        answer_of(CloudReadinessAnswer, one, name=one.cloud, table_age_s=one.age_s)
        for one in found
        if caller is not None and may(caller, Role.READER, one.cloud)
    ]
    return respond(ReadinessAnswer(ready=True, code=None, database="OK", log="OK", clouds=clouds))


def _not_ready(error: Unavailable) -> ReadinessAnswer:
    code, reason = PROBLEMS[type(error)].code, str(error)
    if isinstance(error, LogNewer | TaskFailing):
        return ReadinessAnswer(ready=False, code=code, database="OK", log=reason, clouds=[])
    return ReadinessAnswer(ready=False, code=code, database=reason, log="unknown", clouds=[])

"""The one table from every error to its HTTP status and permanent code, and the answers made of it.

Domain errors describe failures in terms of the domain. Errors of the HTTP layer are the leaves of `RequestError` below.
A test keeps the table complete.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any, get_args
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.types import Scope

from app.domain import errors
from app.platform.http.respond import respond
from app.platform.http.safety import SAFE_HEADERS
from app.platform.http.wording import plain
from app.platform.telemetry.context import without_tokens
from tenure_client.forms.answer import Link
from tenure_client.forms.errors import ErrorAnswer, ErrorsAnswer

logger = logging.getLogger(__name__)

SERVICE_TYPE = "preemptible"
MIN_VERSION = MAX_VERSION = "1.0"
OTHERS_VERSION = r"[a-z][a-z0-9-]{0,63} ([0-9]{1,4}\.[0-9]{1,4}|latest)"
"""Versions of other services, which may stand in the same header, separated by commas."""
RETRY_AFTER_S = 1
MOST_FAULTS = 20
"""The number of faults reported for one body, which may contain thousands."""


class RequestError(Exception):
    """The root of errors that a request can meet before it reaches the domain. The message is the detail."""


class Unauthenticated(RequestError):
    """The request carries no valid token."""


class Forbidden(RequestError):
    """The token's role does not allow this."""


class ScopeInsufficient(RequestError):
    """The token is for one cloud, and the request concerns more than one."""


class RateExceeded(RequestError):
    """The token, or the address if there is no valid token, has used up its requests."""

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class RequestMalformed(RequestError):
    """The request is not valid HTTP."""


class RequestTooSlow(RequestError):
    """The request did not arrive completely in time."""


class HeadTooLarge(RequestError):
    """The request line and the headers are larger than this service accepts."""


class TargetTooLong(RequestError):
    """The path and the query are longer than this service accepts."""


class QueryTooLarge(RequestError):
    """The request has more query parameters than any resource takes."""


class BodyTooComplex(RequestError):
    """The body has more values than this service accepts, or nests them deeper."""


class FormInvalid(RequestError):
    """The form that a page sent is not the one that the page contains."""


class ConnectionsExhausted(RequestError):
    """There are too many connections."""


class PathUnknown(RequestError):
    """No resource has this path."""


class MethodUnknown(RequestError):
    """The resource has no such method."""


class BodyMalformed(RequestError):
    """The body is not valid JSON."""


class BodyTooLarge(RequestError):
    """The body is larger than this service accepts."""


class ContentTypeUnsupported(RequestError):
    """The body is not declared as JSON."""


class VersionMalformed(RequestError):
    """The microversion header cannot be read."""


class VersionUnsupported(RequestError):
    """The microversion is out of range."""


class FieldInvalid(RequestError):
    """A field of the body or a query parameter has an invalid value, or stands twice."""


class FieldUnknown(RequestError):
    """A field of the body or a query parameter is unknown."""


class FieldMissing(RequestError):
    """A required field of the body or a required query parameter is missing."""


class Unforeseen(RequestError):
    """The service failed because of a defect."""


class RequestInvalid(Exception):
    """The faults in the fields of a body or a query, one by one."""

    def __init__(self, faults: Iterable[RequestError]) -> None:
        self.faults = list(islice(faults, MOST_FAULTS))
        super().__init__(str(len(self.faults)))


@dataclass(frozen=True, slots=True)
class Problem:
    """The answer to an error."""

    status: int
    code: str
    title: str


PROBLEMS: dict[type[Exception], Problem] = {
    errors.CloudNotFound: Problem(404, "preemptible.cloud.not_found", "No such cloud"),
    errors.NodeNotFound: Problem(404, "preemptible.node.not_found", "No such node"),
    errors.FlavorNotFound: Problem(404, "preemptible.flavor.not_found", "No such flavor"),
    errors.InstanceNotFound: Problem(404, "preemptible.instance.not_found", "No such instance"),
    errors.TableNotFound: Problem(404, "preemptible.table.not_found", "No such table of quotes"),
    errors.RunNotFound: Problem(404, "preemptible.run.not_found", "No such run"),
    errors.TokenNotFound: Problem(404, "preemptible.token.not_found", "No such token"),
    errors.PeerNotFound: Problem(404, "preemptible.peer.not_found", "No such peer"),
    errors.OfferNotFound: Problem(404, "preemptible.offer.not_found", "No such attempt"),
    errors.NotAPeer: Problem(404, "preemptible.offer.not_a_peer", "No peer of that name"),
    errors.PeerExists: Problem(409, "preemptible.peer.conflict", "The peer exists, or there are too many"),
    errors.OfferConflict: Problem(409, "preemptible.offer.conflict", "The attempt has another body, or has not ended"),
    errors.PeerRefused: Problem(400, "preemptible.peer.refused_address", "This URL is not allowed for a peer"),
    errors.ClockExternal: Problem(400, "preemptible.job.clock_external", "The cloud's clock is external"),
    errors.DataUnavailable: Problem(409, "preemptible.job.data_unavailable", "The job's data is not available"),
    errors.JobNotFound: Problem(404, "preemptible.job.not_found", "No such job"),
    errors.OwnerNotFound: Problem(404, "preemptible.owner.not_found", "No such owner"),
    errors.WebhookNotFound: Problem(404, "preemptible.webhook.not_found", "No such webhook"),
    errors.VenueNotFound: Problem(404, "preemptible.venue.not_found", "No such venue"),
    errors.PoolNotFound: Problem(404, "preemptible.pool.not_found", "No such pool in the venue"),
    errors.ClusterNotFound: Problem(404, "preemptible.cluster.not_found", "No such cluster"),
    errors.PlanNotFound: Problem(404, "preemptible.plan.not_found", "No such plan"),
    errors.PlannedJobNotFound: Problem(404, "preemptible.plan.job_not_found", "No such job in the plan"),
    errors.HandoverNotFound: Problem(404, "preemptible.handover.not_found", "No such eviction"),
    errors.CloudExists: Problem(409, "preemptible.cloud.exists", "The cloud exists"),
    errors.NodeExists: Problem(409, "preemptible.node.exists", "The node exists with another capacity"),
    errors.FlavorExists: Problem(409, "preemptible.flavor.exists", "The flavor exists with other resources"),
    errors.InstanceConflict: Problem(
        409, "preemptible.instance.conflict", "The id was used with another body, or is kept"
    ),
    errors.JobConflict: Problem(409, "preemptible.job.conflict", "The job's id was used with another body"),
    errors.NodeNotEmpty: Problem(409, "preemptible.node.not_empty", "On-demand instances run on the node"),
    errors.PricesStale: Problem(409, "preemptible.prices.stale", "The newest price is too old"),
    errors.HistoryTooShort: Problem(409, "preemptible.history.too_short", "There are no prices as old as that"),
    errors.PlanConflict: Problem(409, "preemptible.plan.conflict", "The id was used with another plan"),
    errors.PlanInfeasible: Problem(409, "preemptible.plan.infeasible", "No plan does that"),
    errors.OutcomeConflict: Problem(409, "preemptible.outcome.conflict", "Another outcome was told of the job"),
    errors.TokenExists: Problem(409, "preemptible.token.exists", "A token has this name"),
    errors.DrillImpossible: Problem(409, "preemptible.drill.impossible", "No running spot instance to evict"),
    errors.AdviceImpossible: Problem(
        409, "preemptible.checkpoint_advice.impossible", "No eviction is forecast for the instance"
    ),
    errors.ExtensionOfOnDemand: Problem(
        409, "preemptible.extension.on_demand", "An on-demand instance has no promise to extend"
    ),
    errors.ExtensionOfEnded: Problem(409, "preemptible.extension.ended", "The instance does not run"),
    errors.ExtensionTooLate: Problem(409, "preemptible.extension.too_late", "The declared lifetime is over"),
    errors.ExtensionNotLonger: Problem(409, "preemptible.extension.not_longer", "The lifetime is not longer"),
    errors.MoveOfEnded: Problem(409, "preemptible.move.ended", "The instance does not run"),
    errors.MoveOfGroup: Problem(409, "preemptible.move.group", "A group does not move"),
    errors.MoveToDrained: Problem(409, "preemptible.move.drained", "The node takes no more placements"),
    errors.MoveWithoutRoom: Problem(409, "preemptible.move.no_room", "The node has no room for the instance"),
    errors.ObservedSpot: Problem(409, "preemptible.observation.spot", "Only on-demand instances are observed"),
    errors.NodeTooSmall: Problem(409, "preemptible.node.too_small", "On-demand instances use more than that"),
    errors.TooManyWebhooks: Problem(409, "preemptible.webhook.too_many", "The cloud has as many webhooks as it may"),
    errors.TooManyClasses: Problem(
        409, "preemptible.eviction_probability.too_many", "As many eviction probabilities are promised as may be"
    ),
    errors.TooManyInstances: Problem(
        409, "preemptible.instance.too_many", "The cloud runs as many instances as it may"
    ),
    errors.TooManyJobs: Problem(409, "preemptible.job.too_many", "As many jobs have not ended as may be"),
    errors.TooManyEvictions: Problem(409, "preemptible.eviction.too_many", "Too many evictions"),
    errors.TooManyOwners: Problem(409, "preemptible.owner.too_many", "The cloud has as many owners as it may"),
    errors.TooManyQuotas: Problem(409, "preemptible.quota.too_many", "As many owners have quotas as may"),
    errors.TooManyClusters: Problem(
        409, "preemptible.cluster.too_many", "The service keeps as many clusters as it may"
    ),
    errors.TooManyNodes: Problem(409, "preemptible.node.too_many", "The cloud has as many nodes as it may"),
    errors.TooManyFlavors: Problem(409, "preemptible.flavor.too_many", "The cloud has as many flavors as it may"),
    errors.TooManyPools: Problem(409, "preemptible.pools.too_many", "The venue has as many pools as it may"),
    errors.FormatNotInForce: Problem(409, "preemptible.log.format_not_in_force", "The upgrade is not finished"),
    errors.LogPutBack: Problem(409, "preemptible.log.put_back", "The log was put back to an earlier end"),
    errors.WebhookRefused: Problem(400, "preemptible.webhook.url_refused", "This URL is not allowed as a receiver"),
    errors.TimeMissing: Problem(400, "preemptible.time.missing", "The request must carry its time"),
    errors.TimeUnexpected: Problem(400, "preemptible.time.unexpected", "The request may not carry a time"),
    errors.TimeBackwards: Problem(400, "preemptible.time.backwards", "Time runs backwards"),
    errors.TimeAhead: Problem(400, "preemptible.time.ahead", "Time jumps too far ahead"),
    errors.DeadlinePassed: Problem(400, "preemptible.deadline.passed", "The deadline is over"),
    errors.PlanInvalid: Problem(400, "preemptible.plan.invalid", "The plan's parts do not fit each other"),
    errors.IdNotOwn: Problem(403, "preemptible.instance.id_not_own", "The id is not one of the caller's own"),
    errors.LifetimeMissing: Problem(400, "preemptible.lifetime.missing", "A spot start declares its lifetime"),
    errors.LifetimeOutOfBounds: Problem(422, "preemptible.lifetime.out_of_bounds", "The policy bounds lifetimes"),
    errors.ProbabilityOutOfBounds: Problem(
        422, "preemptible.eviction_probability.out_of_bounds", "The policy bounds eviction probabilities"
    ),
    errors.ProbabilityUnexpected: Problem(
        400, "preemptible.eviction_probability.unexpected", "An on-demand start has no eviction probability"
    ),
    errors.GroupOnDemand: Problem(400, "preemptible.group.on_demand", "Only spot instances are placed in groups"),
    errors.AdviceTermsInvalid: Problem(
        400, "preemptible.checkpoint_advice.terms_invalid", "The times of the checkpoints make no sense"
    ),
    errors.PolicyInvalid: Problem(400, "preemptible.policy.invalid", "The policy contradicts itself"),
    errors.TimeRangeInvalid: Problem(
        400, "preemptible.time.range_invalid", "The end of the time is not after its begin"
    ),
    errors.MarkerInvalid: Problem(400, "preemptible.marker.invalid", "The marker names nothing in this list"),
    errors.LogUnavailable: Problem(503, "preemptible.log.unavailable", "The event log cannot be reached"),
    errors.TaskFailing: Problem(503, "preemptible.service.task_failing", "A background task keeps failing"),
    errors.IdentityUnavailable: Problem(503, "preemptible.identity.unavailable", "Keystone cannot be asked"),
    errors.LogContended: Problem(503, "preemptible.log.contended", "Other writers were first"),
    errors.LogBroken: Problem(503, "preemptible.log.broken", "Events are missing in the log"),
    errors.EpochsCrossed: Problem(503, "preemptible.batch.epochs_crossed", "The batch needs a further table"),
    errors.LogNewer: Problem(503, "preemptible.log.newer", "A newer version of the service wrote this log"),
    errors.Overloaded: Problem(503, "preemptible.service.overloaded", "Too many requests wait"),
    errors.ObjectsUnavailable: Problem(503, "preemptible.objects.unavailable", "The object store does not answer"),
    errors.VenueBusy: Problem(503, "preemptible.venue.busy", "Prices of venues are being written"),
    errors.ServiceStopping: Problem(503, "preemptible.service.stopping", "This process is stopping"),
    errors.TooManyStreams: Problem(429, "preemptible.streams.too_many", "Too many event streams"),
    Unauthenticated: Problem(401, "preemptible.token.invalid", "No valid token"),
    Forbidden: Problem(403, "preemptible.role.insufficient", "The token's role does not allow this"),
    ScopeInsufficient: Problem(403, "preemptible.scope.insufficient", "The token is for one cloud"),
    RateExceeded: Problem(429, "preemptible.rate.exceeded", "Too many requests"),
    RequestMalformed: Problem(400, "preemptible.request.malformed", "The request is not valid HTTP"),
    RequestTooSlow: Problem(408, "preemptible.request.too_slow", "The request did not come in time"),
    HeadTooLarge: Problem(431, "preemptible.head.too_large", "The headers are too large"),
    TargetTooLong: Problem(414, "preemptible.target.too_long", "The path and the query are too long"),
    QueryTooLarge: Problem(400, "preemptible.query.too_large", "Too many query parameters"),
    BodyTooComplex: Problem(400, "preemptible.body.too_complex", "The body has too many values"),
    FormInvalid: Problem(400, "preemptible.form.invalid", "The form is not one of this service's"),
    ConnectionsExhausted: Problem(503, "preemptible.connections.exhausted", "Too many connections"),
    PathUnknown: Problem(404, "preemptible.path.not_found", "No such path"),
    MethodUnknown: Problem(405, "preemptible.method.not_allowed", "No such method here"),
    BodyMalformed: Problem(400, "preemptible.body.malformed", "The body is not valid JSON"),
    BodyTooLarge: Problem(413, "preemptible.body.too_large", "The body is too large"),
    ContentTypeUnsupported: Problem(415, "preemptible.content_type.unsupported", "The body must be JSON"),
    VersionMalformed: Problem(400, "preemptible.microversion.malformed", "The microversion cannot be read"),
    VersionUnsupported: Problem(406, "preemptible.microversion.unsupported", "The microversion is out of range"),
    FieldInvalid: Problem(400, "preemptible.field.invalid", "A field has an invalid value"),
    FieldUnknown: Problem(400, "preemptible.field.unknown", "There is no such field"),
    FieldMissing: Problem(400, "preemptible.field.missing", "A field is missing"),
    Unforeseen: Problem(500, "preemptible.service.fault", "The service failed"),
}

_FIELD_ERRORS: dict[str, type[RequestError]] = {
    "extra_forbidden": FieldUnknown,
    "missing": FieldMissing,
    "json_invalid": BodyMalformed,
}


def answer(scope: Scope, error: Exception) -> Response:
    """Return the answer that tells of an error (docs/errors.md)."""
    entries = entries_of(scope["state"]["request_id"], error)
    told = respond(ErrorsAnswer(errors=entries), entries[0].status, _headers(error))
    if isinstance(error, Unauthenticated) and scope["app"].state.keystone_url is not None:
        told.headers["WWW-Authenticate"] += f', Keystone uri="{scope["app"].state.keystone_url}"'
    return told


def raw_answer(error: Exception) -> bytes:
    """Return the error answer as bytes, for a connection that is closed before its request could be read."""
    request_id = f"req-{uuid4()}"
    response = respond(ErrorsAnswer(errors=entries_of(request_id, error)), 400, _headers(error))
    status = HTTPStatus(PROBLEMS[type(error)].status)
    headers = [*response.raw_headers, (b"x-openstack-request-id", request_id.encode()), (b"connection", b"close")]
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    return b"".join([head, *(b"%s: %s\r\n" % header for header in headers), b"\r\n", bytes(response.body)])


def entries_of(request_id: str, error: Exception) -> list[ErrorAnswer]:
    """Return the error's entries: one, or one for each faulty field."""
    if isinstance(error, RequestInvalid):
        return [_entry(request_id, fault) for fault in error.faults]
    return [_entry(request_id, error)]


def _entry(request_id: str, error: Exception) -> ErrorAnswer:
    known = type(error) in PROBLEMS
    problem = PROBLEMS[type(error) if known else Unforeseen]
    common: dict[str, Any] = {
        "request_id": request_id,
        "code": problem.code,
        "status": problem.status,
        "title": problem.title,
        "detail": without_tokens(str(error)) if known else "the service failed; its log has more under this request id",
        "links": [Link(rel="help", href="/docs")],
    }
    if type(error) is VersionUnsupported:
        return ErrorAnswer(**common, min_version=MIN_VERSION, max_version=MAX_VERSION)
    return ErrorAnswer(**common)


def faults_in(error: ValidationError, form: type[BaseModel] | None, *within: str) -> Iterator[RequestError]:
    """Yield the faults that a form found; `within` is the form's place in the body.

    A list whose items are at fault is not called too short as well: only items without a fault are counted.
    """
    found = error.errors(include_url=False, include_input=False)
    around = {item["loc"][:depth] for item in found for depth in range(len(item["loc"]))}
    for item in found:
        if item["type"] == "too_short" and item["loc"] in around:
            continue
        place = ".".join([*within, *map(str, item["loc"])])
        kind = _FIELD_ERRORS.get(item["type"], FieldInvalid)
        said = _no_such_field(form, item["loc"]) if kind is FieldUnknown else plain(item)
        yield kind(f"{place}: {said}" if place else said)


def _no_such_field(form: type[BaseModel] | None, place: tuple[int | str, ...]) -> str:
    """Return the words on a field that the form has not, with the place where it belongs or the fields that are."""
    *around, name = place
    for part in around:
        form = None if form is None else _form_of(form, part)
    if form is None:
        return "there is no such field"
    if around:
        return f"there is no such field; there are: {', '.join(_fields(form)) or 'none'}"
    for outer, field in form.model_fields.items():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel) and name in _fields(part):
                return f"there is no such field here; it belongs into {field.alias or outer!r}"
    return f"there is no such field; there are: {', '.join(_fields(form)) or 'none'}"


def _form_of(form: type[BaseModel], place: int | str) -> type[BaseModel] | None:
    """Return the form of a field; None if it has none of its own."""
    found = (field for name, field in form.model_fields.items() if place == (field.alias or name))
    parts = (part for field in found for part in (field.annotation, *get_args(field.annotation)))
    return next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _fields(form: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in form.model_fields.items()]


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, errors.Unavailable | ConnectionsExhausted):
        return SAFE_HEADERS | {"Retry-After": str(RETRY_AFTER_S)}
    if isinstance(error, RateExceeded):
        return SAFE_HEADERS | {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, Unauthenticated):
        return SAFE_HEADERS | {"WWW-Authenticate": 'Bearer realm="preemptible"'}
    return SAFE_HEADERS

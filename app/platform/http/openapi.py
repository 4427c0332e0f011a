"""Documentation generated from the table of endpoints: /openapi.json, and a page that shows it.

The page's scripts come from the installed `fastapi-offline` package; nothing is loaded from elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from app import __version__
from app.domain import errors
from app.platform.http import errors as api_errors
from app.platform.http.auth import GRANTS
from app.platform.http.errors import MAX_VERSION, OTHERS_VERSION, PROBLEMS, SERVICE_TYPE
from app.platform.http.safety import SAFE_HEADERS, page_headers
from app.platform.http.schemas import event_schemas, schemas_of
from app.platform.http.serving import Served
from tenure_client.endpoints import Chapter
from tenure_client.forms.errors import ErrorsAnswer

DESCRIPTION: dict[str, Any] = {
    "title": "Tenure",
    "version": __version__,
    "summary": "A scheduler that sells a cloud's spare capacity with a promise.",
    "description": (
        "A spot instance that is admitted will be evicted before its declared lifetime with at most the advertised "
        "probability. Times are RFC 3339, durations are seconds (`_s`); both are exact to the microsecond. "
        "Send a token as `X-Auth-Token` or as `Authorization: Bearer`, and the version wanted as "
        "`OpenStack-API-Version: preemptible 1.0`. A rejection is a decision, not an error."
    ),
    "license_info": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "openapi_tags": [
        {
            "name": Chapter.CLOUDS,
            "description": "A pool of nodes with one scheduler, one event log and one SLA policy.",
        },
        {"name": Chapter.NODES, "description": "Compute hosts with a capacity."},
        {"name": Chapter.FLAVORS, "description": "Named resource vectors that instances ask for."},
        {"name": Chapter.INSTANCES, "description": "Virtual machines: started, stopped, evicted."},
        {"name": Chapter.QUOTES, "description": "What the quantile tables say, and the runs that compute them."},
        {"name": Chapter.EVENTS, "description": "The ordered, durable record of everything that changed or was asked."},
        {"name": Chapter.TOKENS, "description": "Who may call: named tokens with a role, for one cloud or for all."},
        {"name": Chapter.WEBHOOKS, "description": "Receivers that the log's events are sent to."},
        {
            "name": Chapter.CLUSTERS,
            "description": "Batch clusters whose nodes are bought at clouds, as their managers tell of them.",
        },
        {"name": Chapter.SERVICE, "description": "The service itself; a token is needed for its metrics alone."},
    ],
    "openapi_url": None,
    "docs_url": None,
    "redoc_url": None,
    "redirect_slashes": False,
    "telemetry": {"tracing": False, "metrics": False, "logs": False},
}
"""The arguments with which FastAPI is constructed."""

_COMPONENT = "#/components/schemas/{name}"
_ERRORS = "ErrorsAnswer"
# By reference: models for each of some 250 error answers would make every start half a second slower.
_ERRORS_CONTENT = {"application/json": {"schema": {"$ref": _COMPONENT.format(name=_ERRORS)}}}

PLACES: dict[str, tuple[str, type[Exception]]] = {
    "cloud": ("north", errors.CloudNotFound),
    "node": ("node-1", errors.NodeNotFound),
    "flavor": ("small", errors.FlavorNotFound),
    "instance": ("i-1", errors.InstanceNotFound),
    "spot": ("i-spot", errors.InstanceNotFound),
    "epoch": ("1", errors.TableNotFound),
    "run": ("1", errors.RunNotFound),
    "token": ("2", errors.TokenNotFound),
    "webhook": ("1", errors.WebhookNotFound),
    "owner": ("controller", errors.OwnerNotFound),
    "handover": ("i-drill", errors.HandoverNotFound),
    "peer": ("north-b", errors.PeerNotFound),
    "offer": ("job-1", errors.OfferNotFound),
    "attempt": ("1", errors.OfferNotFound),
    "job": ("job-1", errors.JobNotFound),
    "venue": ("aws-east", errors.VenueNotFound),
    "pool": ("1", errors.PoolNotFound),
    "cluster": ("lab", errors.ClusterNotFound),
    "plan": ("nightly-1", errors.PlanNotFound),
}
"""The places in paths: an example, and the error where nothing has that name."""
_DOCUMENT = "/openapi.json"
_ASSETS = "/docs/assets"
_TOKENS = {
    "XAuthToken": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
    "Bearer": {"type": "http", "scheme": "bearer"},
}
_ONE_VERSION = f"({SERVICE_TYPE} ({re.escape(MAX_VERSION)}|latest)|{OTHERS_VERSION})"
_VERSION_PARAMETER = {
    "name": "OpenStack-API-Version",
    "in": "header",
    "description": "The microversion wanted; absent means the lowest. Other services' versions may stand beside it.",
    "schema": {
        "anyOf": [
            {"enum": [f"{SERVICE_TYPE} {MAX_VERSION}", f"{SERVICE_TYPE} latest"]},
            {"type": "string", "pattern": f"^{_ONE_VERSION}( *, *{_ONE_VERSION}){{0,15}}$"},
        ]
    },
    "example": f"{SERVICE_TYPE} {MAX_VERSION}",
}
_ANSWER_HEADERS = {
    "X-Openstack-Request-Id": {"description": "This request's id in the service's log.", "schema": {"type": "string"}},
    "OpenStack-API-Version": {"description": "The microversion used.", "schema": {"type": "string"}},
}


_EVENT_OF_STREAM = {
    "description": "Each event of the stream.",
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Its seq."},
        "event": {"type": "string", "description": "Its kind."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}


def errors_of(row: Served) -> tuple[type[Exception], ...]:
    """Return every error that the endpoint can answer."""
    found: list[type[Exception]] = [
        api_errors.VersionMalformed,
        api_errors.VersionUnsupported,
        api_errors.BodyTooLarge,
        api_errors.FieldUnknown,
        api_errors.QueryTooLarge,
        api_errors.RateExceeded,
        api_errors.Unforeseen,
        *row.errors,
    ]
    if row.role is not None:
        found += [api_errors.Unauthenticated, errors.LogUnavailable, errors.IdentityUnavailable]
        found += [api_errors.Forbidden] if any(row.role not in granted for granted in GRANTS.values()) else []
        found += [api_errors.ScopeInsufficient] if not row.is_for_scoped else []
    if "{cloud}" in row.path:
        found += [errors.LogNewer, errors.LogBroken]
    found += [error for place, (_, error) in PLACES.items() if f"{{{place}}}" in row.path]
    if row.query is not None or row.body is not None:
        found.append(api_errors.FieldInvalid)
    if row.body is not None:
        found += [api_errors.FieldMissing, api_errors.BodyMalformed, api_errors.BodyTooComplex]
        found.append(api_errors.ContentTypeUnsupported)
    return tuple(found)


def responses(row: Served) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of the answer and of the errors, with the codes that each status may carry."""
    problems = sorted((PROBLEMS[error] for error in errors_of(row)), key=lambda problem: problem.code)
    found: dict[int | str, dict[str, Any]] = {}
    if row.answer is not None:
        found[row.endpoint.status] = {"content": _answer_content(row)}
    if row.may_say_no:
        found[503] = {"content": _answer_content(row), "description": "No, and why."}  # an answer, and no error
    for status in sorted({problem.status for problem in problems}):
        told = "; ".join(f"`{p.code}` {p.title}" for p in problems if p.status == status)
        found[status] = {"content": _ERRORS_CONTENT, "description": told}
    return found


def _answer_content(row: Served) -> dict[str, Any]:
    if row.answer is None:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": _COMPONENT.format(name=row.answer.__name__)}}}


def _extra(row: Served) -> dict[str, Any]:
    """Return what FastAPI cannot derive from the endpoint: its parameters, its body, its role."""
    found: dict[str, Any] = {"parameters": [*_path_parameters(row), *_query_parameters(row), _VERSION_PARAMETER]}
    if row.body is not None:
        schema = {"$ref": f"#/components/schemas/{row.body.__name__}"}
        content = {"application/json": {"schema": schema, "example": row.example}}
        found["requestBody"] = {"required": True, "content": content}
    if row.role is not None:
        found["security"] = [{name: []} for name in _TOKENS]
        found["x-role"] = row.role.value
    return found


def make_openapi(app: FastAPI, rows: Sequence[Served]) -> dict[str, Any]:
    """Return the OpenAPI document: FastAPI's, plus schemas of bodies, the tokens and the headers of every answer."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        license_info=app.license_info,
    )
    components = document.setdefault("components", {})
    components["schemas"] = _body_schemas(rows) | _answer_schemas(rows) | event_schemas()
    components["securitySchemes"] = _TOKENS
    for row in rows:
        document["paths"][row.path][row.method.lower()] |= _extra(row)
    for methods in document["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                response["headers"] = _ANSWER_HEADERS
                for form in response.get("content", {}).keys() & {"text/event-stream"}:
                    response["content"][form]["schema"] = _EVENT_OF_STREAM
    return document


def install_docs(app: FastAPI, rows: Sequence[Served]) -> None:
    """Serve the document, rendered once, and /docs with local assets, at a limited rate for each address."""
    package = find_spec("fastapi_offline")
    assert package is not None
    assert package.origin is not None

    page = bytes(
        get_swagger_ui_html(
            openapi_url=_DOCUMENT,
            title=app.title,
            swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{_ASSETS}/favicon.png",
        ).body
    )
    headers = page_headers(page)

    @cache
    def written() -> bytes:
        return json.dumps(make_openapi(app, rows), ensure_ascii=False, separators=(",", ":")).encode()

    async def show_document(request: Request) -> Response:
        request.app.state.rates.count_address(request.scope)
        return Response(written(), headers=SAFE_HEADERS, media_type="application/json")

    async def show_docs(request: Request) -> Response:
        request.app.state.rates.count_address(request.scope)
        return HTMLResponse(page, headers=headers)

    app.add_route(_DOCUMENT, show_document)
    app.add_route("/docs", show_docs)
    app.mount(_ASSETS, _Assets(directory=Path(package.origin).parent / "static"))


class _Assets(StaticFiles):
    """The files of the documentation's page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"].state.rates.count_address(scope)
        await super().__call__(scope, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(SAFE_HEADERS)
        return response


def _body_schemas(rows: Sequence[Served]) -> dict[str, Any]:
    bodies = [(row.body, "validation") for row in rows if row.body is not None]
    _, document = models_json_schema(bodies, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas: dict[str, Any] = document["$defs"]
    return schemas


def _answer_schemas(rows: Sequence[Served]) -> dict[str, Any]:
    answers = {row.answer for row in rows if row.answer is not None} | {ErrorsAnswer}
    return schemas_of(sorted(answers, key=lambda form: form.__name__))


def _path_parameters(row: Served) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": example}
        for name, (example, _) in PLACES.items()
        if f"{{{name}}}" in row.path
    ]


def _query_parameters(row: Served) -> list[dict[str, Any]]:
    if row.query is None:
        return []
    document = row.query.model_json_schema()
    parameters = []
    for name, field in document["properties"].items():
        parameter = {"name": name, "in": "query", "schema": _plain(field, document.get("$defs", {}))}
        if "description" in field:
            parameter["description"] = field["description"]
        if name in document.get("required", ()):
            parameter["required"] = True
        if name in row.query_example:
            parameter["example"] = row.query_example[name]
        parameters.append(parameter)
    return parameters


def _plain(field: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a query parameter, without null and without references."""
    (kind, *_) = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    if "$ref" in kind:
        kind = definitions[kind["$ref"].rsplit("/", 1)[-1]]
    plain = {key: value for key, value in {**field, **kind}.items() if key not in {"title", "description", "anyOf"}}
    if plain.get("default", 0) is None:
        del plain["default"]
    return plain

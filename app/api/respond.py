"""Answers as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter
from starlette.responses import Response

from app.api.wire.fields import Answer

_ADAPTERS: dict[type[Answer], TypeAdapter[Answer]] = {}


def respond(answer: Answer, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The answer as JSON."""
    kind = type(answer)
    adapter = _ADAPTERS.get(kind) or _ADAPTERS.setdefault(kind, TypeAdapter(kind))
    return Response(adapter.dump_json(answer), status, headers, "application/json")

"""Answers as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.json import Encoder
from starlette.responses import Response

from tenure_client.forms.answer import Answer

_encode = Encoder().encode


def respond(answer: Answer, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer as JSON."""
    return Response(_encode(answer), status, headers, "application/json")

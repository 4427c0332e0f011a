"""Whose work is being done: what every log line of a request or of a run carries without being told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

from structlog.contextvars import bound_contextvars

_TOKEN = re.compile(r"tnr_[A-Za-z0-9_-]*")
REQUEST: ContextVar[Mapping[str, Any] | None] = ContextVar("tenure_request", default=None)
"""The ASGI scope of the request that is being answered. One assignment a request, and it is read only when a line is
written: what the request turns out to be is in it by then."""


def working_on(**fields: object) -> AbstractContextManager[None]:
    """Every line that is logged within the block carries these fields."""
    return bound_contextvars(**fields)


def shown(text: str) -> str:
    """What a caller wrote into a path, as it may be logged: one line, and no token that got there by mistake."""
    return _TOKEN.sub("tnr_...", quote(text)) if "tnr_" in text else quote(text)


def request_fields(scope: Mapping[str, Any]) -> dict[str, object]:
    """Who asks for what, as far as it is known; never the token. Names from the path are quoted: a caller made them."""
    state = scope["state"]
    fields: dict[str, object] = {"request_id": state["request_id"]}
    operation = state.get("operation")
    if operation is not None:
        fields["operation"] = operation
        cloud = scope["path_params"].get("cloud")
        if cloud is not None:
            fields["cloud"] = shown(cloud)
    if "trace_id" in state:
        fields["trace_id"] = state["trace_id"]
    caller = state.get("caller")
    if caller is not None:
        fields["caller"] = caller.name
    return fields

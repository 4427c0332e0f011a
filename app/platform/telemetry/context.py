"""The context of work: fields that every log line of a request or of a run carries automatically."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote, unquote

from structlog.contextvars import bound_contextvars

_TOKEN = re.compile(r"tnr_[A-Za-z0-9_-]*")
_secrets: set[str] = set()
"""Tokens that do not look like tokens: somebody chose them."""
REQUEST: ContextVar[Mapping[str, Any] | None] = ContextVar("tenure_request", default=None)
"""The ASGI scope of the request being answered. It is assigned once for each request and read only when a line is
written, so it includes fields that were added meanwhile.
"""


def working_on(**fields: object) -> AbstractContextManager[None]:
    """Add these fields to every line logged within the block."""
    return bound_contextvars(**fields)


def keep_secret(token: str) -> None:
    """Leave this token out of all that is logged or told, wherever a caller writes it."""
    _secrets.add(token)


def without_tokens(text: str) -> str:
    """Return the text without tokens that got there by mistake, also percent-encoded ones."""
    if "%" in text and _has_token(plain := unquote(unquote(text))):
        text = plain
    for secret in _secrets:
        text = text.replace(secret, "...")
    return _TOKEN.sub("tnr_...", text)


def shown(text: str) -> str:
    """Return a caller's path in a form safe to log: one line, without tokens."""
    return quote(without_tokens(text))


def _has_token(text: str) -> bool:
    return "tnr_" in text or any(secret in text for secret in _secrets)


def request_fields(scope: Mapping[str, Any]) -> dict[str, object]:
    """Return the known facts about a request, never the token. Callers' names are quoted."""
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

"""The form of every error answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from tenure_client.errors import ServiceRefused, refusal_of
from tenure_client.forms.answer import Answer, Link


class ErrorAnswer(Answer, kw_only=True):
    request_id: str = ""
    code: Annotated[str, Meta(description="The permanent code, on which programs may rely.")]
    status: int
    title: str = ""
    detail: str
    links: list[Link] = field(default_factory=list)
    min_version: Annotated[
        str | UnsetType, Meta(description="The lowest supported microversion, if the requested one is not supported.")
    ] = UNSET
    max_version: Annotated[
        str | UnsetType, Meta(description="The highest supported microversion, if the requested one is not supported.")
    ] = UNSET


class ErrorsAnswer(Answer, kw_only=True):
    errors: list[ErrorAnswer]


def refused(status: int, entries: Sequence[ErrorAnswer], reason: str) -> ServiceRefused:
    """Return the error of an error answer; `reason` is its detail if it has no entries."""
    kind = refusal_of(status)
    if not entries:
        return kind(status, "", reason)
    first, details = entries[0], tuple(entry.detail for entry in entries)
    return kind(status, first.code, first.detail or reason, first.request_id, details)

"""The form of every error answer (design/api.md)."""

from __future__ import annotations

from pydantic import Field

from app.api.wire.fields import Answer
from app.api.wire.paging import Link


class ErrorAnswer(Answer):
    request_id: str
    code: str = Field(description="Permanent: programs may rely on it.")
    status: int
    title: str
    detail: str
    links: list[Link]


class VersionErrorAnswer(ErrorAnswer):
    """An unsupported microversion, with those that there are."""

    min_version: str
    max_version: str


class ErrorsAnswer(Answer):
    errors: list[VersionErrorAnswer | ErrorAnswer]

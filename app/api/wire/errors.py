"""The form of every error answer (design/api.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from app.api.wire.fields import Answer
from app.api.wire.paging import Link


@dataclass(slots=True, kw_only=True)
class ErrorAnswer(Answer):
    request_id: str
    code: Annotated[str, Field(description="Permanent: programs may rely on it.")]
    status: int
    title: str
    detail: str
    links: list[Link]


@dataclass(slots=True, kw_only=True)
class VersionErrorAnswer(ErrorAnswer):
    """An unsupported microversion, with those that there are."""

    min_version: str
    max_version: str


@dataclass(slots=True, kw_only=True)
class ErrorsAnswer(Answer):
    errors: list[VersionErrorAnswer | ErrorAnswer]

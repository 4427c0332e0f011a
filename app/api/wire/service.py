"""The service itself: discovery and readiness."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.wire.fields import Answer
from app.api.wire.paging import Link


@dataclass(slots=True, kw_only=True)
class VersionAnswer(Answer):
    id: str
    status: str
    min_version: str
    max_version: str
    links: list[Link]


@dataclass(slots=True, kw_only=True)
class VersionsAnswer(Answer):
    versions: list[VersionAnswer]


@dataclass(slots=True, kw_only=True)
class CloudReadinessAnswer(Answer):
    """The newest quantile table of a cloud; null before the first."""

    name: str
    epoch: int | None
    computed_at: datetime | None
    table_age_s: Annotated[float | None, Field(description="Since it was published, in the server's time.")]


@dataclass(slots=True, kw_only=True)
class ReadinessAnswer(Answer):
    ready: bool
    code: Annotated[str | None, Field(description="The permanent code of what is wrong; null where it is ready.")]
    database: Annotated[str, Field(description="`OK`, or what is wrong with it.")]
    log: Annotated[str, Field(description="`OK`, or why this process is too old for what the logs hold.")]
    clouds: Annotated[list[CloudReadinessAnswer], Field(description="Those that the token may read; none without one.")]

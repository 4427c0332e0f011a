"""The service itself: discovery and readiness."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from app.api.wire.fields import Answer
from app.api.wire.paging import Link


class VersionAnswer(Answer):
    id: str
    status: str
    min_version: str
    max_version: str
    links: list[Link]


class VersionsAnswer(Answer):
    versions: list[VersionAnswer]


class CloudReadinessAnswer(Answer):
    """The newest quantile table of a cloud; null before the first."""

    name: str
    epoch: int | None
    computed_at: datetime | None
    table_age_s: float | None = Field(description="Since it was published, in the server's time.")


class ReadinessAnswer(Answer):
    ready: bool
    database: str = Field(description="`OK`, or what is wrong with it.")
    clouds: list[CloudReadinessAnswer]

"""Answers on the service itself: access tokens, versions, readiness."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment
from tenure_client.forms.words import RoleWord, TokenStatusWord


class TokenAnswer(Answer, kw_only=True):
    id: str
    name: str
    role: RoleWord
    cloud: Annotated[str | None, Meta(description="The only cloud that the token is for; null: all clouds.")]
    status: TokenStatusWord
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Annotated[Moment | None, Meta(description="Exact to about a minute; null: never.")]
    links: list[Link]


class NewTokenAnswer(TokenAnswer, kw_only=True):
    """A new token. The token itself is shown only once, because only its SHA-256 is stored."""

    token: str

    def __repr__(self) -> str:
        return f"NewTokenAnswer(id={self.id!r}, token=...)"


class TokensAnswer(Answer, kw_only=True):
    tokens: Annotated[list[TokenAnswer], Meta(description="Newest first, including expired and revoked ones.")]
    links: list[Link]


class VersionAnswer(Answer, kw_only=True):
    id: str
    status: str
    min_version: str
    max_version: str
    links: list[Link]


class VersionsAnswer(Answer, kw_only=True):
    versions: list[VersionAnswer]


class CloudReadinessAnswer(Answer, kw_only=True):
    """The newest quantile table of a cloud; null before the first."""

    name: str
    epoch: int | None
    computed_at: Moment | None
    table_age_s: Annotated[
        float | None,
        Meta(description="The time from the end of its history to the cloud's present time, by the cloud's clock."),
    ]
    log_ahead_s: Annotated[
        float | None,
        Meta(description="The time by which the log is ahead of the server's clock; null with an external clock."),
    ] = None


class ReadinessAnswer(Answer, kw_only=True):
    ready: bool
    code: Annotated[
        str | None, Meta(description="The permanent code of the failure; null if the service is ready.")
    ] = None
    database: Annotated[str, Meta(description="`OK`, or the failure of the database.")]
    log: Annotated[str, Meta(description="`OK`, or the reason why this process is too old for the logs.")] = "OK"
    clouds: Annotated[
        list[CloudReadinessAnswer], Meta(description="The clouds that the token may read; none without a token.")
    ]

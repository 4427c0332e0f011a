"""Access tokens: what is known of them, and once the token itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.wire.fields import Answer, Body, Name, PositiveSeconds
from app.api.wire.paging import Link
from app.domain.values import Role
from app.services.tokens import NewToken, Token, TokenStatus


class TokenBody(Body):
    """A new token."""

    name: Name = Field(description="Whose it is; no other live token has this name.")
    role: Role = Field(description="What it is for.")
    cloud: Name | None = Field(None, description="The only cloud that it is for; left out: all clouds.")
    expires_in_us: PositiveSeconds | None = Field(
        None, alias="expires_in_s", description="How long it is valid; left out: until it is revoked."
    )


@dataclass(slots=True, kw_only=True)
class TokenAnswer(Answer):
    id: str
    name: str
    role: Role
    cloud: Annotated[str | None, Field(description="The only cloud that it is for; null: all clouds.")]
    status: TokenStatus
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, Field(description="To about a minute; null: never.")]
    links: list[Link]


@dataclass(slots=True, kw_only=True)
class NewTokenAnswer(TokenAnswer):
    """A new token, and the token itself: it is shown this once, only its SHA-256 is kept."""

    token: str = field(repr=False)


@dataclass(slots=True, kw_only=True)
class TokensAnswer(Answer):
    tokens: Annotated[list[TokenAnswer], Field(description="Newest first; those expired and revoked among them.")]
    links: list[Link]


def token_answer(token: Token) -> TokenAnswer:
    """The wire form of what is known of a token."""
    return TokenAnswer(
        id=str(token.id),
        name=token.name,
        role=token.role,
        cloud=token.cloud,
        status=token.status,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
        links=[Link(rel="self", href=f"/v1/tokens/{token.id}")],
    )


def new_token_answer(made: NewToken) -> NewTokenAnswer:
    """The same with the token itself."""
    known = token_answer(made.token)
    return NewTokenAnswer(**{name: getattr(known, name) for name in TokenAnswer.__slots__}, token=made.secret)

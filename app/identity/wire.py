"""Bodies and answers of access tokens."""

from __future__ import annotations

from pydantic import Field

from app.domain.values import Role
from app.identity.service import NewToken, Token
from app.platform.http.fields import Body, Name, PositiveSeconds
from tenure_client.forms.answer import Link
from tenure_client.forms.service import NewTokenAnswer, TokenAnswer


class TokenBody(Body):
    """Body that creates a token."""

    name: Name = Field(description="The token's name. No other valid token has it.")
    role: Role = Field(description="The purpose of the token.")
    cloud: Name | None = Field(None, description="The only cloud that it is for; left out: all clouds.")
    expires_in_us: PositiveSeconds | None = Field(
        None, alias="expires_in_s", description="The time for which it is valid; left out: until it is revoked."
    )


def token_answer(token: Token) -> TokenAnswer:
    """Return the wire form of a token's stored facts."""
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
    """Return the wire form of a new token, with its secret."""
    known = token_answer(made.token)
    return NewTokenAnswer(**{name: getattr(known, name) for name in TokenAnswer.__struct_fields__}, token=made.secret)

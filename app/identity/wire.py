"""Bodies and answers of access tokens."""

from __future__ import annotations

from pydantic import Field

from app.domain.values import Role
from app.identity.service import NewToken, Token
from app.platform.http.fields import Body, Name, PositiveSeconds
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.service import NewTokenAnswer, TokenAnswer


class TokenBody(Body):
    """Body that creates a token."""

    name: Name = Field(description="The token's name. No other valid token has it.")
    role: Role = Field(description="The purpose of the token.")
    cloud: Name | None = Field(None, description="The only cloud that it is for; left out: all clouds.")
    expires_in_us: PositiveSeconds | None = Field(
        None, description="The time for which it is valid; left out: until it is revoked."
    )


def token_answer(token: Token) -> TokenAnswer:
    """Return the wire form of a token's stored facts."""
    links = [Link(rel="self", href=f"/v1/tokens/{token.id}")]
    return answer_of(TokenAnswer, token, id=str(token.id), links=links)


def new_token_answer(made: NewToken) -> NewTokenAnswer:
    """Return the wire form of a new token, with its secret."""
    return answer_of(NewTokenAnswer, token_answer(made.token), token=made.secret)

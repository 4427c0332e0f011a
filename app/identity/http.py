"""Handlers for access tokens."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import TokenNotFound
from app.identity.service import TokenKeeper
from app.identity.wire import TokenBody, new_token_answer, token_answer
from app.platform.http.bodies import read_body, read_query
from app.platform.http.page_forms import NumberedPageQuery, next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from tenure_client.forms.service import TokensAnswer


async def create_token(request: Request) -> Response:
    """Create a token. Its secret is in this answer and never shown again."""
    body = await read_body(request, TokenBody)
    made = await reached(request, TokenKeeper).create(body.name, body.role, body.cloud, body.expires_in_us)
    headers = {"Location": f"/v1/tokens/{made.token.id}", "Cache-Control": "no-store"}
    return respond(new_token_answer(made), 201, headers)


async def list_tokens(request: Request) -> Response:
    """List tokens, newest first, with their last use. Expired and revoked ones are included."""
    query = read_query(request, NumberedPageQuery)
    page = await reached(request, TokenKeeper).list(query.marker, query.limit)
    answers = [token_answer(token) for token in page.items]
    return respond(TokensAnswer(tokens=answers, links=next_link(request, page.marker)))


async def show_token(request: Request) -> Response:
    """Show a token's role, cloud and last use."""
    return respond(token_answer(await reached(request, TokenKeeper).show(_id(request))))


async def revoke_token(request: Request) -> Response:
    """Revoke a token; revoking it again changes nothing. A process may still accept it for a few seconds."""
    await reached(request, TokenKeeper).revoke(_id(request))
    return Response(status_code=204)


def _id(request: Request) -> int:
    text: str = request.path_params["token"]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise TokenNotFound(f"there is no token {text!r}")
    return int(text)

"""Access tokens: making, listing and revoking them, and finding the one that a caller shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from app.domain.errors import TokenNotFound
from app.domain.paging import Page
from app.domain.values import Role
from app.identity.store import AdminOrigin, AdminToken, Token, Tokens, TokenStatus, make_secret
from app.platform.database.locks import Locks

__all__ = ["AdminOrigin", "AdminToken", "NewToken", "Token", "TokenKeeper", "TokenStatus"]


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made. Nothing but this value ever holds the secret; it is to be shown once."""

    token: Token
    secret: str = field(repr=False)


class CloudIds(Protocol):
    """Clouds by name."""

    async def id_of(self, name: str) -> int:
        """The cloud's id; CloudNotFound if there is none of that name."""


class TokenKeeper:
    """See the module's docstring."""

    def __init__(self, tokens: Tokens, clouds: CloudIds, locks: Locks) -> None:
        self._tokens = tokens
        self._clouds = clouds
        self._locks = locks

    @asynccontextmanager
    async def admin(self, secret: str | None) -> AsyncIterator[AdminToken]:
        """See to it that there is an admin token, `secret` or another one.

        A token that nobody has used yet is replaced, unless a process that still is in this block has shown it.
        """
        async with self._locks.first_token_lock() as alone:
            yield await self._tokens.ensure_admin(secret, replace_unused=alone)

    async def create(self, name: str, role: Role, cloud: str | None, expires_us: int | None) -> NewToken:
        """A new random token, for one cloud or for all, for so long or for good.

        CloudNotFound for an unknown cloud, TokenExists where a live token has this name.
        """
        cloud_id = None if cloud is None else await self._clouds.id_of(cloud)
        secret = make_secret()
        return NewToken(await self._tokens.create(name, role, cloud_id, expires_us, secret), secret)

    async def list(self, marker: int | None, limit: int) -> Page[Token]:
        """Tokens, newest first, after the one with the id `marker`; those revoked and expired among them."""
        found = await self._tokens.page(limit + 1, marker)
        return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)

    async def show(self, token_id: int) -> Token:
        """The token of this id; TokenNotFound."""
        token = await self._tokens.get(token_id)
        if token is None:
            raise TokenNotFound(f"there is no token {token_id}")
        return token

    async def revoke(self, token_id: int) -> None:
        """Take the token no more; TokenNotFound. A process may remember it for a few seconds."""
        if not await self._tokens.revoke(token_id):
            raise TokenNotFound(f"there is no token {token_id}")

    async def revoke_named(self, name: str) -> None:
        """Take the live token of this name no more; TokenNotFound."""
        if not await self._tokens.revoke_named(name):
            raise TokenNotFound(f"there is no live token {name!r}")

    async def find(self, token_hash: bytes) -> Token | None:
        """The valid token of this SHA-256."""
        return await self._tokens.find(token_hash)

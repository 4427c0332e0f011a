"""Creates, lists and revokes access tokens, and finds the one that a caller shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from app.domain.errors import LogUnavailable, TokenNotFound
from app.domain.paging import Page
from app.domain.values import Caller, Role
from app.identity.store import AdminOrigin, AdminToken, Token, Tokens, TokenStatus, make_secret
from app.platform.background import background
from app.platform.database.lockids import FIRST_TOKEN_LOCK
from app.platform.database.locks import Hold, Locks

__all__ = ["AdminOrigin", "AdminToken", "NewToken", "Token", "TokenKeeper", "TokenStatus"]


_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just created. No other value holds the secret; it is shown once."""

    token: Token
    secret: str = field(repr=False)


class CloudIds(Protocol):
    """Finds clouds by name."""

    async def id_of(self, name: str) -> int:
        """Return the cloud's id. Raises CloudNotFound."""


class TokenKeeper:
    """Manages the tokens of all clouds."""

    def __init__(self, tokens: Tokens, clouds: CloudIds, locks: Locks) -> None:
        self._tokens = tokens
        self._clouds = clouds
        self._locks = locks

    @asynccontextmanager
    async def admin(self, secret: str | None) -> AsyncIterator[AdminToken]:
        """Ensure that an admin token exists, `secret` or a new one.

        A token that was never used is replaced, unless a process that is still in this block has shown it.
        """
        async with self._locks.held(FIRST_TOKEN_LOCK) as hold:
            token = await self._tokens.ensure_admin(secret, replace_unused=hold is not None)
            if hold is None or token.origin is not AdminOrigin.MADE:
                yield token
                return
            async with background(first_token=partial(self._keep, hold)):
                yield token

    async def _keep(self, hold: Hold) -> None:
        """Take the lock again whenever its connection was lost, because the shown token is still this process's."""
        await hold.beat()
        while True:
            with suppress(LogUnavailable):
                async with self._locks.held(FIRST_TOKEN_LOCK) as again:
                    if again is not None:
                        await again.beat()
            await asyncio.sleep(_AGAIN_S)

    async def create(self, name: str, role: Role, cloud: str | None, expires_us: int | None) -> NewToken:
        """Create a random token for one cloud or for all, with or without an expiry.

        Raises CloudNotFound for an unknown cloud and TokenExists if a valid token has this name.
        """
        cloud_id = None if cloud is None else await self._clouds.id_of(cloud)
        secret = make_secret()
        return NewToken(await self._tokens.create(name, role, cloud_id, expires_us, secret), secret)

    async def list(self, marker: int | None, limit: int) -> Page[Token]:
        """Return tokens after the one with the id `marker`, newest first, revoked and expired ones included."""
        found = await self._tokens.page(limit + 1, marker)
        return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)

    async def show(self, token_id: int) -> Token:
        """Return the token of this id. Raises TokenNotFound."""
        token = await self._tokens.get(token_id)
        if token is None:
            raise TokenNotFound(f"there is no token {token_id}")
        return token

    async def revoke(self, token_id: int) -> None:
        """Revoke the token. A process may still accept it for a few seconds. Raises TokenNotFound."""
        if not await self._tokens.revoke(token_id):
            raise TokenNotFound(f"there is no token {token_id}")

    async def revoke_named(self, name: str) -> None:
        """Revoke the valid token of this name. Raises TokenNotFound."""
        if not await self._tokens.revoke_named(name):
            raise TokenNotFound(f"there is no valid token {name!r}")

    async def valid_hashes(self) -> frozenset[bytes]:
        """Return the SHA-256 of the valid tokens, of very many those used last."""
        return await self._tokens.valid_hashes()

    async def find(self, token_hash: bytes) -> Caller | None:
        """Return the caller with the valid token of this SHA-256."""
        token = await self._tokens.find(token_hash)
        return None if token is None else Caller(token.id, token.name, token.role, token.cloud)

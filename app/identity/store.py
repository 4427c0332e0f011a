"""Access tokens in PostgreSQL. Only their SHA-256 is stored; a token is shown once, when it is created."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

from app.domain.errors import TokenExists
from app.domain.times import SECOND_US
from app.domain.values import Role
from app.platform.database.database import AnyRow, ConstraintBroken, Database, Session
from app.platform.database.lockids import TOKEN_LOCK

ADMIN = "admin"
_PREFIX = "tnr_"
_VALID = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
_COLUMNS = """
token.id, token.name, role, cloud_id, cloud.name AS cloud, token.created_at, expires_at, revoked_at, last_used_at,
coalesce(revoked_at IS NULL AND expires_at <= now(), false) AS expired
"""
_FROM = "FROM token LEFT JOIN cloud ON cloud.id = token.cloud_id"
# A use is written once a minute at most, in the round trip that finds the token.
_FIND = f"""
WITH used AS (
    UPDATE token SET last_used_at = now()
    WHERE hash = %(hash)s AND {_VALID} AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
)
SELECT {_COLUMNS}, hash {_FROM} WHERE hash = %(hash)s AND {_VALID}
"""
_MOST_LISTED = 10_000
_HASHES = f"SELECT hash FROM token WHERE {_VALID} ORDER BY last_used_at DESC NULLS LAST LIMIT {_MOST_LISTED}"
_INSERT = """
INSERT INTO token (name, role, cloud_id, hash, expires_at)
VALUES (%(name)s, %(role)s, %(cloud_id)s, %(hash)s, now() + make_interval(secs => %(expires_s)s))
RETURNING id
"""
_PUT_ADMIN = """
INSERT INTO token (name, role, hash) VALUES (%(name)s, %(role)s, %(hash)s)
ON CONFLICT (hash) DO UPDATE
SET name = EXCLUDED.name, role = EXCLUDED.role, cloud_id = NULL, expires_at = NULL, revoked_at = NULL
"""
_ADMINS = f"SELECT name, last_used_at FROM token WHERE role = %(role)s AND cloud_id IS NULL AND {_VALID}"
_REVOKE = "UPDATE token SET revoked_at = coalesce(revoked_at, now()) WHERE id = %(id)s RETURNING id"
_REVOKE_NAMED = "UPDATE token SET revoked_at = now() WHERE name = %(name)s AND revoked_at IS NULL RETURNING id"
_REVOKE_OTHERS = """
UPDATE token SET revoked_at = now() WHERE name = %(name)s AND hash <> %(hash)s AND revoked_at IS NULL
"""
_REVOKE_EXPIRED = """
UPDATE token SET revoked_at = expires_at WHERE name = %(name)s AND revoked_at IS NULL AND expires_at <= now()
"""


class AdminOrigin(StrEnum):
    """The source of a service's admin token."""

    GIVEN = "given"
    """The settings name it."""
    MADE = "made"
    """It was made now; it is to be shown."""
    USED = "used"
    """It was made before and has been used, or another admin's token was made by hand."""
    SHOWN = "shown"
    """Another process that runs has made it and shown it; nobody has used it yet."""


class AdminToken(NamedTuple):
    """The admin token at a start. `secret` is None unless it was created now."""

    origin: AdminOrigin
    secret: str | None = None


class TokenStatus(StrEnum):
    """The state of a token."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Token:
    """The stored facts of a token: its name, its role, its one cloud (None: all), and its times.

    `role` is a word of `Role`, or of a newer version.
    """

    id: int
    name: str
    role: str
    cloud_id: int | None
    cloud: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    expired: bool

    @property
    def status(self) -> TokenStatus:
        """The token's state."""
        if self.revoked_at is not None:
            return TokenStatus.REVOKED
        return TokenStatus.EXPIRED if self.expired else TokenStatus.VALID


class Tokens:
    """The tokens of all callers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure_admin(self, secret: str | None, *, replace_unused: bool = True) -> AdminToken:
        """Ensure that an admin token exists: `secret`, which then is the only one of that name, or any.

        Without `secret` a token named `admin` is created if there is none. A token that was never used is replaced,
        because whoever starts the service may not have seen it; `replace_unused=False` keeps it.
        """
        async with self._database.transaction() as session:
            lock_space, lock_id = TOKEN_LOCK
            await session.execute("SELECT pg_advisory_xact_lock(%(a)s, %(b)s)", {"a": lock_space, "b": lock_id})
            if secret is not None:
                await _put_admin(session, secret)
                return AdminToken(AdminOrigin.GIVEN)
            known = await session.execute(_ADMINS, {"role": Role.ADMIN})
            if any(row.name != ADMIN or row.last_used_at is not None for row in known):
                return AdminToken(AdminOrigin.USED)
            if known and not replace_unused:
                return AdminToken(AdminOrigin.SHOWN)
            made_up = make_secret()
            await _put_admin(session, made_up)
        return AdminToken(AdminOrigin.MADE, made_up)

    async def create(self, name: str, role: Role, cloud_id: int | None, expires_us: int | None, secret: str) -> Token:
        """Store a token that expires after the given time. Raises TokenExists if a valid one has this name."""
        parameters = {
            "name": name,
            "role": role,
            "cloud_id": cloud_id,
            "hash": hash_token(secret),
            "expires_s": None if expires_us is None else expires_us / SECOND_US,
        }
        try:
            async with self._database.transaction() as session:
                await session.execute(_REVOKE_EXPIRED, parameters)
                rows = await session.execute(_INSERT, parameters)
                (row,) = await session.execute(f"SELECT {_COLUMNS} {_FROM} WHERE token.id = %(id)s", {"id": rows[0].id})
        except ConstraintBroken as broken:
            if broken.name != "token_one_name":
                raise
            raise TokenExists(f"there is a token {name!r}: revoke it first, or give this one another name") from broken
        return _token(row)

    async def find(self, token_hash: bytes) -> Token | None:
        """Return the token of this SHA-256 and note its use; None if unknown, expired or revoked."""
        rows = await self._database.execute(_FIND, {"hash": token_hash})
        if not rows or not compare_digest(rows[0].hash, token_hash):
            return None
        return _token(rows[0])

    async def valid_hashes(self) -> frozenset[bytes]:
        """Return the SHA-256 of the valid tokens, of very many those used last."""
        return frozenset(bytes(row.hash) for row in await self._database.execute(_HASHES))

    async def get(self, token_id: int) -> Token | None:
        """Return the token of this id in any state."""
        rows = await self._database.execute(f"SELECT {_COLUMNS} {_FROM} WHERE token.id = %(id)s", {"id": token_id})
        return _token(rows[0]) if rows else None

    async def page(self, limit: int, before_id: int | None = None) -> Sequence[Token]:
        """Return at most `limit` tokens made before the named one, newest first."""
        rows = await self._database.execute(
            f"SELECT {_COLUMNS} {_FROM} WHERE %(before)s::integer IS NULL OR token.id < %(before)s "
            "ORDER BY token.id DESC LIMIT %(limit)s",
            {"before": before_id, "limit": limit},
        )
        return [_token(row) for row in rows]

    async def revoke(self, token_id: int) -> bool:
        """Revoke the token; return False if there is none. A token that was revoked before stays as it is."""
        return bool(await self._database.execute(_REVOKE, {"id": token_id}))

    async def revoke_named(self, name: str) -> bool:
        """Revoke the valid token of this name; return False if there is none."""
        return bool(await self._database.execute(_REVOKE_NAMED, {"name": name}))


def make_secret() -> str:
    """Return a new secret: 256 random bits after a prefix by which scanners for leaked secrets can know it."""
    return _PREFIX + secrets.token_urlsafe(32)


def hash_token(secret: str) -> bytes:
    """Return the stored form of a token. A secret is long and random, so it needs no salt and no slow hash."""
    return sha256(secret.encode()).digest()


async def _put_admin(session: Session, secret: str) -> None:
    parameters = {"name": ADMIN, "role": Role.ADMIN, "hash": hash_token(secret)}
    await session.execute(_REVOKE_OTHERS, parameters)
    await session.execute(_PUT_ADMIN, parameters)


def _token(row: AnyRow) -> Token:
    return Token(*row[:10])

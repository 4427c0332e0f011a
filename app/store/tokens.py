"""Access tokens. Only their SHA-256 is stored; the token itself is shown once, when it is made."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

from app.store.database import Database, Session
from app.store.lockids import TOKEN_LOCK

ADMIN = "admin"
_PREFIX = "tnr_"
_VALID = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
_INSERT = """
INSERT INTO token (name, role, hash) VALUES (%(name)s, %(role)s, %(hash)s)
ON CONFLICT (hash) DO UPDATE SET name = EXCLUDED.name, role = EXCLUDED.role, expires_at = NULL, revoked_at = NULL
"""
_REVOKE_OTHERS = """
UPDATE token SET revoked_at = now() WHERE name = %(name)s AND hash <> %(hash)s AND revoked_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class Token:
    """A valid token: whose it is and what it is for."""

    id: int
    name: str
    role: str


class Tokens:
    """The tokens that callers show."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure_admin(self, secret: str | None) -> str | None:
        """See to it that there is an admin token: `secret`, which then is the only one, or any.

        Returns the token where a new one had to be made up, to be shown once; else None.
        """
        async with self._database.transaction() as session:
            lock_space, lock_id = TOKEN_LOCK
            await session.execute("SELECT pg_advisory_xact_lock(%(a)s, %(b)s)", {"a": lock_space, "b": lock_id})
            if secret is not None:
                await _put_admin(session, secret)
                return None
            if await session.execute(f"SELECT FROM token WHERE name = %(name)s AND {_VALID}", {"name": ADMIN}):
                return None
            made_up = _PREFIX + secrets.token_urlsafe(32)
            await _put_admin(session, made_up)
        return made_up

    async def find(self, token_hash: bytes) -> Token | None:
        """The token of this SHA-256, unless there is none, or it has expired or was revoked."""
        rows = await self._database.execute(
            f"SELECT id, name, role, hash FROM token WHERE hash = %(hash)s AND {_VALID}", {"hash": token_hash}
        )
        if not rows or not compare_digest(rows[0].hash, token_hash):
            return None
        return Token(rows[0].id, rows[0].name, rows[0].role)


def hash_token(secret: str) -> bytes:
    """What is stored of a token."""
    return sha256(secret.encode()).digest()


async def _put_admin(session: Session, secret: str) -> None:
    parameters = {"name": ADMIN, "role": ADMIN, "hash": hash_token(secret)}
    await session.execute(_INSERT, parameters)
    await session.execute(_REVOKE_OTHERS, parameters)

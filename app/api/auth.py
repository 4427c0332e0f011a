"""Who may do what: tokens and roles. The one place that knows how callers prove who they are.

Roles are Keystone's reader, member and admin, each of which may do what the one before may; `service` for controllers
does what a member does; `peer` is for other clouds. Only admin tokens are issued so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from time import monotonic
from typing import Protocol

from starlette.requests import Request
from starlette.types import Scope

from app.api.errors import Forbidden, Unauthenticated

CACHED_S = 5.0
"""How long a token that was revoked may still be taken by a process."""
_CACHE_MAX = 10_000


class Role(StrEnum):
    """What a token is for."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"
    SERVICE = "service"
    PEER = "peer"


_READS = frozenset({Role.READER})
_USES = _READS | {Role.MEMBER}
GRANTS: dict[Role, frozenset[Role]] = {
    Role.READER: _READS,
    Role.MEMBER: _USES,
    Role.SERVICE: _USES | {Role.SERVICE},
    Role.ADMIN: _USES | {Role.SERVICE, Role.ADMIN},
    Role.PEER: frozenset({Role.PEER}),
}
"""The roles that each role counts as."""


class KnownToken(Protocol):
    """What the store knows of a valid token."""

    @property
    def name(self) -> str:
        """Whose it is."""

    @property
    def role(self) -> str:
        """What it is for."""


class Tokens(Protocol):
    """Where tokens are found."""

    async def find(self, token_hash: bytes) -> KnownToken | None:
        """The valid token of this SHA-256, if there is one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    name: str
    role: Role


class Authenticator:
    """Finds the caller of a token, and remembers it for a few seconds."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens
        self._known: dict[bytes, tuple[float, Caller]] = {}

    async def caller(self, token: bytes) -> Caller:
        """Whose token it is; Unauthenticated where it is nobody's."""
        token_hash = sha256(token).digest()
        until, caller = self._known.get(token_hash, (0.0, None))
        if caller is None or monotonic() > until:
            caller = await self._find(token_hash)
        return caller

    async def _find(self, token_hash: bytes) -> Caller:
        found = await self._tokens().find(token_hash)
        if found is None:
            self._known.pop(token_hash, None)
            raise Unauthenticated("the token is not valid")
        if len(self._known) >= _CACHE_MAX:
            self._known.clear()
        caller = Caller(found.name, Role(found.role))
        self._known[token_hash] = monotonic() + CACHED_S, caller
        return caller


async def authorise(request: Request, role: Role) -> None:
    """Unauthenticated without a valid token, Forbidden where its role does not count as `role`."""
    token = token_of(request.scope)
    if token is None:
        raise Unauthenticated("send a token as X-Auth-Token or as Authorization: Bearer")
    authenticator: Authenticator = request.app.state.authenticator
    caller = await authenticator.caller(token)
    if role not in GRANTS[caller.role]:
        raise Forbidden(f"this needs the role {role.value}, and the token's is {caller.role.value}")


def token_of(scope: Scope) -> bytes | None:
    """The token that the request carries, if any."""
    for name, value in scope["headers"]:
        if name == b"x-auth-token":
            return bytes(value)
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return bytes(value[7:].strip())
    return None

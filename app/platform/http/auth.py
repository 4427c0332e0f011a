"""Who may do what: tokens and roles. The one place that knows how callers prove who they are.

Roles are Keystone's reader, member and admin, each of which may do what the one before may. `service` is for
controllers: it does what a member does and confirms what it was told to do. `peer` is for other clouds. A token may be
for one cloud only: then there is no other for it.

Another way to know callers (Keystone, client certificates) is another `Authenticator`; nothing else changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Protocol

from starlette.requests import Request
from starlette.types import Scope

from app.domain.errors import CloudNotFound
from app.domain.values import Role
from app.platform.http.errors import Forbidden, ScopeInsufficient, Unauthenticated
from app.platform.http.rates import COSTS, Rates

CACHED_S = 2.0
"""How long a token that was revoked may still be taken by a process."""
_CACHE_MAX = 10_000
_STRANGERS_AT_ONCE = 2


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


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. `id` and `name` are of the token; `cloud` is the only one that it is for, None: all."""

    id: int
    name: str
    role: Role
    cloud: str | None


class Authenticator(Protocol):
    """Finds out who sent a request."""

    def known(self, token: bytes) -> Caller | None:
        """Whose token it is, if it was valid when it was last shown; asks nobody."""

    async def caller(self, token: bytes) -> Caller:
        """Whose token it is; Unauthenticated where it is nobody's."""


class KnownToken(Protocol):
    """What the store knows of a valid token."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def name(self) -> str:
        """Whose it is."""

    @property
    def role(self) -> Role:
        """What it is for."""

    @property
    def cloud(self) -> str | None:
        """The only cloud that it is for."""


class Tokens(Protocol):
    """Where tokens are found."""

    async def find(self, token_hash: bytes) -> KnownToken | None:
        """The valid token of this SHA-256, if there is one."""


class TokenAuthenticator:
    """The `Authenticator` of this service's own tokens. It remembers callers for a few seconds, by the token's hash.

    However many show a token at once, it is looked up once; and of tokens that were not valid before, few at a time, so
    that guesses leave the database to others.
    """

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens
        self._known: dict[bytes, tuple[float, Caller]] = {}
        self._asked: dict[bytes, asyncio.Future[Caller]] = {}
        self._strangers = asyncio.Semaphore(_STRANGERS_AT_ONCE)

    def known(self, token: bytes) -> Caller | None:
        """Whose token it is, if it was valid when it was last shown."""
        _, caller = self._known.get(sha256(token).digest(), (0.0, None))
        return caller

    async def caller(self, token: bytes) -> Caller:
        """Whose token it is; Unauthenticated where it is nobody's."""
        token_hash = sha256(token).digest()
        until, caller = self._known.get(token_hash, (0.0, None))
        if caller is None or monotonic() > until:
            asked = self._asked.get(token_hash)
            if asked is None:
                asked = self._asked[token_hash] = asyncio.ensure_future(self._look_up(token_hash))
                asked.add_done_callback(lambda done: self._answered(token_hash, done))
            caller = await asyncio.shield(asked)
        return caller

    def _answered(self, token_hash: bytes, asked: asyncio.Future[Caller]) -> None:
        """Forget the question; whoever still waits for it has its answer, or its error."""
        del self._asked[token_hash]
        if not asked.cancelled():
            asked.exception()

    async def _look_up(self, token_hash: bytes) -> Caller:
        if token_hash in self._known:
            return await self._find(token_hash)
        async with self._strangers:
            return await self._find(token_hash)

    async def _find(self, token_hash: bytes) -> Caller:
        found = await self._tokens().find(token_hash)
        if found is None:
            self._known.pop(token_hash, None)
            raise Unauthenticated("the token is not valid")
        if len(self._known) >= _CACHE_MAX:
            self._known.clear()
        caller = Caller(found.id, found.name, found.role, found.cloud)
        self._known[token_hash] = monotonic() + CACHED_S, caller
        return caller


async def authorise(request: Request, role: Role, *, for_scoped: bool = False) -> None:
    """See to it that the caller may do what needs `role`; `caller_of` then tells who it is.

    Unauthenticated without a valid token, Forbidden where its role does not count as `role`. To a token of one cloud
    the other clouds are not there: CloudNotFound. What concerns no single cloud is not for it (ScopeInsufficient),
    but for what shows it its own part alone (`for_scoped`).
    """
    caller = await recognise(request)
    if caller is None:
        request.app.state.rates.count_address(request.scope)
        raise Unauthenticated("send a token as X-Auth-Token or as Authorization: Bearer")
    if role not in GRANTS[caller.role]:
        raise Forbidden(f"this needs the role {role.value}, and the token's is {caller.role.value}")
    if caller.cloud is not None:
        _check_scope(caller.cloud, request.path_params.get("cloud"), for_scoped=for_scoped)


async def recognise(request: Request) -> Caller | None:
    """Who sent the request: None where it carries no token, else as `identify`."""
    token = token_of(request.scope)
    return None if token is None else await identify(request, token)


async def identify(request: Request, token: bytes) -> Caller:
    """Whose token it is; Unauthenticated where it is nobody's, RateExceeded where they call too often.

    An address from which many wrong tokens came gets no other one looked up for a while, but for those that were valid
    before: who shares it with a guesser is not shut out.
    """
    authenticator: Authenticator = request.app.state.authenticator
    rates: Rates = request.app.state.rates
    if rates.is_anyone_shut and authenticator.known(token) is None:
        rates.check_address(request.scope)
    try:
        caller = await authenticator.caller(token)
    except Unauthenticated:
        rates.count_address(request.scope)
        raise
    state = request.scope["state"]
    rates.count_token(caller.id, COSTS.get(state.get("operation"), 1))
    if state.get("caller") is None:
        request.app.state.addresses.know((request.scope["client"] or (None,))[0])
    state["caller"] = caller
    return caller


def count_unasked(request: Request) -> None:
    """Count a request that no operation answers: for the token, if it is known, else for the address."""
    token = token_of(request.scope)
    caller = None if token is None else request.app.state.authenticator.known(token)
    if caller is None:
        request.app.state.rates.count_address(request.scope)
    else:
        request.app.state.rates.count_token(caller.id)


def _check_scope(own: str, cloud: str | None, *, for_scoped: bool) -> None:
    if cloud is None and not for_scoped:
        raise ScopeInsufficient("the token is for one cloud, and this is not of one cloud")
    if cloud not in (None, own):
        raise CloudNotFound.named(cloud)


def may(caller: Caller, role: Role, cloud: str | None = None) -> bool:
    """Whether the caller may do what needs `role` in this cloud, or in none in particular."""
    return role in GRANTS[caller.role] and caller.cloud in (None, cloud)


def caller_of(request: Request) -> Caller:
    """Who sent a request that `authorise` let through."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def token_of(scope: Scope) -> bytes | None:
    """The token that the request carries, if any."""
    for name, value in scope["headers"]:
        if name == b"x-auth-token":
            return bytes(value)
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return bytes(value[7:].strip())
    return None

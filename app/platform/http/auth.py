"""Authentication and authorisation by tokens and roles. The only module that knows how callers prove who they are.

Roles are Keystone's reader, member and admin, each of which includes the one before. `service` is for controllers: it
includes member, and confirms evictions. `peer` is for other clouds. A token may be limited to one cloud; it cannot see
that others exist. `project_reader` and `project_member` see the instances of one project alone, and reader and member
include them. So what such a caller may ask for has one of them as its least role, and shows nothing of others.

Whose a token is, another tells: this service's own store, or Keystone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from functools import partial
from hashlib import sha256
from math import inf
from time import monotonic
from typing import Any, Protocol

from starlette.requests import Request
from starlette.types import Scope

from app.domain.errors import CloudNotFound, IdentityUnavailable, LogUnavailable
from app.domain.values import Caller, Role
from app.platform.asked import CommonTurns, asked_by, asked_since
from app.platform.http.errors import Forbidden, ScopeInsufficient, Unauthenticated
from app.platform.http.rates import COSTS, PEER_MESSAGES, Rates

CACHED_S = 2.0
"""The time for which a process may still accept a revoked token, counted from when it asked the database."""
LISTED_S = 5.0
"""The time for which a list of all valid tokens is believed, where an address is shut."""
_TRIES = 3
"""Look-ups for one request whose answers come too late to be believed."""
_CACHE_MAX = 10_000
_STRANGERS_AT_ONCE = 2
_FOREIGN_STRANGERS_AT_ONCE = 8
_FOREIGN_STRANGERS_WAITING = 64


_PROJECT_READS = frozenset({Role.PROJECT_READER})
_PROJECT_USES = _PROJECT_READS | {Role.PROJECT_MEMBER}
_READS = _PROJECT_READS | {Role.READER}
_USES = _PROJECT_USES | {Role.READER, Role.MEMBER}
GRANTS: dict[str, frozenset[Role]] = {
    Role.PROJECT_READER: _PROJECT_READS,
    Role.PROJECT_MEMBER: _PROJECT_USES,
    Role.READER: _READS,
    Role.MEMBER: _USES,
    Role.SERVICE: _USES | {Role.SERVICE},
    Role.ADMIN: _USES | {Role.SERVICE, Role.ADMIN},
    Role.PEER: frozenset({Role.PEER}),
}
"""The roles that each role includes."""


def granted_to(role: str) -> frozenset[Role]:
    """Return the roles that a role includes. A role of a newer version, which is unknown here, includes none."""
    return GRANTS.get(role, frozenset())


class TokenPort(Protocol):
    """Those who know tokens."""

    def is_foreign(self, token: bytes) -> bool:
        """Return True if another service is asked for the token's caller."""

    async def find(self, token: bytes) -> Caller | None:
        """Return the caller with this valid token, or None."""

    async def valid_hashes(self) -> frozenset[bytes]:
        """Return the SHA-256 of the valid tokens, of very many those used last."""


class _LookUp:
    """A question for a token's caller. `asked_s`: when the database was asked; until then no answer can be outdated."""

    def __init__(self, ask: Callable[[_LookUp], Coroutine[Any, Any, None]]) -> None:
        self.asked_s = inf
        self.task = asyncio.ensure_future(ask(self))

    def may_be_joined(self) -> bool:
        """Return True if the answer, should it come now, is recent enough to be believed."""
        return _is_recent(self.asked_s)


def _is_recent(asked_s: float) -> bool:
    return monotonic() - asked_s <= CACHED_S


class Authenticator:
    """Identifies callers by their tokens. It caches them for a few seconds, by the token's hash.

    Requests that show the same token at once share one look-up. Of tokens that were not valid before, few are looked up
    at a time, so that guesses leave the database to others; and few others at another service, which may be slow.
    """

    def __init__(self, tokens: Callable[[], TokenPort]) -> None:
        self._tokens = tokens
        self._known: dict[bytes, tuple[float, Caller]] = {}
        self._asked: dict[bytes, _LookUp] = {}
        self._strangers = CommonTurns(_STRANGERS_AT_ONCE)
        self._foreign_strangers = CommonTurns(_FOREIGN_STRANGERS_AT_ONCE)
        self._foreign_asked: set[bytes] = set()
        self._listed: frozenset[bytes] = frozenset()
        self._listed_s = -inf
        self._listing = CommonTurns()

    def known(self, token: bytes) -> Caller | None:
        """Return the token's caller if it was valid when last checked. Makes no query."""
        _, caller = self._known.get(sha256(token).digest(), (-inf, None))
        return caller

    async def is_listed(self, token: bytes) -> bool:
        """Return True if the token was valid a few seconds ago. Many guesses cost the database one query together."""
        async with self._listing.taken():
            if monotonic() - self._listed_s > LISTED_S:
                with suppress(LogUnavailable):  # who was listed will get this error
                    self._listed = await self._tokens().valid_hashes()
                self._listed_s = monotonic()
        return sha256(token).digest() in self._listed

    def may_be_new(self, token: bytes) -> bool:
        """Return True for another service's token, of which it makes new ones all the time, while few are asked for."""
        return self._tokens().is_foreign(token) and len(self._foreign_asked) < _FOREIGN_STRANGERS_WAITING

    async def caller(self, token: bytes) -> Caller:
        """Return the token's caller. Raise Unauthenticated if it is not valid.

        An answer that was long under way, or that this process was too late to read, may be outdated: the database is
        asked again then. Raise LogUnavailable or IdentityUnavailable if it never answers in time.
        """
        token_hash = sha256(token).digest()
        for _ in range(_TRIES):
            caller = self._remembered(token_hash)
            if caller is not None:
                return caller
            await asyncio.shield(self._look_up(token_hash, token).task)
        caller = self._remembered(token_hash)
        if caller is None:
            if self._tokens().is_foreign(token):
                raise IdentityUnavailable("Keystone's answers come too late to be believed")
            raise LogUnavailable(f"the database does not tell within {CACHED_S:g} s whether the token is valid")
        return caller

    def _remembered(self, token_hash: bytes) -> Caller | None:
        asked_s, caller = self._known.get(token_hash, (-inf, None))
        return caller if _is_recent(asked_s) else None

    def _look_up(self, token_hash: bytes, token: bytes) -> _LookUp:
        """Return the look-up of this token that is under way, or a new one if there is none or it is outdated."""
        look_up = self._asked.get(token_hash)
        if look_up is None or not look_up.may_be_joined():
            look_up = self._asked[token_hash] = _LookUp(partial(self._ask, token_hash, token))
            look_up.task.add_done_callback(partial(self._answered, token_hash, look_up))
            if self._tokens().is_foreign(token):
                self._foreign_asked.add(token_hash)
        return look_up

    def _answered(self, token_hash: bytes, look_up: _LookUp, _: object) -> None:
        """Forget the look-up; whoever still waits for it has its answer, or its error."""
        if self._asked.get(token_hash) is look_up:
            del self._asked[token_hash]
            self._foreign_asked.discard(token_hash)
        if not look_up.task.cancelled():
            look_up.task.exception()

    async def _ask(self, token_hash: bytes, token: bytes, look_up: _LookUp) -> None:
        strangers = self._foreign_strangers if self._tokens().is_foreign(token) else self._strangers
        asked_since()  # to stand in the line of strangers is a part of the request's one bound
        async with nullcontext() if token_hash in self._known else strangers.taken():
            look_up.asked_s = monotonic()
            caller = await self._tokens().find(token)
        if caller is None:
            self._known.pop(token_hash, None)
            raise Unauthenticated("the token is not valid")
        if _is_recent(look_up.asked_s):
            self._keep(token_hash, look_up.asked_s, caller)

    def _keep(self, token_hash: bytes, asked_s: float, caller: Caller) -> None:
        if len(self._known) >= _CACHE_MAX:
            self._known.clear()
        self._known[token_hash] = asked_s, caller


async def authorise(request: Request, role: Role, *, for_scoped: bool = False) -> None:
    """Check that the caller may do what needs `role`; `caller_of` then returns the caller.

    Raises Unauthenticated without a valid token, and Forbidden if its role does not include `role`. For a token of one
    cloud, other clouds raise CloudNotFound, and endpoints of no single cloud raise ScopeInsufficient, unless they show
    such a caller its own cloud alone (`for_scoped`).
    """
    caller = await recognise(request)
    if caller is None:
        request.app.state.rates.count_address(request.scope)
        raise Unauthenticated("send a token as X-Auth-Token or as Authorization: Bearer")
    if role not in granted_to(caller.role):
        raise Forbidden(f"this needs the role {_role_to_ask_for(role, caller)}, and the token's is {caller.role}")
    if caller.cloud is not None:
        _check_scope(caller.cloud, request.path_params.get("cloud"), for_scoped=for_scoped)


def _role_to_ask_for(role: Role, caller: Caller) -> str:
    """Return the role that would do: for who is not of one project, that of all instances."""
    return role.value if caller.project is not None else role.value.removeprefix("project_")


async def recognise(request: Request) -> Caller | None:
    """Return the sender of the request, identified by `identify`; None if it carries no token."""
    token = token_of(request.scope)
    return None if token is None else await identify(request, token)


async def identify(request: Request, token: bytes) -> Caller:
    """Return the token's caller. Raise Unauthenticated if it is not valid, RateExceeded if they call too often.

    For a while, an address that sent many wrong tokens can only use tokens that were valid seconds before. So callers
    who share an address with a guesser are not locked out, and no guess is looked up. Another service's tokens are new
    for each caller and hour: they are looked up still, as long as few others wait for that.
    """
    authenticator: Authenticator = request.app.state.authenticator
    rates: Rates = request.app.state.rates
    is_strange = rates.is_shut(request.scope) and authenticator.known(token) is None
    if is_strange and not await authenticator.is_listed(token) and not authenticator.may_be_new(token):
        rates.check_address(request.scope)
    try:
        caller = await authenticator.caller(token)
    except Unauthenticated:
        rates.count_address(request.scope)
        raise
    state = request.scope["state"]
    operation = state.get("operation")
    rates.count_token(caller.id, COSTS.get(operation, 1))
    if operation in PEER_MESSAGES:
        rates.count_peer(caller.name.partition(".")[0])
    if state.get("caller") is None:
        request.app.state.addresses.know((request.scope["client"] or (None,))[0])
    state["caller"] = caller
    asked_by(caller.id, caller.group)
    return caller


def count_more(request: Request, cost: int) -> None:
    """Count a request as so many more, once its body tells what it costs. Raise RateExceeded beyond the token's."""
    request.app.state.rates.count_token(caller_of(request).id, cost)


def count_unasked(request: Request, token: bytes | None) -> None:
    """Count a request that no endpoint answers: for its token if that is known, else for its address."""
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
    """Return True if the caller may do what needs `role` in this cloud, or outside any cloud."""
    return role in granted_to(caller.role) and caller.cloud in (None, cloud)


def caller_of(request: Request) -> Caller:
    """Return the sender of a request that `authorise` has checked."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def owner_of(request: Request) -> str | None:
    """Return the prefix of the ids that the caller may name, its token's name up to the first dot; None: any id."""
    caller = caller_of(request)
    return None if caller.role == Role.ADMIN else caller.name.partition(".")[0]


def project_of(request: Request) -> str | None:
    """Return the only project whose instances the caller may see; None: it may see all."""
    return caller_of(request).project


def token_of(scope: Scope) -> bytes | None:
    """Return the token that the request carries, or None."""
    for name, value in scope["headers"]:
        if name == b"x-auth-token":
            return bytes(value)
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return bytes(value[7:].strip())
    return None

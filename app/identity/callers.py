"""The callers of tokens: of this service's own, and of Keystone's, which are remembered for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from time import monotonic
from typing import Any, Protocol

from app.domain.values import Caller
from app.identity.rules import Trust, caller_of, is_foreign, lasts_s
from app.identity.service import TokenKeeper
from app.platform.outbound.keystone import Login

_REFUSED_S = 5.0
_MOST = 10_000


class KeystonePort(Protocol):
    """Keystone."""

    async def describe(self, token: str) -> Mapping[str, Any] | None:
        """Return what Keystone says of a valid token, or None. Raises IdentityUnavailable."""

    async def log_in(self, login: Login) -> str | None:
        """Return a new token, or None if the identity is not proven. Raises IdentityUnavailable."""


class KeystoneCallers:
    """Callers by Keystone's tokens.

    Keystone takes long to tell, so its answers are kept: a valid token's for `kept_s`, counted from the answer, so
    that a slow one is of use too, and a refusal for a few seconds. While Keystone cannot be asked, those that are kept
    still hold.
    """

    def __init__(self, keystone: KeystonePort, trust: Trust, kept_s: float, now: Callable[[], datetime]) -> None:
        self._keystone = keystone
        self._now = now
        self._trust = trust
        self._kept_s = kept_s
        self._known: OrderedDict[bytes, tuple[float, Caller | None]] = OrderedDict()

    async def find(self, token: bytes) -> Caller | None:
        """Return the caller of a token, or None if Keystone does not know it. Raises IdentityUnavailable."""
        token_hash = sha256(token).digest()
        until_s, caller = self._known.get(token_hash, (0.0, None))
        if monotonic() < until_s:
            self._known.move_to_end(token_hash)
            return caller
        described = await self._keystone.describe(token.decode())
        caller = None if described is None else caller_of(described, self._trust)
        kept_s = _REFUSED_S if described is None else min(self._kept_s, lasts_s(described, self._now()))
        self._known[token_hash] = monotonic() + kept_s, caller
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return caller

    async def log_in(self, user: str, password: str, project: str, domain: str) -> str | None:
        """Return a new token of a user for a project, both of one domain, or None. Raises IdentityUnavailable."""
        return await self._keystone.log_in(Login.of_user(user, password, domain, project, domain))

    def valid_hashes(self) -> frozenset[bytes]:
        """Return the SHA-256 of the tokens that are known to be valid."""
        now_s = monotonic()
        return frozenset(known for known, (until_s, caller) in self._known.items() if caller and now_s < until_s)


class Callers:
    """Finds the caller of any token; `keystone` None: of this service's own alone."""

    def __init__(self, tokens: TokenKeeper, keystone: KeystoneCallers | None) -> None:
        self._tokens = tokens
        self.keystone = keystone

    def is_foreign(self, token: bytes) -> bool:
        """Return True if another service is asked for the token's caller."""
        return self.keystone is not None and is_foreign(token)

    async def find(self, token: bytes) -> Caller | None:
        """Return the caller with this token if it is valid. Raises LogUnavailable and IdentityUnavailable."""
        if self.keystone is not None and is_foreign(token):
            return await self.keystone.find(token)
        return await self._tokens.find(sha256(token).digest())

    async def valid_hashes(self) -> frozenset[bytes]:
        """Return the SHA-256 of the valid tokens, of very many those used last."""
        known = frozenset() if self.keystone is None else self.keystone.valid_hashes()
        return await self._tokens.valid_hashes() | known

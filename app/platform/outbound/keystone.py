"""The words that this service exchanges with OpenStack's identity service, Keystone: its interface of version 3."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from app.domain.errors import IdentityUnavailable

logger = logging.getLogger(__name__)

_TRIES = 3
_WITHIN_S = 5.0
_PAUSE_S = 0.2
_AT_ONCE = 12
"""More than the questions for strangers' tokens and the sign-ins that are let through together."""
_UNAUTHORIZED = 401
_NOT_FOUND = 404
_REFUSED = frozenset({400, _UNAUTHORIZED, 403, _NOT_FOUND, 413})


@dataclass(frozen=True, slots=True)
class Login:
    """The identity that proves itself to Keystone: an application credential, or a user of a project."""

    identity: Mapping[str, Any] = field(repr=False)
    scope: Mapping[str, Any] | None = None

    @classmethod
    def of_credential(cls, id_: str, secret: str) -> Login:
        """Return the login by an application credential. Its project is the credential's own."""
        return cls({"methods": ["application_credential"], "application_credential": {"id": id_, "secret": secret}})

    @classmethod
    def of_user(cls, name: str, password: str, domain: str, project: str, project_domain: str) -> Login:
        """Return the login of a user, all by their names, for one project."""
        user = {"name": name, "password": password, "domain": {"name": domain}}
        scope = {"project": {"name": project, "domain": {"name": project_domain}}}
        return cls({"methods": ["password"], "password": {"user": user}}, scope)

    def body(self) -> dict[str, Any]:
        """Return the request for a token."""
        scope = {} if self.scope is None else {"scope": dict(self.scope)}
        return {"auth": {"identity": dict(self.identity), **scope}}


class Keystone:
    """Asks Keystone whose a token is. Its own token is renewed when Keystone no longer takes it."""

    def __init__(self, url: str, own: Login, tls: ssl.SSLContext | None = None) -> None:
        """`url` ends with the version, as in https://keystone.example/v3."""
        self.url = url.rstrip("/")
        self._own = own
        self._token: str | None = None
        self._logging_in = asyncio.Lock()
        self._client = httpx2.AsyncClient(
            verify=tls or True,
            timeout=_WITHIN_S,
            trust_env=False,
            limits=httpx2.Limits(max_connections=_AT_ONCE, max_keepalive_connections=_AT_ONCE),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def log_in(self, login: Login) -> str | None:
        """Return a new token of this identity, or None if Keystone refuses it. Raises IdentityUnavailable."""
        answer = await self._within(lambda: self._client.post(f"{self.url}/auth/tokens", json=login.body()))
        return None if answer.status_code in _REFUSED else answer.headers.get("x-subject-token")

    async def describe(self, token: str) -> Mapping[str, Any] | None:
        """Return what Keystone says of a valid token (its `token` object), or None. Raises IdentityUnavailable."""
        for _ in range(2):
            own = await self._own_token()
            headers = {"x-auth-token": own, "x-subject-token": token}
            answer = await self._within(
                lambda headers=headers: self._client.get(f"{self.url}/auth/tokens?nocatalog=1", headers=headers)
            )
            if answer.status_code != _UNAUTHORIZED:
                return self._read(answer)
            if self._token == own:
                self._token = None
        raise IdentityUnavailable("Keystone takes no token of this service's own")

    def _read(self, answer: httpx2.Response) -> Mapping[str, Any] | None:
        if answer.status_code == _NOT_FOUND:
            return None
        if answer.is_success:
            try:
                described = answer.json()["token"]
            except (ValueError, KeyError, TypeError):
                described = None
            if isinstance(described, Mapping):
                return described
        logger.error("Keystone answered a question for a token with %d", answer.status_code)
        raise IdentityUnavailable("Keystone does not tell whose the token is")

    async def _own_token(self) -> str:
        async with self._logging_in:
            if self._token is None:
                self._token = await self.log_in(self._own)
            if self._token is None:
                logger.error("Keystone refuses this service's own name and secret (TENURE_KEYSTONE_...)")
                raise IdentityUnavailable("Keystone refuses this service's own name and secret")
            return self._token

    async def _within(self, ask: Any) -> httpx2.Response:  # noqa: ANN401 - a call without arguments
        """Return the answer of one of a few tries. Raise IdentityUnavailable if none comes in time."""
        try:
            async with asyncio.timeout(_WITHIN_S):
                return await self._tried(ask)
        except TimeoutError:
            raise IdentityUnavailable(f"Keystone does not answer within {_WITHIN_S:g} s") from None

    async def _tried(self, ask: Any) -> httpx2.Response:  # noqa: ANN401 - as above
        for left in reversed(range(_TRIES)):
            try:
                answer: httpx2.Response = await ask()
            except httpx2.TransportError:
                if not left:
                    raise IdentityUnavailable("Keystone cannot be reached") from None
            else:
                if not (answer.is_server_error and left):
                    return answer
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError  # the last try returned or raised

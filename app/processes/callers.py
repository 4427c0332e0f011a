"""The finder of callers, made of the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.identity.callers import Callers, KeystoneCallers
from app.identity.rules import USUAL_ROLES, Trust
from app.identity.service import TokenKeeper
from app.platform.clock import ServerClock
from app.platform.http.auth import CACHED_S
from app.platform.outbound.keystone import Keystone, Login
from app.platform.settings import Settings


@asynccontextmanager
async def open_callers(settings: Settings, tokens: TokenKeeper, clock: ServerClock) -> AsyncIterator[Callers]:
    """Open what finds the caller of a token: this service's own tokens, and Keystone where the settings name one."""
    if settings.keystone_url is None:
        yield Callers(tokens, None)
        return
    keystone = Keystone(settings.keystone_url, _keystone_login(settings))
    roles = USUAL_ROLES if settings.keystone_roles is None else settings.keystone_roles
    nobody: frozenset[str] = frozenset()
    trust = Trust(settings.keystone_admin_projects or nobody, settings.keystone_projects or nobody, roles)
    kept_s = max(0.0, settings.keystone_cache_s - CACHED_S)
    try:
        yield Callers(tokens, KeystoneCallers(keystone, trust, kept_s, clock.now))
    finally:
        await keystone.close()


def _keystone_login(settings: Settings) -> Login:
    secret = settings.keystone_credential_secret
    if settings.keystone_credential_id is not None and secret is not None:
        return Login.of_credential(settings.keystone_credential_id, secret.get_secret_value())
    user, password, domain = settings.keystone_user, settings.keystone_password, settings.keystone_domain
    assert user is not None and password is not None  # noqa: PT018 - the settings are checked
    return Login.of_user(user, password.get_secret_value(), domain, settings.keystone_project, domain)

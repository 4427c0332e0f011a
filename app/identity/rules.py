"""The caller that a token of Keystone makes, and the role (docs/openstack.md). Only values are looked at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from app.domain.values import Caller, Role

NO_ROLE = "none"
"""The role of callers whom Keystone knows, but whose roles count for nothing here. It includes none."""
SYSTEM = "system"
_FOREIGN = re.compile(rb"(?:gAAAA|eyJ)[A-Za-z0-9_.=-]{40,}")
_RANKS = (Role.ADMIN, Role.SERVICE, Role.MEMBER, Role.READER, Role.PROJECT_MEMBER, Role.PROJECT_READER)
_IN_PROJECT = {Role.MEMBER: Role.PROJECT_MEMBER, Role.READER: Role.PROJECT_READER}
USUAL_ROLES: Mapping[str, Role] = {
    "service": Role.SERVICE,
    "manager": Role.MEMBER,
    "member": Role.MEMBER,
    "reader": Role.READER,
}


@dataclass(frozen=True, slots=True)
class Trust:
    """The roles of Keystone that count, and for what.

    `admin_projects`: ids of projects whose admins are admins here, as those of the whole system are. `projects`: ids of
    those whose people are let in, and see the instances of their project alone; their admins count as members. `roles`:
    roles here by Keystone's names.
    """

    admin_projects: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    roles: Mapping[str, Role] = field(default_factory=lambda: dict(USUAL_ROLES))


def is_foreign(token: bytes) -> bool:
    """Return True if the token has the form of one that Keystone makes (Fernet, or JWS)."""
    return _FOREIGN.fullmatch(token) is not None


def caller_of(described: Mapping[str, Any], trust: Trust) -> Caller:
    """Return the caller of a token that Keystone describes so.

    Its name is the project's id, a dot and the user's id: the owner of what it starts is the project. Its number,
    by which requests are counted, is the user's and below zero, where no token of this service's own has one.
    """
    user = str(described["user"]["id"])
    place = SYSTEM if described.get("system") else str(described.get("project", {}).get("id", NO_ROLE))
    number = -1 - int.from_bytes(sha256(user.encode()).digest()[:6])
    return Caller(number, f"{place}.{user}", _role(described, place, trust), None)


def lasts_s(described: Mapping[str, Any], now: datetime) -> float:
    """Return for how many seconds the token is valid, 0 if it seems to have expired."""
    return max(0.0, (datetime.fromisoformat(str(described["expires_at"])) - now).total_seconds())


def _role(described: Mapping[str, Any], place: str, trust: Trust) -> str:
    """Return the highest role that counts."""
    if place == SYSTEM or place in trust.admin_projects:
        counting = {**trust.roles, "admin": Role.ADMIN}
    elif place in trust.projects:
        named = {**trust.roles, "admin": Role.MEMBER}
        counting = {name: _IN_PROJECT.get(role, role) for name, role in named.items()}
    else:
        counting = {name: role for name, role in trust.roles.items() if role is Role.SERVICE}
    found = {counting[role["name"]] for role in described.get("roles", ()) if role["name"] in counting}
    return next((role.value for role in _RANKS if role in found), NO_ROLE)

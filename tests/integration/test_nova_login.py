"""The question by which `tenure nova check` finds out whether the scheduler's login may start, on a real service."""

from __future__ import annotations

from typing import Any

import pytest
from api_service import TOKEN, running_service

from app.nova.configured import may_start
from tenure_client import TenureClient


def test_the_login_needs_the_role_service_and_the_question_changes_nothing(database_url: str) -> None:
    adapters: Any = pytest.importorskip("keystoneauth1.adapter")
    sessions: Any = pytest.importorskip("keystoneauth1.session")
    fixed: Any = pytest.importorskip("keystoneauth1.token_endpoint")
    with running_service(database_url) as service, TenureClient(service.url, TOKEN) as client:
        for name, clock in (("login", "system"), ("login-external", "external")):
            client.create_cloud(name, {"clock": clock, "guarantee": "none"})
        before = [client.cloud(name).seq for name in ("login", "login-external")]
        told = {}
        for role in ("reader", "member", "service", "admin"):
            token = client.create_token(f"of-{role}", role).token
            session = sessions.Session(auth=fixed.Token(service.url, token))
            adapter = adapters.Adapter(session, endpoint_override=service.url)
            told[role] = [may_start(adapter, name) for name in ("login", "login-external", "elsewhere")]
        assert told == {
            "reader": [403, 403, 404],
            "member": [403, 403, 404],
            "service": [204, 204, 404],
            "admin": [204, 204, 404],
        }
        assert [client.cloud(name).seq for name in ("login", "login-external")] == before

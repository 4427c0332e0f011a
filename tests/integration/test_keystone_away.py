"""A Keystone that cannot be asked: its tokens wait, and nobody else does. The real one is in tests/openstack."""

from __future__ import annotations

import socket

import httpx2
from api_service import running_service

from app.domain import errors
from app.platform.http.errors import PROBLEMS


def test_its_tokens_are_not_refused_and_ours_work(database_url: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v3"
        own = {"keystone_url": url, "keystone_user": "tenure", "keystone_password": "secret"}
        with running_service(database_url, **own) as service:
            headers = {"X-Auth-Token": "gAAAAA" + 100 * "x"}
            answer = httpx2.get(f"{service.url}/v1/clouds", headers=headers, timeout=30)
            problem = PROBLEMS[(errors.IdentityUnavailable)]
            assert (answer.status_code, answer.json()["errors"][0]["code"]) == (problem.status, problem.code)
            assert answer.headers["Retry-After"]
            assert service.client.get("/v1/clouds").status_code == 200
            guess = httpx2.get(f"{service.url}/v1/clouds", headers={"X-Auth-Token": "tnr_guess"}, timeout=30)
            assert guess.headers["WWW-Authenticate"] == f'Bearer realm="preemptible", Keystone uri="{url}"'

"""No token is in the log of a process that logs all it can, whatever a caller does with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest
from processes import HEADERS, TOKEN, Process, tenure

GUESS = "tnr_a-guess-of-a-token-that-is-nobodys"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Process]:
    process = Process("serve", tmp_path, {"TENURE_LOG_LEVEL": "debug"})
    process.start()
    yield process
    assert process.interrupt() == 0


def test_tokens_are_not_logged(service: Process) -> None:
    with httpx2.Client(base_url=service.url, headers=HEADERS) as client:
        body = {"name": "made", "role": "reader"}
        secrets = [TOKEN, GUESS, client.post("/v1/tokens", json=body).json()["token"]]
        made = tenure("token", "create", "made-too", "--role", "member", "--json", environment=service.environment)
        secrets.append(json.loads(made.stdout)["token"])
        for secret in secrets:
            statuses = [
                client.get("/v1/clouds", headers={"X-Auth-Token": secret}).status_code,
                client.get("/v1/clouds", headers={"Authorization": f"Bearer {secret}"}).status_code,
                client.get(f"/v1/clouds/{secret}").status_code,
                client.get(f"/v1/tokens/{secret}").status_code,
                client.get("/v1/clouds", params={"token": secret}).status_code,
                client.get("/v1/clouds", headers={"X-Openstack-Request-Id": secret}).status_code,
            ]
            assert statuses[2:] == [404, 404, 400, 200]
    log = service.log.read_text() + made.stderr
    assert log.count("/v1/clouds/tnr_...") >= len(secrets) - 1
    for secret in secrets:
        assert secret not in log


def test_no_secret_is_in_the_environment_of_a_child(tmp_path: Path, database_url: str) -> None:
    """An environment can be read as long as the process lives, and by every program that it starts."""
    with_password = database_url.replace("postgres:@", "postgres:secret-of-the-database@")
    assert with_password != database_url
    variables = {"TENURE_DATABASE_URL": with_password, "OTEL_EXPORTER_OTLP_HEADERS": "key=secret-of-the-collector"}
    process = Process("run", tmp_path, variables, "app.cli")
    process.start()
    try:
        (worker,) = psutil.Process(process.process.pid).children()
        told = "\n".join([*worker.environ().values(), *worker.cmdline()])
        assert "--leave-with-parent" in told
        for secret in (TOKEN, "secret-of-the-database", "secret-of-the-collector"):
            assert secret not in told
    finally:
        assert process.interrupt() == 0

"""Processes on a database that a newer version has taken over, or has prepared for itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import httpx2
import msgspec
import older_programs
import psycopg
import pytest
from processes import HEADERS, Process, tenure
from servers import on_database, run_sql

import migrations
from app.platform.database.migrating import LOG_FORMAT, stand, upgrade

CODE = "preemptible.log.newer"
START = {"market": "on_demand", "flavor": "small"}
NEWER_SCHEMA = "UPDATE alembic_version SET version_num = '0099'"
TOO_NEW = {
    "schema": f"{NEWER_SCHEMA}; UPDATE agreement SET runs_from = '0099'",
    "format": "UPDATE agreement SET log_format = 99",
}
AS_IT_WAS = (
    f"UPDATE alembic_version SET version_num = '{migrations.newest()}'; "
    f"UPDATE agreement SET log_format = {LOG_FORMAT}, runs_from = '{migrations.newest()}'"
)


@pytest.fixture
def url(embedded_server: str) -> Iterator[str]:
    run_sql(embedded_server, "CREATE DATABASE tenure_versions")
    found = on_database(embedded_server, "tenure_versions")
    upgrade(found)
    yield found
    run_sql(embedded_server, "DROP DATABASE tenure_versions WITH (FORCE)")


def wait_until(holds: Callable[[], object], seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.2)


@pytest.mark.parametrize("way", TOO_NEW)
def test_no_process_starts_on_a_database_that_is_too_new(url: str, way: str, tmp_path: Path) -> None:
    run_sql(url, TOO_NEW[way])
    environment = {"TENURE_DATABASE_URL": url, "TENURE_DATA_DIR": str(tmp_path), "TENURE_PORT": "0"}
    commands = [("serve",), ("worker",), ("db", "upgrade"), ("db", "downgrade"), ("token", "list")]
    for command in commands if way == "schema" else commands[:1]:
        done = tenure(*command, environment=environment)
        said = [line for line in done.stderr.splitlines() if line.startswith("tenure: ")]
        assert done.returncode == 3, (command, done.stdout, done.stderr)
        assert len(said) == 1, (command, done.stderr)
        assert "a newer version of Tenure" in said[0]
        assert "Traceback" not in done.stderr
    told = tenure("db", "status", environment=environment)
    assert told.returncode == 0, told.stderr
    assert "99" in told.stdout, "it tells what is there"


@pytest.mark.parametrize("way", TOO_NEW)
def test_a_running_process_gives_up_what_a_newer_version_has_taken_over(url: str, way: str, tmp_path: Path) -> None:
    process = Process("serve", tmp_path, {"TENURE_DATABASE_URL": url})
    process.start()
    try:
        with httpx2.Client(base_url=process.url, headers=HEADERS, timeout=30) as client:
            client.post("/v1/clouds", json={"name": "north"}).raise_for_status()
            client.post("/v1/clouds/north/nodes", json={"name": "node-0", "cores": 9}).raise_for_status()
            client.post("/v1/clouds/north/flavors", json={"name": "small", "cores": 1}).raise_for_status()
            run_sql(url, TOO_NEW[way])
            wait_until(lambda: client.post("/v1/clouds/north/instances", json={"id": "no", **START}).status_code == 503)
            refused = client.post("/v1/clouds/north/instances", json={"id": "no-more", **START})
            assert refused.json()["errors"][0]["code"] == CODE
            assert client.get("/healthcheck").text.startswith(CODE)
            assert client.get("/readiness").json()["code"] == CODE
            assert client.get("/v1/clouds/north").status_code == 503
            assert 'tenure_left_alone{what="database"} 1.0' in client.get("/metrics").text
            run_sql(url, AS_IT_WAS)
            wait_until(process.is_up)
            assert client.post("/v1/clouds/north/instances", json={"id": "yes", **START}).status_code == 201
            assert client.get("/v1/clouds/north/instances/no-more").status_code == 404
        assert "Traceback" not in process.log.read_text()
    finally:
        process.kill()


def test_nothing_that_older_programs_cannot_read_is_written_until_the_upgrade_is_finished(
    url: str, tmp_path: Path
) -> None:
    run_sql(url, "UPDATE agreement SET log_format = 1")
    process = Process("serve", tmp_path, {"TENURE_DATABASE_URL": url})
    process.start()
    try:
        with httpx2.Client(base_url=process.url, headers=HEADERS, timeout=30) as client:
            north, apart = {"name": "north"}, {"name": "apart", "policy": {"shared_ids": False}}
            assert client.post("/v1/clouds", json=north).status_code == 201
            assert patch(client, {"confidence": 0.9}).status_code == 200
            refused = [client.post("/v1/clouds", json=apart), patch(client, {"confidence": 0.8, "shared_ids": False})]
            for answer in refused:
                assert answer.status_code == 409, answer.text
                (error,) = answer.json()["errors"]
                assert error["code"] == "preemptible.log.format_not_in_force"
                assert "shared_ids needs log format 2" in error["detail"]
                assert "tenure db upgrade --finish" in error["detail"]
            assert client.get("/v1/clouds/apart").status_code == 404
            assert [policy["confidence"] for policy in written_in_format_1(url)] == [0.95, 0.9]
            assert tenure("db", "upgrade", "--finish", "--database-url", url).returncode == 0
            wait_until(lambda: patch(client, {"shared_ids": False}).status_code == 200, 20)
            assert client.post("/v1/clouds", json=apart).status_code == 201
            assert client.get("/v1/clouds/north").json()["policy"]["shared_ids"] is False
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            written_in_format_1(url)
        assert "Traceback" not in process.log.read_text()
    finally:
        process.kill()


def patch(client: httpx2.Client, policy: dict[str, object]) -> httpx2.Response:
    return client.patch("/v1/clouds/north", json={"policy": policy})


def written_in_format_1(url: str) -> list[dict[str, object]]:
    """The policies of all logs, by a strict reader of the first format."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT kind, version, data::text FROM event ORDER BY cloud_id, seq").fetchall()
    return [asdict(older_programs.read(kind, version, data, 1).policy) for kind, version, data in rows]


def test_a_new_database_begins_with_the_newest_format(url: str) -> None:
    assert stand(url).log_format == LOG_FORMAT


def test_a_process_starts_and_runs_on_a_newer_schema_that_takes_it(url: str, tmp_path: Path) -> None:
    run_sql(url, NEWER_SCHEMA)
    process = Process("serve", tmp_path, {"TENURE_DATABASE_URL": url})
    process.start()
    try:
        assert httpx2.get(f"{process.url}/readiness", timeout=10).json()["ready"] is True
        assert "newer than this program" in process.log.read_text()
    finally:
        process.kill()

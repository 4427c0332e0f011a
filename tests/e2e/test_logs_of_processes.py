"""Tests of the standard error of real processes: every line is JSON of one form, and none holds a token."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, TOKEN, Process
from servers import on_database, run_sql

NAME = "tenure_logged"
CLOUD = "/v1/clouds/logged"


@pytest.fixture(scope="module")
def database(embedded_server: str) -> Iterator[str]:
    """A database without any schema yet."""
    run_sql(embedded_server, f"CREATE DATABASE {NAME}")
    yield on_database(embedded_server, NAME)
    run_sql(embedded_server, f"DROP DATABASE {NAME} WITH (FORCE)")


@pytest.fixture(scope="module")
def logs(database: str, tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, object]]]:
    """The lines of an API process and of a worker that had something to do, and something to complain of."""
    directory = tmp_path_factory.mktemp("logged")
    environment = {"TENURE_DATABASE_URL": database, "TENURE_LOG_FORMAT": "json", "TENURE_LOG_LEVEL": "debug"}
    server, worker = (Process(command, directory, environment) for command in ("serve", "worker"))
    worker.environment["TENURE_WORKER_PORT"] = str(worker.port)
    try:
        for process in (server, worker):
            process.start()
        work(server)
        complain(server, worker, database)
    finally:
        ended = [process.interrupt() for process in (worker, server)]
    assert ended == [0, 0]
    return [lines_of(process.log) for process in (server, worker)]


def work(server: Process) -> None:
    """A cloud, a rejected start, a table."""
    for path, body in (
        ("/v1/clouds", {"name": "logged"}),
        (f"{CLOUD}/flavors", {"name": "small", "cores": 1}),
        (f"{CLOUD}/instances", {"id": "i-1", "market": "on_demand", "flavor": "small"}),
        (f"{CLOUD}/tables", None),
    ):
        assert httpx2.post(f"{server.url}{path}", json=body, headers=HEADERS, timeout=60).status_code in {201, 202}
    httpx2.get(f"{server.url}{CLOUD}", headers={"Authorization": f"Bearer {TOKEN}"})
    deadline = time.monotonic() + 120  # the first run of a new version compiles
    while not httpx2.get(f"{server.url}{CLOUD}/tables", headers=HEADERS, timeout=60).json()["tables"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def complain(server: Process, worker: Process, database: str) -> None:
    """Something that is no HTTP, and a table that cannot be read until both processes have met that."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"\x00not HTTP\r\n\r\n")
        connection.recv(100)
    run_sql(database, "ALTER TABLE forecast_run RENAME TO mislaid")
    run_sql(database, "CREATE VIEW forecast_run AS SELECT * FROM mislaid WHERE 1 / 0 > 0")
    assert httpx2.get(f"{server.url}{CLOUD}/runs", headers=HEADERS, timeout=60).status_code == 500
    deadline = time.monotonic() + 60
    while not re.search("the job run_pending failed", worker.log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    run_sql(database, "DROP VIEW forecast_run")
    run_sql(database, "ALTER TABLE mislaid RENAME TO forecast_run")


def lines_of(log: Path) -> list[dict[str, object]]:
    """All but the greeting, which goes to standard output."""
    text = log.read_text()
    assert TOKEN not in text
    text = re.sub(r"^Tenure is ready.*?^    curl [^\n]*\n+", "", text, flags=re.DOTALL | re.MULTILINE)
    return [json.loads(line) for line in text.splitlines()]


def test_all_but_the_greeting_is_json(logs) -> None:
    for lines, process in zip(logs, ("serve", "worker"), strict=True):
        assert all({"timestamp", "level", "event", "process"} <= line.keys() for line in lines)
        assert {line["process"] for line in lines} == {process}


def test_requests_are_lines_with_their_ids(logs) -> None:
    requests = [line for line in logs[0] if line["event"] == "request"]
    (started,) = [line for line in requests if line.get("operation") == "start_instance"]
    assert started["caller"] == "admin"
    assert (started["cloud"], started["status"], started["method"]) == ("logged", 201, "POST")
    assert 0 < started["duration_s"] < 30
    (failed,) = [line for line in requests if line["status"] == 500]
    (trace,) = [line for line in logs[0] if line["event"] == "a request failed"]
    assert failed["level"] == trace["level"] == "error"
    assert failed["request_id"] == trace["request_id"]
    assert "forecast_run" in trace["exception"]


def test_runs_are_lines_with_their_ids(logs) -> None:
    (published,) = [line for line in logs[1] if line["event"] == "a table was published"]
    assert (published["run_id"], published["cloud_id"], published["epoch"]) == (1, 1, 1)


def test_libraries_write_the_same_lines(logs) -> None:
    assert [line for line in logs[0] if line.get("logger") == "alembic.runtime.migration"]


def test_jobs_that_fail_are_lines_of_the_worker(logs) -> None:
    failed = [line for line in logs[1] if line["event"] == "the job run_pending failed"]
    assert all(line["level"] == "error" and "forecast_run" in line["exception"] for line in failed)
    assert failed

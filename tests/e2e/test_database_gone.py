"""A database that is dropped, made anew and filled from a dump under running processes: they wait for it and go on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, Process
from servers import debian_binaries, on_database, run_sql

NAME = "tenure_gone"
EMPTY_S = 12
"""The time for which the database has no tables: longer than every pause between two looks."""
POLICY = {
    "guarantee": "per_instance",
    "eviction_probability": 0.5,
    "warm_up_s": 0,
    "recompute_every_s": 10,
    "table_max_age_s": 3600,
    "sample_count": 50,
    "horizon_s": 3600,
}
START = {"market": "on_demand", "flavor": "small"}
SPOT = {"market": "spot", "flavor": "small", "lifetime_s": 1}
CLOUD = "/v1/clouds/north"


@pytest.fixture
def url(external_server: str) -> Iterator[str]:
    run_sql(external_server, f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
    run_sql(external_server, f"CREATE DATABASE {NAME}")
    yield on_database(external_server, NAME)
    run_sql(external_server, f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")


def until(what: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def epoch(client: httpx2.Client) -> int:
    return int(client.get(f"{CLOUD}/tables/newest").json().get("epoch", 0))


def heard_s(writer: httpx2.Client, reader: httpx2.Client, name: str) -> float:
    """Start an instance at one process; return how long the other one's stream takes to tell it, in seconds."""
    seq = reader.get(CLOUD).json()["seq"]
    with reader.stream("GET", f"{CLOUD}/events/stream?after_seq={seq}&limit=1") as stream:
        assert stream.status_code == 200
        time.sleep(0.5)
        began = time.monotonic()
        writer.post(f"{CLOUD}/instances", json={"id": name, **START}).raise_for_status()
        assert f'"{name}"' in stream.read().decode()
        return time.monotonic() - began


def decided_with(client: httpx2.Client) -> int:
    """Return the epoch of the table with which this process decides a spot start."""
    answer = client.post(f"{CLOUD}/instances", json={"id": f"spot-{time.monotonic_ns()}", **SPOT}).json()
    return 0 if answer["quote"] is None else int(answer["quote"]["epoch"])


@pytest.mark.long
def test_processes_wait_for_a_database_without_tables_and_go_on_with_its_dump(
    url: str, external_server: str, tmp_path: Path
) -> None:
    tools, dump = debian_binaries(), tmp_path / "tenure.dump"
    apis = [Process("serve", tmp_path, {"TENURE_DATABASE_URL": url}) for _ in range(2)]
    worker = Process("worker", tmp_path, {"TENURE_DATABASE_URL": url})
    worker.environment["TENURE_WORKER_PORT"] = str(worker.port)
    everyone = [*apis, worker]
    with ExitStack() as stack:
        for process in everyone:
            process.start()
            stack.callback(process.kill)
        first, second = (stack.enter_context(httpx2.Client(base_url=one.url, headers=HEADERS)) for one in apis)
        first.post("/v1/clouds", json={"name": "north", "policy": POLICY}).raise_for_status()
        first.post(f"{CLOUD}/nodes", json={"name": "node-0", "cores": 99}).raise_for_status()
        first.post(f"{CLOUD}/flavors", json={"name": "small", "cores": 1}).raise_for_status()
        assert heard_s(first, second, "before") < 2
        until(lambda: epoch(first) > 0, 120)  # the first one of an installation waits for the compiler
        subprocess.run([tools / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
        run_sql(external_server, f"DROP DATABASE {NAME} WITH (FORCE)")
        run_sql(external_server, f"CREATE DATABASE {NAME}")
        time.sleep(EMPTY_S)
        for process in everyone:
            health = httpx2.get(f"{process.url}/healthcheck")
            assert (health.status_code, health.text.split(":")[0]) == (503, "preemptible.log.unavailable")
        refused = first.post(f"{CLOUD}/instances", json={"id": "meanwhile", **START})
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (503, "preemptible.log.unavailable")
        restore = ["--exit-on-error", "--single-transaction", "--no-owner", f"--dbname={url}", dump]
        subprocess.run([tools / "pg_restore", *restore], check=True)
        until(lambda: all(one.is_up() for one in everyone), 10)
        time.sleep(6)  # the longest pause before listening again
        assert heard_s(first, second, "after-1") < 2
        assert heard_s(second, first, "after-2") < 2
        known = epoch(first)
        until(lambda: epoch(first) > known + 1, 60)
        until(lambda: decided_with(first) > known and decided_with(second) > known, 10)
        assert [process.interrupt() for process in everyone] == [0, 0, 0]

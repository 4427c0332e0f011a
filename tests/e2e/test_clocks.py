"""Processes on machines with wrong clocks write the database's time, and a log of the future is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest
from faults.clock import write_offset
from processes import HEADERS, TOKEN, Process, tenure

from app.domain.times import HOUR_US, SECOND_US, from_rfc3339

_NEAR_US = 3 * SECOND_US
_TESTS = str(Path(__file__).parents[1])
CLOUD = "/v1/clouds/timed"


class Wrong(Process):
    """A process that reads its machine's clock with an offset that can be changed while it runs."""

    def __init__(self, directory: Path, database_url: str, offset_us: int) -> None:
        self.clock = directory / f"{offset_us}.clock"
        write_offset(self.clock, offset_us)
        own = {"TENURE_DATABASE_URL": database_url, "FAULTS_CLOCK": str(self.clock), "PYTHONPATH": _TESTS}
        super().__init__("serve", directory, own, module="faults.process")

    def step(self, offset_us: int) -> None:
        write_offset(self.clock, offset_us)


@pytest.fixture(scope="module")
def stepped(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wrong, Wrong]]:
    """Two API processes on one database: an hour ahead, and an hour behind."""
    directory = tmp_path_factory.mktemp("clocks")
    processes = Wrong(directory, database_url, HOUR_US), Wrong(directory, database_url, -HOUR_US)
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.kill()


def database_us(database_url: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
    assert row is not None
    return int(row[0])


def post(process: Process, path: str, body: dict[str, object]) -> dict[str, object]:
    answer = httpx2.post(process.url + path, json=body, headers=HEADERS, timeout=60)
    assert answer.status_code == 201, answer.text
    return answer.json()


def log_times_us(process: Process) -> list[int]:
    events = httpx2.get(f"{process.url}{CLOUD}/events", params={"limit": 1000}, headers=HEADERS, timeout=60).json()
    return [from_rfc3339(event["at"]) for event in events["events"]]


def start(process: Process, name: str) -> None:
    post(process, f"{CLOUD}/instances", {"id": name, "market": "on_demand", "flavor": "c1"})


def test_the_logs_time_is_the_databases_whatever_the_machines_say(stepped: tuple[Wrong, Wrong], database_url: str):
    ahead, behind = stepped
    before_us = database_us(database_url)
    post(behind, "/v1/clouds", {"name": "timed", "policy": {"guarantee": "none"}})
    post(ahead, f"{CLOUD}/nodes", {"name": "node-1", "cores": 1000})
    post(behind, f"{CLOUD}/flavors", {"name": "c1", "cores": 1})
    for number in range(20):
        start(stepped[number % 2], f"i-{number}")
        if number == 10:
            ahead.step(-HOUR_US)
            behind.step(HOUR_US)
    times_us = log_times_us(ahead)
    assert len(times_us) == 23
    assert times_us == sorted(times_us)
    assert before_us - _NEAR_US < times_us[0]
    assert times_us[-1] < database_us(database_url) + _NEAR_US


def test_decisions_on_a_log_of_the_future_go_on_at_its_time_and_it_is_told(
    stepped: tuple[Wrong, Wrong], database_url: str
):
    future_us = database_us(database_url) + HOUR_US
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE event SET data = jsonb_set(data, '{at_us}', to_jsonb(%s::bigint)) "
            "WHERE seq = (SELECT max(seq) FROM event)",
            [future_us],
        )
    for number, process in enumerate(stepped):
        start(process, f"late-{number}")
        assert log_times_us(process)[-1] == future_us
        ((cloud),) = httpx2.get(f"{process.url}/readiness", headers=HEADERS).json()["clouds"]
        assert 3500 < cloud["log_ahead_s"] <= 3600
        metrics = httpx2.get(f"{process.url}/metrics/clouds", headers=HEADERS).text
        (line,) = [line for line in metrics.splitlines() if line.startswith("tenure_cloud_log_ahead_seconds{")]
        assert 3500 < float(line.split()[-1]) <= 3600
    shown = tenure("status", "--url", stepped[0].url, "--token", TOKEN).stdout
    assert "its log's time is" in shown

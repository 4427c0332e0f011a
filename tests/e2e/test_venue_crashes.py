"""Processes that work for venues are killed with -9: an import, a worker that fits, an API process that plans.

After a restart the answers are those of a venue at which nobody was killed. Two workers never fit one venue at once.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psycopg
import pytest
from processes import HEADERS, Process

from app.domain.times import DAY_US, HOUR_US, from_rfc3339, rfc3339
from app.platform.database.lockids import VENUE_LOCK
from app.venues.rules.pricefiles import CSV_COLUMNS

pytestmark = pytest.mark.long
BEGIN_US = from_rfc3339("2015-05-01T00:00:00Z")
END_US = BEGIN_US + 36 * DAY_US + HOUR_US
TYPES = "instance_type,vcpu,compute_units,memory_mib,on_demand_price,from\nc3.xlarge,4,14,7680,0.21,2014-01-01\n"
KILLS = 6
_HELD = """
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND classid::bigint = %s & 4294967295 AND objid::bigint = %s
"""


def write(path: Path, every_us: int) -> int:
    """Write prices of three pools that move so often, with spikes; return how many."""
    rows = [",".join(CSV_COLUMNS)]
    for number, zone in enumerate("abc"):
        draw, level = np.random.default_rng(number), 0.0
        for at_us in range(BEGIN_US, END_US + 1, every_us):
            level = 0.95 * level + float(draw.normal(0, 0.08))
            price = f"{0.03 * np.exp(level) * (4.0 if draw.random() < 0.01 else 1.0):.4f}"
            rows.append(f"aws,us-east-1,us-east-1{zone},c3.xlarge,Linux/UNIX,{rfc3339(at_us)},{price},USD")
    path.write_text("\n".join(rows) + "\n")
    return len(rows) - 1


def until(holds: Callable[[], bool], within_s: float = 120) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class World:
    """A database, prices in files, and an API process on it."""

    def __init__(self, url: str, directory: Path) -> None:
        self.directory, self.environment = directory, {"TENURE_DATABASE_URL": url}
        self.many, self.few = directory / "many.csv", directory / "few.csv"
        self.count = write(self.many, HOUR_US // 24)
        write(self.few, HOUR_US // 2)
        self.types = directory / "types.csv"
        self.types.write_text(TYPES)
        self.api = Process("serve", directory, self.environment)
        self.client = httpx2.Client(base_url=self.api.url, headers=HEADERS, timeout=120)
        self.database = psycopg.connect(url, autocommit=True)

    def worker(self) -> Process:
        """Return a worker that answers at its port."""
        worker = Process("worker", self.directory, self.environment)
        worker.environment["TENURE_WORKER_PORT"] = str(worker.port)
        return worker

    def importing(self, name: str, file: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "app.cli", "venue", "import", name, str(file), "--types", str(self.types)]
        return subprocess.Popen(command, env=os.environ | self.environment, stdout=subprocess.DEVNULL)

    def imported(self, name: str, file: Path) -> None:
        assert self.importing(name, file).wait(240) == 0

    def killed_import(self, name: str, after_s: float) -> list[tuple[Any, ...]]:
        """Kill an import so long after it began to write; return what is stored then."""
        importing = self.importing(name, self.many)
        until(lambda: self.held(VENUE_LOCK) == 1 or importing.poll() is not None)
        time.sleep(after_s)
        importing.kill()
        importing.wait()
        until(lambda: self.held(VENUE_LOCK) == 0)
        return self.stored(name)

    def held(self, lock: tuple[int, int]) -> int:
        """Return how many sessions hold an advisory lock."""
        [[found]] = self.sql(_HELD, *lock)
        return int(found)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.database.execute(statement, values).fetchall()

    def stored(self, name: str) -> list[tuple[Any, ...]]:
        """Return every price of a venue, and its counts."""
        tables = "venue JOIN pool ON venue_id = venue.id JOIN price_day ON pool_id = pool.id"
        words = "zone, day, at_us, micro, pool_count, price_count, first_us, last_us"
        return self.sql(f"SELECT {words} FROM {tables} WHERE name = %s ORDER BY 1, 2", name)

    def quotes(self, name: str) -> Any:
        query = {"lifetime_s": 7200, "probability": 0.9, "at": rfc3339(END_US)}
        answer = self.client.get(f"/v1/venues/{name}/quotes", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["quotes"]


@pytest.fixture(scope="module")
def world(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(database_url, tmp_path_factory.mktemp("venues"))
    world.api.start(whole=False)
    yield world
    assert world.api.interrupt() == 0
    world.client.close()
    world.database.close()


def test_an_import_that_is_killed_leaves_all_or_nothing_and_is_done_again(world: World) -> None:
    draw = random.Random(35)
    world.imported("whole", world.many)
    expected = world.stored("whole")
    assert expected[0][5] == world.count
    left = [world.killed_import("killed", draw.uniform(0, 0.6) if kill else 0.0) for kill in range(KILLS)]
    assert all(one in ([], expected) for one in left)
    assert left[0] == [], "it was killed in the middle of its transaction"
    world.imported("killed", world.many)
    assert world.stored("killed") == expected
    assert world.quotes("killed") == world.quotes("whole")
    world.imported("killed", world.many)
    assert world.stored("killed") == expected


def test_workers_never_fit_a_venue_twice_and_killed_ones_change_no_answer(world: World) -> None:
    for name in ("one", "other"):
        world.imported(name, world.few)
    world.sql("DELETE FROM venue WHERE name IN ('whole', 'killed') RETURNING 1")

    def runs(status: str) -> int:
        [[found]] = world.sql("SELECT count(*) FROM venue_refit WHERE status = %s", status)
        return int(found)

    before = world.quotes("one")
    victims = [world.worker() for _ in range(2)]
    for worker in victims:
        worker.start(whole=False)
    until(lambda: runs("running") > 0)
    for worker in victims:
        worker.kill()
    killed, done = runs("running"), runs("succeeded")
    assert killed > 0
    if not done:
        assert world.quotes("one") == before, "what was not finished changes nothing"
    workers = [world.worker() for _ in range(2)]
    for worker in workers:
        worker.start(whole=False)
    until(lambda: runs("succeeded") == 2, 240)
    attempts = [row[0] for row in world.sql("SELECT attempts FROM venue_refit ORDER BY attempts")]
    assert attempts == [1] * (2 - killed) + [2] * killed, "each killed attempt was taken up again, once"
    assert sum(fitted(worker) for worker in workers) == 2 - done, "each venue was fitted once"
    [[one], [other]] = world.sql("SELECT body FROM venue_model ORDER BY venue_id")
    assert one == other, "the same prices make the same model"
    assert world.quotes("one") == world.quotes("other")
    assert {quote["source"] for quote in world.quotes("one")} == {"learned"}
    for worker in workers:
        assert worker.interrupt() == 0


def fitted(worker: Process) -> float:
    """Return how many fits a worker says that it finished."""
    text = httpx2.get(f"{worker.url}/metrics", headers=HEADERS).text
    lines = [line for line in text.splitlines() if line.startswith('tenure_venue_refits_total{outcome="succeeded"}')]
    return sum(float(line.split()[-1]) for line in lines)


def test_a_plan_is_made_or_not_and_the_same_after_a_kill(world: World) -> None:
    draw = random.Random(7)
    jobs = [
        {"id": f"j{at}", "work_s": 7200, "on_type": "c3.xlarge", "deadline": rfc3339(END_US + (6 + at) * HOUR_US)}
        for at in range(6)
    ]
    asked = {"jobs": jobs, "venues": ["one"], "at": rfc3339(END_US), "checkpoint": {"write_s": 60, "read_s": 60}}

    def told(answer: httpx2.Response) -> dict[str, Any]:
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return {name: value for name, value in found.items() if name not in {"id", "created_at", "links"}}

    began = time.monotonic()
    expected = told(world.client.post("/v1/plans", json=asked | {"id": "undisturbed"}))
    took_s = time.monotonic() - began
    for kill in range(KILLS):
        body = asked | {"id": f"killed-{kill}"}
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(world.client.post, "/v1/plans", json=body)
            time.sleep(draw.uniform(0, 1.1 * took_s))
            world.api.kill()
            early = None if answer.exception() is not None else answer.result()
        world.api.start(whole=False)
        kept = world.client.get(f"/v1/plans/killed-{kill}")
        assert kept.status_code in ({200} if early is not None else {200, 404})
        if early is not None:
            assert kept.json() == early.json(), "what was answered is kept"
        again = world.client.post("/v1/plans", json=body)
        assert told(again) == expected
        assert again.json() == world.client.get(f"/v1/plans/killed-{kill}").json()

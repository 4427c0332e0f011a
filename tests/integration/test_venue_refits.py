"""The learned survival in the service: fitted by workers one at a time, the same from the same prices, and used."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from api_service import Service

from app.domain.times import DAY_US, HOUR_US, from_rfc3339, rfc3339
from app.platform.database.database import Database
from app.platform.database.locks import Locks
from app.processes.import_wiring import open_venue_imports
from app.venues.refits import VenueRefits
from app.venues.rules.pricefiles import CSV_COLUMNS, PriceRows, read_csv
from app.venues.rules.training import trained_of
from app.venues.rules.types import MachineType
from app.venues.store.models import VenueModels
from app.venues.store.prices import VenuePriceStore

BEGIN_US = from_rfc3339("2015-05-01T00:00:00Z")
DAYS = 36
END_US = BEGIN_US + DAYS * DAY_US + HOUR_US


def lines() -> list[str]:
    """Return the lines of three pools whose prices move every half hour, with days of spikes."""
    found = []
    for number, zone in enumerate("abc"):
        draw = np.random.default_rng(number)
        level = 0.0
        for at_us in range(BEGIN_US, END_US + 1, HOUR_US // 2):
            level = 0.95 * level + float(draw.normal(0, 0.08))
            spike = 4.0 if draw.random() < 0.01 else 1.0
            price = f"{0.03 * np.exp(level) * spike:.4f}"
            found.append(f"aws,us-east-1,us-east-1{zone},c3.xlarge,Linux/UNIX,{rfc3339(at_us)},{price},USD")
    return found


def put(service: Service, name: str, text: list[str]) -> None:
    rows = PriceRows(END_US)
    read_csv([",".join(CSV_COLUMNS), *text], rows)

    async def work() -> None:
        async with open_venue_imports(service.settings) as imports:
            await imports.run(name, rows, {"c3.xlarge": MachineType(14.0, 7.5, 0.21)}, [])

    asyncio.run(work())


def refit(service: Service, workers: int = 1) -> None:
    async def work() -> None:
        database = Database(str(service.settings.database_url))
        refits = [
            VenueRefits(VenuePriceStore(database), VenueModels(database), Locks(database)) for _ in range(workers)
        ]
        await asyncio.gather(*(one.refit_venues() for one in refits))
        await database.close()

    asyncio.run(work())


def sql(service: Service, statement: str) -> list[tuple[Any, ...]]:
    async def work() -> list[tuple[Any, ...]]:
        database = Database(str(service.settings.database_url))
        rows = [tuple(row) for row in await database.execute(statement)]
        await database.close()
        return rows

    return asyncio.run(work())


def quotes(service: Service, name: str, at_us: int = END_US) -> list[dict[str, Any]]:
    query = {"lifetime_s": 7200, "probability": 0.9, "at": rfc3339(at_us)}
    answer = service.client.get(f"/v1/venues/{name}/quotes", params=query)
    assert answer.is_success, answer.text
    found: list[dict[str, Any]] = answer.json()["quotes"]
    return found


@pytest.fixture(scope="module")
def fitted(service: Service) -> str:
    put(service, "fitted", lines())
    assert service.client.get("/v1/venues/fitted").json()["model"] is None
    assert {one["source"] for one in quotes(service, "fitted")} == {"price_crossing"}
    refit(service, workers=3)
    return "fitted"


def test_several_workers_fit_once_and_quotes_come_from_the_model(service: Service, fitted: str) -> None:
    assert sql(service, "SELECT status, attempts FROM venue_refit") == [("succeeded", 1)]
    model = service.client.get(f"/v1/venues/{fitted}").json()["model"]
    assert model["trained_until"].startswith("2015-06-06T00:00:00")
    assert model["outcomes"] > 2_000
    for one in quotes(service, fitted):
        assert (one["source"], one["windows"] > 100) == ("learned", True)
        assert one["at_least"] <= one["survival"] <= 1.0
        assert one["why_not"] is None or one["bid"] is None
        assert one["bid"] >= one["price"]
    early = quotes(service, fitted, BEGIN_US + 30 * DAY_US)
    assert {one["source"] for one in early} == {"price_crossing"}, "a model that has seen what came later is not asked"
    refit(service)
    assert len(sql(service, "SELECT id FROM venue_refit")) == 1, "nothing is due for ten days"


def test_a_plan_rests_on_the_model_where_the_venue_has_one(service: Service, fitted: str) -> None:
    job = {"id": "render", "work_s": 7200, "deadline": rfc3339(END_US + 5 * HOUR_US)}
    asked = {"id": "learned", "jobs": [job], "venues": [fitted], "at": rfc3339(END_US), "probability": 0.9}
    answer = service.client.post("/v1/plans", json=asked)
    assert answer.is_success, answer.text
    ways = answer.json()["jobs"][0]["ways"]
    assert ways
    for way in ways:
        assert way["source"] == "learned"
        assert 0.9 <= way["survival"] <= 1.0
        assert way["at_least"] <= way["survival"]


def test_the_same_prices_in_any_order_make_the_same_model(service: Service, fitted: str) -> None:
    text = lines()
    put(service, "again", text[::-1])
    refit(service)
    [[one], [other]] = sql(service, "SELECT body FROM venue_model JOIN venue ON id = venue_id ORDER BY name DESC")
    assert one == other
    trained = trained_of(one)
    assert trained_of(json.loads(json.dumps(trained.as_json()))).as_json() == trained.as_json()
    assert service.client.delete("/v1/venues/again").status_code == 204


_HANGS = """
import asyncio, sys, time
import app.venues.refits as refits
from app.platform.database.database import Database
from app.platform.database.locks import Locks
from app.venues.store.models import VenueModels
from app.venues.store.prices import VenuePriceStore

def hang(*_):
    print("fitting", flush=True)
    time.sleep(600)

refits.train = hang

async def work():
    database = Database(sys.argv[1])
    await refits.VenueRefits(VenuePriceStore(database), VenueModels(database), Locks(database)).refit_venues()

asyncio.run(work())
"""


def test_a_worker_that_is_killed_while_it_fits_changes_no_answer(service: Service, fitted: str) -> None:
    sql(service, "UPDATE venue_model SET trained_us = 0 RETURNING 1")
    sql(service, "DELETE FROM venue_refit RETURNING 1")
    before = quotes(service, fitted)
    command = [sys.executable, "-c", _HANGS, str(service.settings.database_url)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "fitting\n"
        refit(service)
        assert sql(service, "SELECT status, attempts FROM venue_refit") == [("running", 1)], "the other has the lock"
        worker.send_signal(signal.SIGKILL)
    assert quotes(service, fitted) == before
    refit(service)
    assert sql(service, "SELECT status, attempts FROM venue_refit") == [("succeeded", 2)]
    assert quotes(service, fitted) == before, "the same prices make the same model"


def test_a_fit_that_fails_says_why_and_is_tried_again(
    service: Service, fitted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(service, "UPDATE venue_model SET trained_us = 0 RETURNING 1")
    sql(service, "DELETE FROM venue_refit RETURNING 1")
    before = quotes(service, fitted)

    def fail(*_: object) -> None:
        raise ArithmeticError("no model")

    monkeypatch.setattr("app.venues.refits.train", fail)
    refit(service)
    [[status, error, waits]] = sql(service, "SELECT status, error, retry_at > now() FROM venue_refit")
    assert (status, error, waits) == ("failed", "ArithmeticError: no model", True)
    assert quotes(service, fitted) == before
    monkeypatch.undo()
    sql(service, "UPDATE venue_refit SET retry_at = now() RETURNING 1")
    refit(service)
    assert sql(service, "SELECT status, attempts FROM venue_refit") == [("succeeded", 2)]

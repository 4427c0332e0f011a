"""A cloud on an external clock whose four spot instances are at risk, and what its tests ask of it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import httpx2
from api_service import Service

from app.domain.events import Recorded
from app.processes.worker_wiring import WorkerParts, open_worker
from app.workbench.logcsv import LogWriter, read_log

NOON = datetime.fromisoformat("1970-01-01T12:00:00+00:00")


def at(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def start(client: httpx2.Client, cloud: str, name: str, market: str, flavor: str, seconds: float) -> dict:
    body = {"id": name, "market": market, "flavor": flavor, "lifetime_s": 3600, "at": at(seconds)}
    answer = client.post(f"{cloud}/instances", json=body)
    assert answer.json()["status"] == "accepted", answer.text
    again = client.post(f"{cloud}/instances", json=body)
    assert again.json() == answer.json(), "the same request has the same answer, deadlines and all"
    return answer.json()


def work(service: Service, what: Callable[[WorkerParts], object]) -> None:
    async def run() -> None:
        async with open_worker(service.settings) as parts:
            await what(parts)

    asyncio.run(run())


def pass_time(client: httpx2.Client, cloud: str, seconds: float) -> None:
    """An external clock stands still between requests."""
    client.post(f"{cloud}/flavors", json={"name": f"at-{seconds}", "cores": 1, "at": at(seconds)}).raise_for_status()


def explained(client: httpx2.Client, cloud: str, name: str) -> tuple[dict, str]:
    found = client.get(f"{cloud}/instances/{name}/explanation").json()
    return found, " ".join(found["sentences"])


def written(log: list[Recorded], directory: Path):
    file = io.StringIO()
    writer = LogWriter(file)
    for item in log:
        writer.write(item)
    path = directory / "log.csv"
    path.write_text(file.getvalue())
    return list(read_log(path))


RISKY = {
    "forecast": "replay",
    "warm_up_s": 0,
    "sample_count": 400,
    "clock": "external",
    "risk_threshold": 0.5,
    "horizon_s": 86400,
    "table_max_age_s": 10_000_000,
    "recompute_every_s": 3600,
}
WAVES = 200


def waves() -> list[dict[str, object]]:
    """A wave of four cores every ten minutes.

    For the first half four more are taken, so with four slots free one is evicted by the next wave; in the second half
    eight are free, and nobody is.
    """
    four = {"market": "on_demand", "flavor": "c4"}
    found: list[dict[str, object]] = [{"start": {"id": "base", **four, "at": at(0)}}]
    for wave in range(WAVES):
        if wave == WAVES // 2:
            found.append({"stop": {"id": "base", "at": at(600 * wave)}})
        found.append({"start": {"id": f"w{wave}", **four, "at": at(600 * wave + 300)}})
        found.append({"stop": {"id": f"w{wave}", "at": at(600 * wave + 500)}})
    return found


def risky_cloud(service: Service, name: str) -> str:
    """A cloud with that past, its table, four spot instances and little room."""
    client, begin = service.client, 600 * WAVES
    path = f"/v1/clouds/{name}"
    client.post("/v1/clouds", json={"name": name, "policy": RISKY, "at": at(0)}).raise_for_status()
    client.post(f"{path}/nodes", json={"name": "node-0", "cores": 8})
    for cores in (1, 4):
        client.post(f"{path}/flavors", json={"name": f"c{cores}", "cores": cores})
    client.post(f"{path}/batch", json={"operations": waves()}).raise_for_status()
    pass_time(client, path, begin)
    client.post(f"{path}/tables").raise_for_status()
    service.compute_tables()
    service.wait_for_epoch(name, 1)
    client.patch(path, json={"policy": {"guarantee": "none"}}).raise_for_status()
    start(client, path, "again", "on_demand", "c4", begin)
    for number in range(4):
        start(client, path, f"s{number}", "spot", "c1", begin + number)
    return path


def log_of_end(client: httpx2.Client, path: str) -> list[dict]:
    last = client.get(path).json()["seq"]
    return client.get(f"{path}/events?after_seq={max(0, last - 100)}&limit=1000").json()["events"]

"""A cloud that places by the best fit, over HTTP: where starts go, what the log says, and that it passes the audit."""

from __future__ import annotations

import io
from typing import Any

import httpx2
import pytest
from api_service import Service

from app.domain.events.wire import of_wire
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows

CORES = {"wide": 8, "narrow": 4, "tight": 2}


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int = 201) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def furnish(client: httpx2.Client, name: str, **policy: Any) -> str:
    post(client, "/v1/clouds", {"name": name, "policy": {"guarantee": "none", **policy}})
    for node, cores in CORES.items():
        post(client, f"/v1/clouds/{name}/nodes", {"name": node, "cores": cores})
    for size in (1, 2, 4):
        post(client, f"/v1/clouds/{name}/flavors", {"name": f"c{size}", "cores": size})
    return f"/v1/clouds/{name}"


def started_on(client: httpx2.Client, path: str, name: str, market: str, flavor: str) -> str:
    body = {"id": name, "market": market, "flavor": flavor, "lifetime_s": 600}
    return str(post(client, f"{path}/instances", body)["node"])


def passes_audit(client: httpx2.Client, path: str) -> bool:
    """Write the cloud's log as CSV, and audit it."""
    file = io.StringIO()
    writer = LogWriter(file)
    for event in client.get(f"{path}/events", params={"limit": 1000}).json()["events"]:
        writer.write(of_wire(event))
    found = audit([row for _, row in read_rows(io.StringIO(file.getvalue()), "log")], [])
    assert found.finding is None, found.finding
    assert "best_fit" in file.getvalue()
    return True


@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_both_markets_take_the_tightest_node(service: Service, market: str) -> None:
    client = service.client
    path = furnish(client, f"tightly-{market}".replace("_", "-"), placement="best_fit")
    assert client.get(path).json()["policy"]["placement"] == "best_fit"
    nodes = [started_on(client, path, f"i{number}", market, flavor) for number, flavor in enumerate(("c1", "c2", "c1"))]
    assert nodes == ["tight", "narrow", "tight"]
    assert passes_audit(client, path)


def test_a_change_of_the_policy_changes_the_next_start(service: Service) -> None:
    client = service.client
    path = furnish(client, "changing")
    assert client.get(path).json()["policy"]["placement"] == "first_fit"
    assert started_on(client, path, "first", "spot", "c2") == "wide"
    assert client.patch(path, json={"policy": {"placement": "best_fit"}}).status_code == 200
    assert started_on(client, path, "best", "spot", "c2") == "tight"
    assert client.patch(path, json={"policy": {"placement": "worst_fit"}}).status_code == 400
    assert started_on(client, path, "evicting", "on_demand", "c4") == "narrow"
    assert passes_audit(client, path)


def test_many_starts_in_one_request_are_placed_as_one_by_one(service: Service) -> None:
    client = service.client
    starts = [
        {"id": f"i{number}", "market": "on_demand", "flavor": flavor}
        for number, flavor in enumerate(["c1", "c2", "c1", "c4", "c2", "c2"])
    ]
    together, alone = (furnish(client, name, placement="best_fit") for name in ("together", "alone"))
    client.post(f"{together}/batch", json={"operations": [{"start": one} for one in starts]}).raise_for_status()
    for one in starts:
        post(client, f"{alone}/instances", one)
    placed = [
        {one["id"]: one["node"] for one in client.get(f"{path}/instances").json()["instances"]}
        for path in (together, alone)
    ]
    assert placed[0] == placed[1]
    assert set(placed[0].values()) == set(CORES)

"""Moves over HTTP: told by log, records, explanation, client and command, repeated without effect, and replayed."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.events.wire import of_wire
from app.engine.cloud import Cloud
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows
from app.workbench.whatif import count_log
from tenure_client import Move, Start, Stop, TenureClient

PATH = "/v1/clouds/moving"


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    client = service.client
    post(client, "/v1/clouds", {"name": "moving", "policy": {"guarantee": "none", "shared_ids": False}}, 201)
    for node in ("a", "b", "c"):
        post(client, f"{PATH}/nodes", {"name": node, "cores": 2}, 201)
    post(client, f"{PATH}/flavors", {"name": "c1", "cores": 1}, 201)
    for name in ("s1", "s2"):
        post(client, f"{PATH}/instances", {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 3600}, 201)
    return client


def events(client: httpx2.Client) -> list[dict[str, Any]]:
    return client.get(f"{PATH}/events", params={"limit": 1000}).json()["events"]


def test_a_move_is_told_everywhere(service: Service, client: httpx2.Client) -> None:
    moved = post(client, f"{PATH}/instances/s1/move", {"node": "b"}, 200)
    (event,) = [one for one in events(client) if one["kind"] == "instance_moved"]
    assert event == {
        "seq": moved["seq"], "at": moved["at"], "kind": "instance_moved", "id": "s1", "node": "b", "former_node": "a",
        "as_flavor": None,
    }  # fmt: skip
    assert (moved["moved"], moved["node"], moved["former_node"]) == (True, "b", "a")
    again = post(client, f"{PATH}/instances/s1/move", {"node": "b"}, 200)
    assert again == {"id": "s1", "node": "b", "moved": False, "former_node": None, "seq": None, "at": None}
    assert client.get(f"{PATH}/instances/s1").json()["node"] == "b"
    listed = client.get(f"{PATH}/instances", params={"status": "running"}).json()["instances"]
    assert {one["id"]: one["node"] for one in listed} == {"s1": "b", "s2": "a"}
    free = {node["name"]: node["free"]["cores"] for node in client.get(f"{PATH}/nodes").json()["nodes"]}
    assert free == {"a": 1, "b": 1, "c": 2}
    told = " ".join(client.get(f"{PATH}/instances/s1/explanation").json()["sentences"])
    assert "a controller moved it from a to b." in told
    assert "Still running on b" in told


def test_by_client_and_command_and_in_a_batch(service: Service, client: httpx2.Client) -> None:
    with TenureClient(service.url, TOKEN) as tenure:
        steps = [Start("b1", "spot", "c1", 60), Move("b1", "c"), Move("b1", "c"), Stop("b1"), Move("b1", "a")]
        results = tenure.batch("moving", steps).results
        assert [one.status for one in results] == [201, 200, 200, 204, 409]
        assert [one.move.moved for one in results[1:3] if one.move] == [True, False]
        assert tenure.move("moving", "s2", "c").moved
    options = ["--url", service.url, "--token", TOKEN, "--cloud", "moving"]
    told = CliRunner().invoke(command_line(), ["move", *options, "s2", "b"])
    assert told.output.strip() == "s2 runs on b now, and not on c any more", told.output
    told = CliRunner().invoke(command_line(), ["move", *options, "s2", "b"])
    assert told.output.strip() == "s2 ran on b already: nothing was to do"


def test_only_a_controller_says_where_instances_run(service: Service, client: httpx2.Client) -> None:
    """Of anybody's instances, also where ids are not shared."""
    tokens = {
        role: post(client, "/v1/tokens", {"name": f"mover-{role}.1", "role": role}, 201)["token"]
        for role in ("member", "service")
    }
    batch = {"operations": [{"move": {"id": "s1", "node": "c"}}]}
    for path, body in ((f"{PATH}/instances/s1/move", {"node": "c"}), (f"{PATH}/batch", batch)):
        refused = client.post(path, json=body, headers={"X-Auth-Token": tokens["member"]})
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (403, "preemptible.role.insufficient")
        taken = client.post(path, json=body, headers={"X-Auth-Token": tokens["service"]})
        assert taken.status_code == 200, taken.text


def test_the_log_says_it_all(client: httpx2.Client) -> None:
    """The log folds to what the service shows, and its CSV is read back and passes the audit."""
    recorded = [of_wire(one) for one in events(client)]
    cloud, file = Cloud(), io.StringIO()
    cloud.apply_recorded(recorded)
    shown = {node["name"]: node["free"] for node in client.get(f"{PATH}/nodes").json()["nodes"]}
    assert {node.name: cloud.free(node.name)._asdict() for node in cloud.nodes_in_order()} == shown
    writer = LogWriter(file)
    for item in recorded:
        writer.write(item)
    file.seek(0)
    rows = [row for _, row in read_rows(file, "log")]
    found = audit(rows, [])
    assert found.finding is None
    assert count_log(recorded).tally is not None
    ends = {row.instance_id: row.node for row in rows if row.kind == "instance_stopped"}
    assert ends == {"b1": "c"}, "an end tells the node that it was moved to"


def test_moves_in_place_of_evictions(service: Service) -> None:
    """The next start would evict those who are asked to move, and once they have moved it evicts nobody."""
    client, path = service.client, "/v1/clouds/proposing"
    post(client, "/v1/clouds", {"name": "proposing", "policy": {"guarantee": "none", "grace_s": 600}}, 201)
    for node in ("a", "b"):
        post(client, f"{path}/nodes", {"name": node, "cores": 4}, 201)
    for cores in (1, 2, 4):
        post(client, f"{path}/flavors", {"name": f"c{cores}", "cores": cores}, 201)

    def start(name: str, flavor: str, market: str = "spot") -> dict[str, Any]:
        asked = {"id": name, "market": market, "flavor": flavor, "lifetime_s": 3600}
        return post(client, f"{path}/instances", asked, 201)

    def proposed() -> list[dict[str, Any]]:
        found = client.get(f"{path}/proposals").json()
        assert found["seq"] == service.last_seq("proposing")
        return found["proposals"]

    start("old", "c2")
    assert proposed() == [], "every flavor has room"
    start("young", "c1")
    start("younger", "c2")
    plan = [{"flavor": "c4", "node": "b", "moves": []}]
    assert proposed() == [], "two cores have no room beside the others"
    assert client.delete(f"{path}/instances/young").status_code == 204
    plan[0]["moves"] = [{"id": "younger", "node": "b", "to": "a"}]
    assert proposed() == plan
    with TenureClient(service.url, TOKEN) as tenure:
        assert [move.to for one in tenure.proposals("proposing").proposals for move in one.moves] == ["a"]
    options = ["proposals", "--url", service.url, "--token", TOKEN, "--cloud", "proposing"]
    assert json.loads(CliRunner().invoke(command_line(), [*options, "--json"]).output) == {"proposals": plan}
    assert "younger" in CliRunner().invoke(command_line(), options).output
    for move in plan[0]["moves"]:
        post(client, f"{path}/instances/{move['id']}/move", {"node": move["to"]}, 200)
    assert proposed() == []
    started = start("big", "c4", "on_demand")
    assert (started["node"], started["victims"]) == ("b", [])
    # Nobody can move any more, so the next one evicts.
    assert proposed() == []
    assert [one["id"] for one in start("more", "c2", "on_demand")["victims"]] == ["younger"]

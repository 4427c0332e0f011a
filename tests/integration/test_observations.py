"""Observations over HTTP: allowed nodes, labels, observed instances, aborts and nodes that change, and the log."""

from __future__ import annotations

import io
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
from tenure_client import Abort, Observe, Start, TenureClient

PATH = "/v1/clouds/seen"


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def code(client: httpx2.Client, path: str, body: dict[str, Any]) -> str:
    return str(client.post(path, json=body).json()["errors"][0]["code"])


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    client = service.client
    post(client, "/v1/clouds", {"name": "seen", "policy": {"guarantee": "none", "grace_s": 60}}, 201)
    for node in ("a", "b", "c"):
        post(client, f"{PATH}/nodes", {"name": node, "cores": 4, "memory_mib": 8192}, 201)
    for cores in (1, 4):
        post(client, f"{PATH}/flavors", {"name": f"c{cores}", "cores": cores, "memory_mib": 1024}, 201)
    return client


def start(client: httpx2.Client, name: str, **more: Any) -> dict[str, Any]:
    body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 3600} | more
    found: dict[str, Any] = post(client, f"{PATH}/instances", body, 201)
    return found


def shown(client: httpx2.Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{PATH}/instances/{name}").json()
    return found


def told(client: httpx2.Client, name: str) -> str:
    return " ".join(client.get(f"{PATH}/instances/{name}/explanation").json()["sentences"])


def test_a_start_takes_an_allowed_node_and_tells_for_whom_it_is(client: httpx2.Client) -> None:
    asked = {"nodes": ["elsewhere", "b"], "project": "p1", "user": "u1"}
    assert start(client, "s1", **asked)["node"] == "b"
    assert start(client, "s1", **asked | {"nodes": ["c"]})["node"] == "b", "the decision on an id stands"
    assert code(client, f"{PATH}/instances", {"id": "s1", "market": "spot", "flavor": "c1", "lifetime_s": 3600}) == (
        "preemptible.instance.conflict"
    )
    assert (shown(client, "s1")["project"], shown(client, "s1")["user"]) == ("p1", "u1")
    refused = start(client, "nowhere", nodes=["elsewhere"])
    assert (refused["status"], refused["reason"], refused["quote"]["slots"]) == ("rejected", "no_capacity", 11)
    assert "no open node of those that its caller named (elsewhere) had room" in told(client, "nowhere")
    (newest,) = client.get(f"{PATH}/decisions", params={"limit": 1}).json()["decisions"]
    assert newest["sentence"].startswith("Rejected: none of the nodes that it named had room")
    assert client.post(f"{PATH}/instances", json={"id": "x", "nodes": ["n"] * 1001}).status_code == 400


def test_an_observed_instance_makes_room_on_its_node_alone(client: httpx2.Client) -> None:
    for name in ("s2", "s3", "s4"):
        assert start(client, name, nodes=["b"])["node"] == "b"
    answer = post(client, f"{PATH}/instances/o1/observe", {"node": "b", "flavor": "c1", "project": "p2"}, 200)
    assert (answer["changed"], answer["former_node"], answer["capacity"]) == (True, None, None)
    assert [one["id"] for one in answer["victims"]] == ["s4"]
    assert answer["victims"][0]["deadline"] is not None
    instance = shown(client, "o1")
    assert (instance["node"], instance["observed"], instance["project"]) == ("b", True, "p2")
    again = post(client, f"{PATH}/instances/o1/observe", {"node": "b", "flavor": "c1"}, 200)
    assert (again["changed"], again["seq"], again["victims"]) == (False, None, [])
    assert "observed on b" in told(client, "s4")
    assert "saw it run on b" in told(client, "o1")


def test_it_moves_and_grows_and_the_node_grows_with_it_if_it_must(client: httpx2.Client) -> None:
    assert start(client, "s5", nodes=["c"])["node"] == "c"
    moved = post(client, f"{PATH}/instances/o1/observe", {"node": "c", "flavor": "c4"}, 200)
    assert (moved["former_node"], [one["id"] for one in moved["victims"]]) == ("b", ["s5"])
    assert shown(client, "s5")["reason"] == "on_demand_move"
    assert (shown(client, "o1")["node"], shown(client, "o1")["flavor"]) == ("c", "c4")
    grown = post(client, f"{PATH}/instances/o2/observe", {"node": "c", "flavor": "c1"}, 200)
    assert grown["capacity"] == {"cores": 5, "memory_mib": 8192, "disk_gib": 0}
    assert post(client, f"{PATH}/instances/o1/move", {"node": "a"}, 200)["moved"]
    assert (shown(client, "o1")["node"], shown(client, "o1")["flavor"]) == ("a", "c4"), "a move keeps the flavor"


def test_a_node_that_becomes_smaller_evicts_the_youngest_and_no_on_demand_instance(client: httpx2.Client) -> None:
    answer = post(client, f"{PATH}/nodes/b/resize", {"cores": 2, "memory_mib": 8192}, 200)
    assert [one["id"] for one in answer["victims"]] == ["s3"]
    assert shown(client, "s3")["reason"] == "node_resized"
    assert "b has less capacity" in told(client, "s3")
    assert code(client, f"{PATH}/nodes/a/resize", {"cores": 3}) == "preemptible.node.too_small"
    again = post(client, f"{PATH}/nodes/b/resize", {"cores": 2}, 200)
    assert again == {"capacity": {"cores": 2, "memory_mib": 8192, "disk_gib": 0}, "victims": []}


def test_what_never_ran_does_not_count(client: httpx2.Client) -> None:
    start(client, "s6", nodes=["b", "c"])
    before = client.get(PATH).json()["counts"]
    post(client, f"{PATH}/instances/s6/abort", {}, 204)
    after = client.get(PATH).json()["counts"]
    assert (after["spot_admitted"], after["spot_requested"]) == (before["spot_admitted"] - 1, before["spot_requested"])
    post(client, f"{PATH}/instances/s6/abort", {}, 204)
    assert (shown(client, "s6")["status"], shown(client, "s6")["aborted"]) == ("stopped", True)
    assert "it never ran" in told(client, "s6")


def test_refused_observations_change_nothing(service: Service, client: httpx2.Client) -> None:
    before, path = service.last_seq("seen"), f"{PATH}/instances"
    for name, body, expected in (
        ("s1/observe", {"node": "a", "flavor": "c1"}, "preemptible.observation.spot"),
        ("s6/observe", {"node": "a", "flavor": "c1"}, "preemptible.instance.conflict"),
        ("new/observe", {"node": "none", "flavor": "c1"}, "preemptible.node.not_found"),
        ("new/observe", {"node": "a", "flavor": "none"}, "preemptible.flavor.not_found"),
        ("none/abort", {}, "preemptible.instance.not_found"),
    ):
        assert code(client, f"{path}/{name}", body) == expected
    token = post(client, "/v1/tokens", {"name": "seer.1", "role": "member"}, 201)["token"]
    batch = {"operations": [{"abort": {"id": "s1"}}]}
    for where, body in ((f"{path}/s1/abort", {}), (f"{PATH}/batch", batch), (f"{PATH}/nodes/a/resize", {"cores": 9})):
        refused = client.post(where, json=body, headers={"X-Auth-Token": token})
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (403, "preemptible.role.insufficient")
    assert service.last_seq("seen") == before


def test_by_client_and_command_and_in_a_batch(service: Service, client: httpx2.Client) -> None:
    with TenureClient(service.url, TOKEN) as tenure:
        steps = [
            Start("b1", "spot", "c1", 60, nodes=["b"], project="p1"),
            Observe("o3", "b", "c1", project="p1"),
            Observe("o3", "b", "c1"),
            Abort("b1"),
            Abort("none"),
        ]
        results = tenure.batch("seen", steps).results
        assert [one.status for one in results] == [201, 200, 200, 204, 404]
        assert [one.observation.changed for one in results[1:3] if one.observation] == [True, False]
    options = ["--url", service.url, "--token", TOKEN, "--cloud", "seen"]

    def run(*words: str) -> str:
        found = CliRunner().invoke(command_line(), [words[0], *options, *words[1:]])
        assert found.exit_code == 0, found.output
        return found.output.strip()

    assert run("observe", "o3", "a", "c1").startswith("o3 runs on a, and not as it was known to on b")
    assert run("observe", "o3", "a", "c1") == "o3: nothing new"
    assert run("resize", "c", "--cores", "8") == "c has 8 cores; 8192 MiB of memory; disk is not counted"
    assert run("resize", "c", "--cores", "8", "--memory", "0", "--disk", "5") == (
        "c has 8 cores; memory is not counted; 5 GiB of disk"
    )
    assert run("resize", "c", "--cores", "9", "--memory", "8192") == "c has 9 cores; 8192 MiB of memory; 5 GiB of disk"
    start(client, "s7", nodes=["c"])
    assert [run("abort", "s7") for _ in range(2)] == ["s7 does not run"] * 2
    assert run("abort", "s2") == "s2 was evicted; nothing was changed"


def test_the_log_says_it_all(client: httpx2.Client) -> None:
    """The log folds to what the service shows, and its CSV is read back and passes the audit."""
    recorded = [of_wire(one) for one in client.get(f"{PATH}/events", params={"limit": 1000}).json()["events"]]
    cloud, file = Cloud(), io.StringIO()
    cloud.apply_recorded(recorded)
    free = {node["name"]: node["free"] for node in client.get(f"{PATH}/nodes").json()["nodes"]}
    assert {node.name: cloud.free(node.name)._asdict() for node in cloud.nodes_in_order()} == free
    writer = LogWriter(file)
    for item in recorded:
        writer.write(item)
    file.seek(0)
    found = audit([row for _, row in read_rows(file, "log")], [])
    assert found.finding is None
    assert found.totals is not None
    assert found.totals.admitted["spot"] == client.get(PATH).json()["counts"]["spot_admitted"]
    assert count_log(recorded).tally is not None

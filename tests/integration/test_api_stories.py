"""Stories of a controller and an operator with the service, told in order over HTTP."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx2
import pytest
from api_service import Service

from app.admission.acceptable import rounded_up

AS_JSON = {"Content-Type": "application/json"}

_names = (f"story-{number}" for number in count())
EASY = {"guarantee": "none"}


class Caller:
    """Talks to one cloud; every answer must have the status that is expected."""

    def __init__(self, client: httpx2.Client, policy: dict[str, Any]) -> None:
        self.client = client
        self.name = next(_names)
        self.path = f"/v1/clouds/{self.name}"
        self.external = policy.get("clock") == "external"
        self.expect(201, "POST", "/v1/clouds", json={"name": self.name, "policy": policy}, absolute=True)

    def expect(self, status: int, method: str, path: str = "", *, absolute: bool = False, **sent: Any) -> Any:
        answer = self.client.request(method, path if absolute else self.path + path, **sent)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def get(self, path: str = "") -> Any:
        return self.expect(200, "GET", path)

    def post(self, path: str, body: dict[str, Any], status: int = 201) -> Any:
        return self.expect(status, "POST", path, json=body)

    def furnish(self, *, nodes: int, cores: int = 4) -> None:
        for number in range(nodes):
            self.post("/nodes", {"name": f"node-{number}", "cores": cores})
        for size in (1, 2, 4):
            self.post("/flavors", {"name": f"c{size}", "cores": size})

    def start(self, name: str, market: str, flavor: str = "c1", **more: Any) -> Any:
        return self.post("/instances", {"id": name, "market": market, "flavor": flavor, **more})

    def spot(self, name: str, flavor: str = "c1", **more: Any) -> Any:
        return self.start(name, "spot", flavor, **{"lifetime_s": 3600, **more})

    def on_demand(self, name: str, flavor: str = "c1", **more: Any) -> Any:
        return self.start(name, "on_demand", flavor, **more)

    def status_of(self, name: str) -> str:
        return self.get(f"/instances/{name}")["status"]


def at(hours: float) -> str:
    minutes = round(hours * 60)
    return f"1970-01-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z"


def test_on_demand_evicts_spot_and_the_answer_names_the_victims(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    assert [caller.spot(f"s{n}")["status"] for n in range(4)] == ["accepted"] * 4
    full = caller.spot("s4")
    assert (full["status"], full["reason"], full["quote"]["slots"]) == ("rejected", "no_capacity", 0)

    started = caller.on_demand("d0", "c2")
    assert started["node"] == "node-0"
    assert [victim["id"] for victim in started["victims"]] == ["s3", "s2"]
    evicted = caller.get("/instances/s3")
    assert (evicted["status"], evicted["reason"]) == ("evicted", "on_demand_start")
    assert evicted["cause_seq"] == started["seq"]
    assert evicted["ended_at"] == started["at"]
    assert caller.get()["counts"] == {
        "on_demand_requested": 1,
        "on_demand_admitted": 1,
        "spot_requested": 5,
        "spot_admitted": 4,
        "spot_evicted": 2,
        "spot_drilled": 0,
        "running": 3,
    }


def test_the_same_start_again_has_the_same_answer(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    body = {"id": "i", "market": "spot", "flavor": "c4", "lifetime_s": 1.25}
    first = client.post(f"{caller.path}/instances", json=body)
    assert first.headers["Location"] == f"{caller.path}/instances/i"
    caller.expect(204, "DELETE", "/instances/i")
    caller.on_demand("other", "c4")
    seq = caller.get()["seq"]
    again = client.post(f"{caller.path}/instances", json=body)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    caller.post("/instances", {**body, "lifetime_s": 1.250001}, status=409)
    assert caller.get()["seq"] == seq


def test_a_stop_is_a_stop_however_often(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    caller.on_demand("i")
    caller.expect(204, "DELETE", "/instances/i")
    seq = caller.get()["seq"]
    caller.expect(204, "DELETE", "/instances/i")
    assert caller.get()["seq"] == seq
    assert caller.status_of("i") == "stopped"


def test_a_batch_is_decided_in_order_and_each_has_its_own_answer(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    start = {"market": "on_demand", "flavor": "c4"}
    operations = [
        {"start": {"id": "a", **start}},
        {"start": {"id": "b", **start}},
        {"stop": {"id": "a"}},
        {"stop": {"id": "a"}},
        {"start": {"id": "c", **start}},
        {"start": {"id": "c", **start, "flavor": "none"}},
        {"stop": {"id": "d"}},
        {"start": {"id": "a", **start}},
    ]
    results = caller.post("/batch", {"operations": operations}, status=200)["results"]
    assert [result["status"] for result in results] == [201, 201, 204, 204, 201, 409, 404, 201]
    assert [result["body"]["status"] for result in results if "body" in result] == [
        "accepted",
        "rejected",
        "accepted",
        "accepted",
    ]
    assert results[7] == results[0]
    assert results[5]["errors"][0]["code"] == "preemptible.instance.conflict"
    single = caller.on_demand("a", "c4")
    assert single == results[0]["body"]


def test_a_thousand_operations_fit_into_one_batch(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    operations = [
        {"start": {"id": f"i-{n // 2}", "market": "on_demand", "flavor": "c1"}}
        if n % 2 == 0
        else {"stop": {"id": f"i-{n // 2}"}}
        for n in range(1000)
    ]
    results = caller.post("/batch", {"operations": operations}, status=200)["results"]
    assert [result["status"] for result in results] == [201, 204] * 500


def test_a_node_is_drained_emptied_and_removed(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=2)
    caller.on_demand("d0")
    caller.spot("s0", "c2")
    assert caller.expect(200, "POST", "/nodes/node-0/drain")["status"] == "drained"
    assert caller.on_demand("d1")["node"] == "node-1"
    caller.expect(409, "DELETE", "/nodes/node-0")
    caller.expect(204, "DELETE", "/instances/d0")
    assert caller.expect(200, "DELETE", "/nodes/node-0") == {"victims": [{"id": "s0", "deadline": None}]}
    assert caller.get("/instances/s0")["reason"] == "node_removed"
    assert [node["name"] for node in caller.get("/nodes")["nodes"]] == ["node-1"]
    caller.expect(404, "GET", "/nodes/node-0")
    caller.post("/nodes", {"name": "node-0", "cores": 8})
    assert [node["name"] for node in caller.get("/nodes")["nodes"]] == ["node-1", "node-0"]
    assert caller.get("/flavors/c4")["available_slots"] == 2


def test_a_drained_node_can_be_opened_again(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    caller.expect(200, "POST", "/nodes/node-0/drain")
    assert caller.on_demand("d0")["reason"] == "no_capacity"
    assert caller.expect(200, "POST", "/nodes/node-0/open")["status"] == "open"
    assert caller.on_demand("d1")["status"] == "accepted"


def test_memory_counts_where_a_node_has_it(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.post("/nodes", {"name": "n", "cores": 8, "memory_mib": 1024})
    caller.post("/flavors", {"name": "fat", "cores": 1, "memory_mib": 512, "disk_gib": 100})
    assert caller.get("/flavors/fat")["available_slots"] == 2
    caller.on_demand("i", "fat")
    assert caller.get("/nodes/n")["free"] == {"cores": 7, "memory_mib": 512, "disk_gib": 0}


def test_the_same_node_and_flavor_again_change_nothing(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    seq = caller.get()["seq"]
    caller.furnish(nodes=1)
    assert caller.get()["seq"] == seq


def test_a_policy_is_changed_field_by_field(client: httpx2.Client) -> None:
    caller = Caller(client, {"eviction_probability": 0.05, "history_window_s": 864000})
    before = caller.get()["policy"]
    change = {"eviction_probability": 0.02, "history_window_s": None, "warm_up_s": 0.5}
    assert caller.expect(200, "PATCH", json={"policy": change})["policy"] == {**before, **change}
    caller.expect(200, "PATCH", json={"policy": {}})
    events = caller.get("/events")["events"]
    assert [event["kind"] for event in events] == ["cloud_created", "policy_changed"]
    assert [event["policy"]["eviction_probability"] for event in events] == [0.05, 0.02]


def test_lists_come_in_pages_that_lead_from_one_to_the_next(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=5)
    for number in range(7):
        caller.start(f"i-{number}", "spot" if number % 2 else "on_demand", "c1", lifetime_s=number + 1)
    caller.expect(204, "DELETE", "/instances/i-2")
    assert pages(client, f"{caller.path}/instances?limit=3", "instances", "id") == [
        ["i-0", "i-1", "i-2"],
        ["i-3", "i-4", "i-5"],
        ["i-6"],
    ]
    assert items(client, f"{caller.path}/instances?market=spot&limit=2", "instances", "id") == [
        "i-1",
        "i-3",
        "i-5",
    ]
    assert items(client, f"{caller.path}/instances?status=stopped&limit=1", "instances", "id") == ["i-2"]
    running = items(client, f"{caller.path}/instances?status=running&limit=2", "instances", "id")
    assert running == ["i-0", "i-1", "i-3", "i-4", "i-5", "i-6"]
    assert pages(client, f"{caller.path}/nodes?limit=3", "nodes", "name") == [
        ["node-0", "node-1", "node-2"],
        ["node-3", "node-4"],
    ]
    assert pages(client, f"{caller.path}/flavors?limit=3", "flavors", "name") == [["c1", "c2", "c4"]]
    seqs = items(client, f"{caller.path}/events?limit=4", "events", "seq")
    assert seqs == list(range(1, caller.get()["seq"] + 1))
    assert caller.name in items(client, "/v1/clouds?limit=1", "clouds", "name")


def items(client: httpx2.Client, href: str, kind: str, key: str) -> list[Any]:
    """All items of a list, over all its pages."""
    return [item for page in pages(client, href, kind, key) for item in page]


def pages(client: httpx2.Client, href: str, kind: str, key: str) -> list[list[Any]]:
    """Follow the links from page to page."""
    found = []
    while href:
        answer = client.get(href)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found.append([item[key] for item in page[kind]])
        href = next((link["href"] for link in page["links"] if link["rel"] == "next"), "")
    return found


@pytest.fixture(scope="module")
def learned(service: Service) -> Caller:
    """A cloud on an external clock whose history has evictions, an hour after its first table."""
    policy = {
        "clock": "external",
        "warm_up_s": 0,
        "sample_count": 500,
        "horizon_s": 86400,
        "table_max_age_s": 43200,
        "highest_probability": 0.5,
    }
    caller = Caller(service.client, policy | {"forecast": "replay"})
    caller.furnish(nodes=2)
    for hour in range(24):
        caller.on_demand(f"busy-{hour}", "c4", at=at(hour), lifetime_s=1800)
        if hour % 3 == 0:
            caller.on_demand(f"peak-{hour}", "c4", at=at(hour), lifetime_s=1800)
            caller.expect(204, "DELETE", f"/instances/peak-{hour}", params={"at": at(hour + 0.5)})
        caller.expect(204, "DELETE", f"/instances/busy-{hour}", params={"at": at(hour + 0.5)})
    asked = caller.client.post(f"{caller.path}/tables")
    assert asked.status_code == 202
    service.compute_tables()
    run = caller.client.get(asked.headers["Location"]).json()
    assert (run["status"], run["epoch"], run["error"]) == ("succeeded", 1, None)
    service.wait_for_epoch(caller.name, 1)
    return caller


def test_quotes_go_both_ways(learned: Caller) -> None:
    quotes = learned.get("/quotes?eviction_probability=0.3&lifetime_s=1200")
    assert [quote["flavor"] for quote in quotes["quotes"]] == ["c1", "c2", "c4"]
    assert quotes["epoch"] == 1
    assert quotes["epoch_at"] == at(23.5)
    assert quotes["expires_at"] == at(35.5)
    quote = quotes["quotes"][0]
    assert quote["slots"] == 8
    assert quote["evidence"][0]["sample_count"] >= quote["evidence"][0]["evicted_count"] > 0
    assert 0 < quote["estimated_eviction_probability"] < 1
    back = learned.get(f"/quotes?flavor=c1&eviction_probability={quote['estimated_eviction_probability']}")
    assert back["quotes"][0]["lifetime_s"] > 1200
    assert learned.get("/quotes?slots=0&flavor=c1")["quotes"][0]["lifetime_s"] == 0
    learned.expect(404, "GET", "/quotes?flavor=none")


def test_tables_and_runs_are_kept(learned: Caller) -> None:
    newest = learned.get("/tables/newest?flavor=c1")
    assert newest == learned.get("/tables/1?flavor=c1")
    (curve,) = newest["curves"]
    for bucket in curve["buckets"]:
        assert bucket["levels"] == sorted(bucket["levels"])
        assert len(bucket["levels"]) == len(bucket["times_s"])
    assert {curve["flavor"] for curve in learned.get("/tables/newest")["curves"]} == {"c1", "c2", "c4"}
    assert [table["epoch"] for table in learned.get("/tables")["tables"]] == [1]
    assert [run["cause"] for run in learned.get("/runs")["runs"]] == ["requested"]
    learned.expect(404, "GET", "/tables/newest?flavor=none")
    ready = learned.client.get("/readiness").json()
    (cloud,) = (cloud for cloud in ready["clouds"] if cloud["name"] == learned.name)
    assert (cloud["epoch"], cloud["table_age_s"] >= 0) == (1, True)


def test_a_spot_start_rests_on_a_quote_and_a_refusal_tells_what_would_do(learned: Caller) -> None:
    refused = learned.spot("r0", lifetime_s=1200, eviction_probability=0.001, at=at(23.5))
    assert (refused["status"], refused["reason"]) == ("rejected", "sla_unattainable")
    assert refused["quote"]["epoch"] == 1
    assert refused["quote"]["eviction_probability"] == 0.001
    acceptable = refused["acceptable"]
    shorter = learned.spot("r1", lifetime_s=acceptable["lifetime_s"], eviction_probability=0.001, at=at(23.5))
    assert shorter["status"] == "accepted"
    learned.expect(204, "DELETE", "/instances/r1", params={"at": at(23.5)})
    laxer = learned.spot("r2", lifetime_s=1200, eviction_probability=acceptable["eviction_probability"], at=at(23.5))
    assert laxer["status"] == "accepted"
    assert laxer["quote"]["lifetime_s"] > 1200
    assert laxer["quote"]["estimated_eviction_probability"] <= acceptable["eviction_probability"]
    assert learned.spot("r0", lifetime_s=1200, eviction_probability=0.001, at=at(23.5)) == refused


def test_a_pooled_start_rests_on_a_budget_and_a_refusal_tells_what_would_do(learned: Caller) -> None:
    def promise(guarantee: str) -> None:
        body = {"policy": {"guarantee": guarantee, "confidence": 0.9}, "at": at(23.5)}
        assert learned.client.patch(learned.path, json=body).json()["policy"]["guarantee"] == guarantee

    promise("pooled")
    refused = learned.spot("p0", lifetime_s=1200, eviction_probability=0.02, at=at(23.5))
    assert (refused["status"], refused["reason"]) == ("rejected", "budget_exhausted")
    budget, acceptable = refused["quote"]["budget"], refused["acceptable"]
    assert budget["earned"] == 0.02
    assert budget["risk"] > 0.02
    assert acceptable["lifetime_s"] == budget["affordable_lifetime_s"]
    assert budget["risk"] <= acceptable["eviction_probability"] == rounded_up(budget["risk"]), "two digits"
    laxer = learned.spot("p2", lifetime_s=1200, eviction_probability=acceptable["eviction_probability"], at=at(23.5))
    assert laxer["status"] == "accepted"
    learned.expect(204, "DELETE", "/instances/p2", params={"at": at(23.5)})
    shorter = learned.spot("p1", lifetime_s=acceptable["lifetime_s"], eviction_probability=0.02, at=at(23.5))
    assert shorter["status"] == "accepted"
    assert shorter["quote"]["budget"]["affordable_lifetime_s"] is None
    found = learned.get("/sla")
    assert (found["guarantee"], found["as_of"]) == ("pooled", at(23.5))
    (line,) = (line for line in found["classes"] if line["promised"] == 0.02)
    assert (line["admitted"], line["running"], line["evicted"], line["ratio"], line["is_kept"]) == (1, 1, 0, 0, True)
    assert line["budget"]["left"] == pytest.approx(0.02 - line["budget"]["committed"])
    assert line["budget"]["committed"] == shorter["quote"]["budget"]["charge"] > 0
    learned.expect(204, "DELETE", "/instances/p1", params={"at": at(23.5)})
    promise("per_instance")


def test_before_its_warm_up_a_cloud_sells_no_spot(client: httpx2.Client) -> None:
    caller = Caller(client, {})
    caller.furnish(nodes=1)
    assert caller.spot("s")["reason"] == "no_history"
    assert caller.status_of("s") == "rejected"


def test_the_event_log_tells_it_all(client: httpx2.Client) -> None:
    caller = Caller(client, EASY)
    caller.furnish(nodes=1)
    caller.spot("s", "c4")
    caller.on_demand("d", "c4")
    events = caller.get("/events?after_seq=5")["events"]
    assert [(event["seq"], event["kind"], event.get("id")) for event in events] == [
        (6, "instance_started", "s"),
        (7, "instance_evicted", "s"),
        (8, "instance_started", "d"),
    ]
    assert events[1]["cause_seq"] == 8
    assert events[2]["victims"] == [{"id": "s", "deadline": None}]
    assert caller.get("/events?after_seq=8") == {"events": [], "links": []}


def test_a_whole_number_may_be_written_with_a_point(client: httpx2.Client) -> None:
    """JSON knows one kind of number, and some programs write every number so."""
    client.post("/v1/clouds", content=b'{"name": "points", "policy": {"seed": 7.0}}', headers=AS_JSON)
    answer = client.post(
        "/v1/clouds/points/nodes", content=b'{"name": "n", "cores": 4.0, "memory_mib": 1e3}', headers=AS_JSON
    )
    assert (answer.status_code, answer.json()["capacity"]) == (201, {"cores": 4, "memory_mib": 1000, "disk_gib": 0})
    assert client.get("/v1/clouds/points").json()["policy"]["seed"] == 7

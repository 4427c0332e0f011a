"""Clusters in the service: descriptions and events that are written once, what follows from them, costs by the logs."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import httpx2
import pytest
from api_service import Service
from prometheus_client.parser import text_string_to_metric_families
from test_api_errors import check

from app.domain import errors
from app.domain.times import rfc3339
from app.platform.http.scrapes import KEPT_S
from tenure_client import NotFound, TenureClient

BEGIN_US = 1_767_225_600_000_000
POOLS = [
    {"name": "own", "cloud": "shop", "flavor": "c1", "market": "on_demand", "price_per_hour": 0.087},
    {"name": "spot", "cloud": "shop", "flavor": "c1", "price_per_hour": 0.0081, "on_demand_price_per_hour": 0.087},
]


@pytest.fixture(scope="module")
def shop(service: Service) -> httpx2.Client:
    """A cloud whose clock is told, so that costs stand still."""
    policy = {"clock": "external", "guarantee": "none", "clock_step_s": 10**7}
    body = {"name": "shop", "policy": policy, "at": rfc3339(BEGIN_US)}
    service.client.post("/v1/clouds", json=body).raise_for_status()
    for path, one in (("nodes", {"name": "n1", "cores": 9}), ("flavors", {"name": "c1", "cores": 1})):
        service.client.post(f"/v1/clouds/shop/{path}", json={**one, "at": rfc3339(BEGIN_US)}).raise_for_status()
    return service.client


def put(client: httpx2.Client, name: str, pools: list[dict[str, Any]] = POOLS, max_nodes: int = 9) -> dict[str, Any]:
    answer = client.put(f"/v1/clusters/{name}", json={"pools": pools, "max_nodes": max_nodes})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def event(seconds: float, kind: str, **facts: Any) -> dict[str, Any]:
    key = f"{kind}-{seconds}-{'-'.join(str(fact) for fact in facts.values())}".replace(" ", "_")
    return {"key": key[:100], "at": rfc3339(BEGIN_US + int(seconds * 1e6)), "kind": kind, "facts": facts}


def tell(client: httpx2.Client, name: str, *events: dict[str, Any], **look: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/clusters/{name}/events", json={"events": [*events], **look})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


LIFE = (
    event(0, "job_seen", job="7", name="train", pools="own,spot", pause_s=30),
    event(1, "node_refused", pool="own", cloud="shop", why="no_capacity"),
    event(2, "node_bought", node="lab-spot-a", why="job 7 waits"),
    event(4.5, "node_ready", node="lab-spot-a"),
    event(5, "job_started", job="7", node="lab-spot-a"),
    event(65, "job_checkpointed", job="7", node="lab-spot-a", why="hazard", bytes=1000, pause_s=2.5, write_s=4),
    event(100, "node_drain", node="lab-spot-a", why="evicted"),
    event(105, "checkpoint_failed", job="7", node="lab-spot-a", why="notice"),
    event(110, "job_requeued", job="7"),
    event(110, "eviction_confirmed", node="lab-spot-a", why="evicted"),
)


@pytest.mark.parametrize("name", ["A", "1a", "a%0A", "a%20b", "%FF", "x" * 17, "x" * 5000, "a-b"])
def test_a_name_that_no_cluster_file_can_have_is_refused(shop: httpx2.Client, name: str) -> None:
    answer = shop.put(f"/v1/clusters/{name}", json={"pools": POOLS})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "preemptible.field.invalid")
    assert shop.get(f"/v1/clusters/{name}").status_code == 404


def test_a_description_is_written_once_and_counts_its_changes(shop: httpx2.Client) -> None:
    first = put(shop, "described")
    assert (first["version"], first["last_seq"], first["is_managed"]) == (1, 1, False)
    assert put(shop, "described") == first
    dearer = [POOLS[0], {**POOLS[1], "price_per_hour": 0.01}]
    changed = put(shop, "described", dearer)
    assert (changed["version"], changed["last_seq"]) == (2, 2)
    kinds = [one["kind"] for one in shop.get("/v1/clusters/described/events").json()["events"]]
    assert kinds == ["cluster_created", "spec_changed"]
    assert changed["pools"][0]["on_demand_price_per_hour"] is None


def test_a_repeated_report_is_the_same_events(shop: httpx2.Client) -> None:
    put(shop, "repeated")
    assert tell(shop, "repeated", *LIFE) == {"new_count": len(LIFE), "last_seq": len(LIFE) + 1}
    assert tell(shop, "repeated", *LIFE[3:], *LIFE, event(200, "job_ended", job="7", state="cancelled")) == {
        "new_count": 1,
        "last_seq": len(LIFE) + 2,
    }
    with ThreadPoolExecutor(8) as pool:
        more = [event(300 + number // 2, "node_made", node="lab-own-b") for number in range(40)]
        list(pool.map(lambda one: tell(shop, "repeated", one), more))
    events = shop.get("/v1/clusters/repeated/events", params={"limit": 1000}).json()["events"]
    assert [one["seq"] for one in events] == [*range(1, len(LIFE) + 2 + 20 + 1)]
    assert len({one["key"] for one in events}) == len(events)


def test_what_is_told_becomes_nodes_jobs_and_checkpoints(shop: httpx2.Client) -> None:
    put(shop, "lab")
    tell(shop, "lab", *LIFE[:6], loop_s=0.25, orphan_count=2)
    (node,) = shop.get("/v1/clusters/lab/nodes").json()["nodes"]
    assert (node["stage"], node["pool"], node["why"]) == ("busy", "spot", "job 7 waits")
    (job,) = shop.get("/v1/clusters/lab/jobs", params={"stage": "running"}).json()["jobs"]
    assert (job["nodes"], job["checkpoint_count"], job["lost_s"]) == (["lab-spot-a"], 1, 0.0)
    shown = shop.get("/v1/clusters/lab").json()
    assert (shown["is_managed"], shown["loop_s"], shown["orphan_count"]) == (True, 0.25, 2)
    assert (shown["node_count"], shown["running_count"], shown["waiting_count"]) == (1, 1, 0)
    tell(shop, "lab", *LIFE[6:])
    assert shop.get("/v1/clusters/lab/nodes").json()["nodes"] == []
    (gone,) = shop.get("/v1/clusters/lab/nodes", params={"stage": "gone"}).json()["nodes"]
    assert gone["gone_why"] == "evicted"
    (job,) = shop.get("/v1/clusters/lab/jobs").json()["jobs"]
    assert (job["stage"], job["requeue_count"], job["lost_s"]) == ("waiting", 1, 45.0), "since the checkpoint at 65 s"
    found = shop.get("/v1/clusters/lab/checkpoints").json()["checkpoints"]
    assert [(one["result"], one["why"], one["size_bytes"]) for one in found] == [
        ("written", "hazard", 1000),
        ("failed", "notice", None),
    ]
    tell(shop, "lab", event(120, "job_restored", job="7", lost_s=44.5))
    (job,) = shop.get("/v1/clusters/lab/jobs").json()["jobs"]
    assert job["lost_s"] == 44.5, "the restore tells it exactly"


def test_a_deleted_cluster_says_so(shop: httpx2.Client) -> None:
    put(shop, "ended")
    tell(shop, "ended", *LIFE[:6], loop_s=0.1)
    assert shop.get("/v1/clusters/ended").json()["deleted_at"] is None
    tell(shop, "ended", event(90, "cluster_deleted"))
    shown = shop.get("/v1/clusters/ended").json()
    assert (shown["is_managed"], shown["deleted_at"]) == (False, rfc3339(BEGIN_US + 90_000_000))
    assert (shown["node_count"], shown["running_count"], shown["waiting_count"]) == (0, 0, 0)
    cookie = {"Cookie": f"tenure_token={shop.headers['X-Auth-Token']}"}
    page = shop.get("/ui/clusters/ended", headers=cookie).text
    assert "The cluster is" in page
    assert "silent" not in page
    assert "deleted" in shop.get("/ui/clusters", headers=cookie).text
    tell(shop, "ended", event(99, "manager_started"), loop_s=0.1)
    assert shop.get("/v1/clusters/ended").json()["is_managed"]


def test_the_page_says_what_pools_allow_what_has_no_price_and_which_job_can_never_run(shop: httpx2.Client) -> None:
    put(shop, "plain", [{"name": "spot", "cloud": "shop", "flavor": "c1", "max_nodes": 4}], max_nodes=200)
    why = "it wants 9 nodes, and no pool holds that: spot has up to 4 nodes"
    tell(shop, "plain", event(0, "job_seen", job="7", name="wide"), event(1, "job_impossible", job="7", why=why))
    (job,) = shop.get("/v1/clusters/plain/jobs").json()["jobs"]
    assert job["misfit"] == why
    cookie = {"Cookie": f"tenure_token={shop.headers['X-Auth-Token']}"}
    page = shop.get("/ui/clusters/plain", headers=cookie).text
    for said in ("under notice; at most 4<", "no price is set", f"can never run: {why}", 'class="heat-ends"'):
        assert said in page, said
    assert "no price is set" in shop.get("/ui/clusters", headers=cookie).text
    put(shop, "plain")
    assert "at most 2<" in shop.get("/ui/clusters/plain", headers=cookie).text
    assert "no price is set" not in shop.get("/ui/clusters/plain", headers=cookie).text
    tell(shop, "plain", event(2, "job_possible", job="7"))
    assert shop.get("/v1/clusters/plain/jobs").json()["jobs"][0]["misfit"] is None


def test_the_page_is_short_however_many_nodes_and_jobs_there_are_and_however_long_their_texts(
    shop: httpx2.Client,
) -> None:
    put(shop, "long")
    why = "<" * 500
    nodes = [event(at, "node_bought", node=f"long-own-{at}", why=why) for at in range(600)]
    jobs = [event(at, "job_seen", job=f"j{at}", name=why) for at in range(120)]
    gone = [event(at, "job_impossible", job=f"j{at}", why=why) for at in range(120)]
    for told in (nodes[:400], nodes[400:], jobs, gone):
        tell(shop, "long", *told)
    cookie = {"Cookie": f"tenure_token={shop.headers['X-Auth-Token']}"}
    page, seen = "/ui/clusters/long?over=day", []
    while page:
        text = shop.get(page, headers=cookie).text
        assert len(text) < 1 << 20
        seen += re.findall(r'data-label="Node"><span class="id">long-own-(\d+)<', text)
        found = re.search(r'href="(\?over=day&amp;from=\d+)">Next<', text)
        page = "" if found is None else f"/ui/clusters/long{unescape(found[1])}"
    assert seen == [str(at) for at in range(600)], "each page leads to the next"


def test_metrics_tell_of_every_cluster(shop: httpx2.Client) -> None:
    put(shop, "measured")
    tell(shop, "measured", *LIFE, event(111, "node_destroy", node="x", why="no instance runs for it"), loop_s=0.1)
    found = metrics(shop, "measured")
    assert found["tenure_cluster_nodes", "spot", "idle"] == 0
    assert found["tenure_cluster_jobs", "waiting"] == 1
    assert found["tenure_cluster_checkpoints_total", "written", "hazard"] == 1
    assert found["tenure_cluster_checkpoints_total", "failed", "notice"] == 1
    assert found["tenure_cluster_work_lost_seconds_total",] == 45
    assert found["tenure_cluster_restores_total", "restored"] == 0
    assert (found["tenure_cluster_orphans_total",], found["tenure_cluster_orphans_now",]) == (1, 0)
    assert found["tenure_cluster_checkpoint_seconds_bucket", "3.0"] == 1
    assert found["tenure_cluster_boot_seconds_sum",] == 2.5
    assert found["tenure_cluster_manager_loop_seconds",] == 0.1
    assert 0 <= found["tenure_cluster_manager_look_age_seconds",] < 30


def metrics(client: httpx2.Client, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a cluster by their names and the values of their other labels, which stand in order."""
    time.sleep(KEPT_S)  # the service repeats itself for so long
    text = client.get("/metrics/clusters").text
    return {
        (sample.name, *(value for label, value in sample.labels.items() if label != "cluster")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels["cluster"] == name
    }


def test_costs_are_the_time_in_the_log_at_the_prices_of_the_pools(shop: httpx2.Client) -> None:
    put(shop, "paid")
    path = "/v1/clouds/shop/instances"

    def start(name: str, market: str, seconds: int) -> None:
        spot = {"lifetime_s": 86400} if market == "spot" else {}
        body = {"id": name, "market": market, "flavor": "c1", "at": rfc3339(BEGIN_US + seconds * 1_000_000), **spot}
        assert shop.post(path, json=body).json()["status"] == "accepted"

    def cost() -> dict[str, Any]:
        answer = shop.get("/v1/clusters/paid/cost")
        assert answer.status_code == 200, answer.text
        return answer.json()

    start("paid.own-1", "on_demand", 0)
    start("paid.spot-1", "spot", 1000)
    start("paidx.spot-1", "spot", 1000)
    start("paid.gone-1", "spot", 1000)
    first = cost()
    assert [(row["pool"], row["instance_count"], row["used_s"]) for row in first["pools"]] == [
        ("own", 1, 1000),
        ("spot", 1, 0),
        ("other", 1, 0),
    ]
    shop.delete(f"{path}/paid.own-1", params={"at": rfc3339(BEGIN_US + 4600 * 1_000_000)}).raise_for_status()
    shop.delete(f"{path}/paid.gone-1", params={"at": rfc3339(BEGIN_US + 4600 * 1_000_000)}).raise_for_status()
    start("paid.spot-2", "spot", 8200)
    found = {row["pool"]: row for row in cost()["pools"]}
    assert found["own"]["cost"] == found["own"]["on_demand_cost"] == round(4600 / 3600 * 0.087, 6)
    assert found["spot"]["cost"] == round(7200 / 3600 * 0.0081, 6)
    assert found["spot"]["on_demand_cost"] == round(7200 / 3600 * 0.087, 6)
    assert found["other"]["used_s"] == 3600
    assert cost()["on_demand_cost"] is None, "nobody knows what the pool that is gone would have cost"
    assert cost()["cost"] == pytest.approx(found["own"]["cost"] + found["spot"]["cost"], abs=1e-9)
    told = metrics(shop, "paid")
    assert {pool: told["tenure_cluster_cost_total", pool] for pool in found} == {
        pool: row["cost"] for pool, row in found.items()
    }


def test_servers_with_ids_of_their_own_cost_what_the_manager_told_that_it_bought(shop: httpx2.Client) -> None:
    """Their ids are Nova's. The manager may tell of one after its cost was read, and of one that was refused."""
    pools = [{"name": "spot", "cloud": "shop", "flavor": "c1", "price_per_hour": 1, "on_demand_price_per_hour": 2}]
    put(shop, "hired", pools)
    path = "/v1/clouds/shop/instances"
    servers = [f"0000000{number}-0000-4000-8000-000000000000" for number in range(4)]
    begin_us = BEGIN_US + 100_000 * 1_000_000

    def at(seconds: int) -> str:
        return rfc3339(begin_us + seconds * 1_000_000)

    def row() -> dict[str, Any]:
        (found,) = shop.get("/v1/clusters/hired/cost").json()["pools"]
        return {name: found[name] for name in ("instance_count", "used_s", "cost", "on_demand_cost")}

    for server in servers[:3]:
        body = {"id": server, "market": "spot", "flavor": "c1", "at": at(0), "lifetime_s": 86400}
        assert shop.post(path, json=body).json()["status"] == "accepted"
    assert row() == {"instance_count": 0, "used_s": 0, "cost": 0, "on_demand_cost": 0}
    shop.delete(f"{path}/{servers[0]}", params={"at": at(3600)}).raise_for_status()
    assert row()["instance_count"] == 0
    tell(shop, "hired", event(1, "node_bought", node="hired-spot-a", instance=servers[0], why="job 1"))
    assert row() == {"instance_count": 1, "used_s": 3600, "cost": 1, "on_demand_cost": 2}
    tell(
        shop,
        "hired",
        event(2, "node_bought", node="hired-spot-b", instance=servers[1], why="job 2"),
        event(3, "node_bought", node="hired-spot-c", instance=servers[3], why="job 3"),
        event(4, "node_refused", node="hired-spot-c", pool="spot", cloud="shop", why="no room"),
    )
    assert row() == {"instance_count": 2, "used_s": 7200, "cost": 2, "on_demand_cost": 4}
    for server in servers[1:3]:
        shop.delete(f"{path}/{server}", params={"at": at(7200)}).raise_for_status()
    assert row() == {"instance_count": 2, "used_s": 10800, "cost": 3, "on_demand_cost": 6}
    assert shop.get("/v1/clusters/hired/nodes").json()["nodes"] != []


def test_clusters_come_in_pages_and_go(service: Service, shop: httpx2.Client) -> None:
    for name in ("page1", "page2", "page3"):
        put(shop, name)
    with TenureClient(service.url, service.client.headers["X-Auth-Token"]) as client:
        names = [cluster.name for cluster in client.clusters(limit=2)]
        assert names == sorted(names)
        assert {"page1", "page2", "page3"} <= {*names}
        client.report_cluster_events("page1", LIFE, loop_s=0.1)
        assert [one.seq for one in client.cluster_events("page1", limit=3)] == [*range(1, len(LIFE) + 2)]
        assert [one.job for one in client.cluster_jobs("page1", limit=1)] == ["7"]
        assert next(iter(client.cluster_nodes("page1", stage="gone"))).name == "lab-spot-a"
        assert len([*client.cluster_checkpoints("page1", limit=1)]) == 2
        client.delete_cluster("page1")
        with pytest.raises(NotFound):
            client.cluster("page1")
    put(shop, "page1")
    assert shop.get("/v1/clusters/page1/jobs").json()["jobs"] == [], "the new one knows nothing of the old"


@pytest.mark.parametrize("path", ["", "/nodes", "/jobs", "/checkpoints", "/cost", "/events"])
def test_what_there_is_not(shop: httpx2.Client, path: str) -> None:
    check(shop.get(f"/v1/clusters/nowhere{path}"), errors.ClusterNotFound)


def test_refusals_change_nothing(shop: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    check(shop.delete("/v1/clusters/nowhere"), errors.ClusterNotFound)
    check(shop.post("/v1/clusters/nowhere/events", json={"events": []}), errors.ClusterNotFound)
    there = {"pools": [{**POOLS[0], "cloud": "none"}]}
    check(shop.put("/v1/clusters/bad", json=there), errors.CloudNotFound)
    put(shop, "only")
    monkeypatch.setattr("app.clusters.keeping.MOST_CLUSTERS", 1)
    check(shop.put("/v1/clusters/bad", json={"pools": POOLS}), errors.TooManyClusters)
    monkeypatch.undo()
    check(shop.get("/v1/clusters/bad"), errors.ClusterNotFound)


@pytest.mark.parametrize(
    "body",
    [
        {"pools": []},
        {"pools": [POOLS[0], POOLS[0]]},
        {"pools": [{**POOLS[0], "name": "Upper"}]},
        {"pools": [{**POOLS[0], "price_per_hour": -1}]},
        {"pools": POOLS, "max_nodes": 201},
    ],
)
def test_descriptions_are_bounded(shop: httpx2.Client, body: dict[str, Any]) -> None:
    assert shop.put("/v1/clusters/bounded", json=body).status_code == 400
    check(shop.get("/v1/clusters/bounded"), errors.ClusterNotFound)


@pytest.mark.parametrize(
    "changed",
    [
        {"key": ""},
        {"key": "x" * 101},
        {"kind": "Upper"},
        {"at": "yesterday"},
        {"facts": {"a": "x" * 501}},
        {"facts": {"a": "\u0000"}},
        {"facts": {"a": {"b": 1}}},
        {"facts": {"a": 10**16}},
        {"facts": {f"a{chr(97 + number)}": 1 for number in range(17)}},
        {"seq": 7},
    ],
)
def test_events_are_bounded(shop: httpx2.Client, changed: dict[str, Any]) -> None:
    put(shop, "narrow")
    body = {"events": [LIFE[0], {**LIFE[1], **changed}]}
    assert shop.post("/v1/clusters/narrow/events", json=body).status_code == 400
    assert shop.get("/v1/clusters/narrow").json()["last_seq"] == 1


def test_a_body_is_bounded_and_of_very_many_events_the_newest_stay(
    shop: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(shop, "many")
    events = [event(number, "node_made", node="n") for number in range(501)]
    assert shop.post("/v1/clusters/many/events", json={"events": events}).status_code == 400
    great = {"events": [{**events[0], "facts": {f"f{chr(97 + k)}": "x" * 500 for k in range(16)}}] * 500}
    assert shop.post("/v1/clusters/many/events", json=great).status_code == 413
    monkeypatch.setattr("app.clusters.store.clusters.MOST_EVENTS", 100)
    tell(shop, "many", *events[:300])
    seqs = [one["seq"] for one in shop.get("/v1/clusters/many/events", params={"limit": 1000}).json()["events"]]
    assert seqs == [*range(202, 302)]

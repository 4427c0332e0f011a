"""Tests of metrics: a scrape tells the truth, once; only those who may scrape do; labels stay bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from app.cli import command_line
from app.federation.metrics import PEER_FAMILIES
from app.platform.http.scrapes import KEPT_S
from app.processes.endpoints import ENDPOINTS

CLOUD = "/v1/clouds/watched"
NO_SLA = {"guarantee": "none"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(client: httpx2.Client, path: str = "/metrics") -> Samples:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """0 where there is no such sample, as for a counter that was not needed yet."""
    return samples.get((name, frozenset(labels.items())), 0.0)


@pytest.fixture(scope="module")
def scrapes(service: Service) -> tuple[Samples, Samples, Samples]:
    """The process before and after a small workload, and the clouds after it."""
    before = scrape(service.client)
    drive(service.client, "watched")
    return before, scrape_later(service.client, "/metrics"), scrape(service.client, "/metrics/clouds")


def drive(client: httpx2.Client, name: str) -> None:
    """Two spot instances on a node of 4 cores, one of them evicted, a rejection of each market, a stop."""
    cloud = f"/v1/clouds/{name}"
    for path, body in (
        ("/v1/clouds", {"name": name, "policy": NO_SLA}),
        (f"{cloud}/nodes", {"name": "node-1", "cores": 4}),
        (f"{cloud}/flavors", {"name": "small", "cores": 1}),
        (f"{cloud}/flavors", {"name": "large", "cores": 3}),
        *((f"{cloud}/instances", start) for start in starts()),
    ):
        assert client.post(path, json=body).status_code == 201
    assert client.delete(f"{cloud}/instances/secret-spot-1").status_code == 204
    late = start("late", "spot", "small")
    assert client.patch(cloud, json={"policy": {"guarantee": "per_instance"}}).status_code == 200
    assert client.post(f"{cloud}/instances", json=late).json()["reason"] == "no_history"


def starts() -> Iterator[dict[str, object]]:
    yield start("secret-spot-1", "spot", "small")
    yield start("secret-spot-2", "spot", "small")
    yield start("big-1", "on_demand", "large")
    yield start("big-2", "on_demand", "large")
    yield start("big-2", "on_demand", "large")  # the same once more decides nothing


def start(instance: str, market: str, flavor: str) -> dict[str, object]:
    return {"id": instance, "market": market, "flavor": flavor, "lifetime_s": 3600}


@pytest.mark.parametrize(
    ("name", "labels", "count"),
    [
        ("tenure_decisions_total", {"market": "spot", "outcome": "accepted", "reason": "none"}, 2),
        ("tenure_decisions_total", {"market": "spot", "outcome": "rejected", "reason": "no_history"}, 1),
        ("tenure_decisions_total", {"market": "on_demand", "outcome": "accepted", "reason": "none"}, 1),
        ("tenure_decisions_total", {"market": "on_demand", "outcome": "rejected", "reason": "no_capacity"}, 1),
        ("tenure_evictions_total", {"reason": "on_demand_start"}, 1),
        ("tenure_stops_total", {}, 1),
        ("tenure_queue_operations", {}, 0),
    ],
)
def test_a_process_counts_what_it_decided(scrapes, name: str, labels: Mapping[str, str], count: int) -> None:
    before, after, _ = scrapes
    labels = {**labels, "cloud": "watched"}
    assert value(after, name, **labels) - value(before, name, **labels) == count


def test_a_process_counts_what_it_answered(scrapes) -> None:
    before, after, _ = scrapes

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert more("tenure_http_requests_total", operation="start_instance", status="201") == 6
    assert more("tenure_http_requests_total", operation="stop_instance", status="204") == 1
    assert more("tenure_http_request_duration_seconds_count", operation="start_instance") == 6
    assert 0 < more("tenure_http_request_duration_seconds_sum", operation="start_instance") < 30


def test_appends_are_counted_with_their_sizes(scrapes) -> None:
    before, after, clouds = scrapes
    events = value(clouds, "tenure_cloud_log_events_total", cloud="watched") - 1  # the first came with the cloud
    assert value(after, "tenure_log_append_events_sum") - value(before, "tenure_log_append_events_sum") == events
    committed = ("tenure_log_appends_total", {"cloud": "watched", "outcome": "committed"})
    appends = value(after, committed[0], **committed[1]) - value(before, committed[0], **committed[1])
    assert value(after, "tenure_log_append_duration_seconds_count") >= appends == 10


def test_a_clouds_metrics_are_its_state(scrapes, client: httpx2.Client) -> None:
    *_, clouds = scrapes
    shown = client.get(CLOUD).json()

    def told(name: str, **labels: str) -> float:
        return value(clouds, f"tenure_cloud_{name}", cloud="watched", **labels)

    names = {"requested": "instances_requested_total", "admitted": "admitted_instances"}
    counts = {
        f"{market}_{what}": told(name, market=market)
        for market in ("on_demand", "spot")
        for what, name in names.items()
    }
    counts["spot_evicted"] = told("instances_evicted_total")
    counts["running"] = sum(told("instances_running", market=market) for market in ("on_demand", "spot"))
    assert counts == {name: shown["counts"][name] for name in counts}
    assert told("log_events_total") == shown["seq"] == told("snapshot_lag_events")
    assert (told("nodes", status="open"), told("nodes", status="drained")) == (1, 0)
    assert told("capacity_cores", status="open") == 4
    assert (told("used_cores", market="on_demand"), told("used_cores", market="spot")) == (3, 0)
    assert (told("instances_running", market="on_demand"), told("instances_running", market="spot")) == (1, 0)
    assert (told("available_slots", flavor="small"), told("available_slots", flavor="large")) == (1, 0)
    assert told("table_max_age_seconds") == 12 * 3600


def test_tables_and_runs_of_a_cloud(service: Service) -> None:
    client = service.client
    begin = "2026-01-01T00:00:00Z"
    policy = {"clock": "external", "warm_up_s": 0, "sample_count": 100}
    for path, body in (
        ("/v1/clouds", {"name": "aged", "policy": policy, "at": begin}),
        ("/v1/clouds/aged/nodes", {"name": "node-1", "cores": 4, "at": begin}),
        ("/v1/clouds/aged/flavors", {"name": "small", "cores": 1, "at": begin}),
        ("/v1/clouds/aged/instances", {"id": "i-1", "market": "on_demand", "flavor": "small", "at": begin}),
        ("/v1/clouds/aged/tables", None),
    ):
        assert client.post(path, json=body).status_code in {201, 202}, path
    waiting = scrape_later(client)
    assert value(waiting, "tenure_cloud_runs", cloud="aged", status="pending") == 1
    assert value(waiting, "tenure_cloud_run_waiting_seconds", cloud="aged") > 0
    assert ("tenure_cloud_table_age_seconds", frozenset({("cloud", "aged")})) not in waiting
    before = scrape_later(client, "/metrics")
    service.compute_tables()
    done = scrape_later(client, "/metrics")
    assert value(done, "tenure_recomputations_total", outcome="succeeded") == 1 + value(
        before, "tenure_recomputations_total", outcome="succeeded"
    )
    later = {"id": "i-2", "market": "on_demand", "flavor": "small", "at": "2026-01-01T01:00:00Z"}
    assert client.post("/v1/clouds/aged/instances", json=later).status_code == 201
    clouds = scrape_later(client)
    assert value(clouds, "tenure_cloud_runs", cloud="aged", status="pending") == 0
    assert value(clouds, "tenure_cloud_table_epoch", cloud="aged") == 1
    assert value(clouds, "tenure_cloud_table_age_seconds", cloud="aged") == 3600
    assert value(clouds, "tenure_cloud_table_computing_seconds", cloud="aged") > 0
    check_told_age(service)


def check_told_age(service: Service) -> None:
    """Readiness, the command and the page tell the age of the table that the metric does: by the cloud's clock."""
    (aged,) = (one for one in service.client.get("/readiness").json()["clouds"] if one["name"] == "aged")
    assert aged["table_age_s"] == 3600
    words = ["status", "--url", service.url, "--token", TOKEN, "--cloud", "aged"]
    assert "epoch 1, 1 h old" in CliRunner().invoke(command_line(), words).output
    page = service.client.get("/ui", headers={"Cookie": f"tenure_token={TOKEN}"}).text
    assert "epoch 1, 1 h old by its clock" in page


def scrape_later(client: httpx2.Client, path: str = "/metrics/clouds") -> Samples:
    """The clouds' metrics, or others, after the second in which the service repeats itself."""
    time.sleep(KEPT_S)
    return scrape(client, path)


def test_conflicts_are_counted(service: Service, database_url: str) -> None:
    with running_service(database_url) as other:
        drive(service.client, "contended")
        before = scrape_later(service.client, "/metrics")
        for number in range(5):
            for one in (other, service):
                body = start(f"{one.url}-{number}".replace(":", "").replace("/", ""), "on_demand", "large")
                assert one.client.post("/v1/clouds/contended/instances", json=body).status_code == 201
        after = scrape_later(service.client, "/metrics")
    lost = {"cloud": "contended", "outcome": "conflict"}
    assert value(after, "tenure_log_appends_total", **lost) > value(before, "tenure_log_appends_total", **lost)


def test_labels_are_few_and_never_name_an_instance_or_a_caller(service: Service, scrapes) -> None:
    service.client.get("/nothing/here")
    service.client.get("/ui/sign-in")
    operations = {operation.name for operation in ENDPOINTS} | {"page", "other"}
    for samples in (
        scrape(service.client, path) for path in ("/metrics", "/metrics/clouds", "/metrics/clusters", "/metrics/peers")
    ):
        for _, labels in samples:
            found = dict(labels)
            assert found.get("operation", "other") in operations
            assert not {"secret-spot-1", "secret-spot-2", "admin", TOKEN} & set(found.values())
            assert found.keys() <= {
                "cloud", "market", "outcome", "reason", "status", "operation", "flavor", "class", "owner", "task",
                "kind", "what", "version", "le", "generation", "implementation", "major", "minor", "patchlevel",
                "venue", "where",
                "cluster", "pool", "state", "why", "result",
                "peer", "wish", "word", "end", "by",
            }  # fmt: skip


@pytest.mark.parametrize("path", ["/metrics", "/metrics/clouds", "/metrics/clusters", "/metrics/peers"])
def test_metrics_need_a_token_unless_they_are_open(service: Service, database_url: str, path: str) -> None:
    assert httpx2.get(f"{service.url}{path}").status_code == 401
    with running_service(database_url, metrics_access="open") as open_service:
        assert httpx2.get(f"{open_service.url}{path}").status_code == 200
        assert httpx2.get(f"{open_service.url}/v1/clouds").status_code == 401


@pytest.mark.parametrize("path", ["/metrics", "/metrics/clouds", "/metrics/clusters", "/metrics/peers"])
def test_openmetrics_for_who_asks_for_it(client: httpx2.Client, scrapes, path: str) -> None:
    answer = client.get(path, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    least = 1 + len(PEER_FAMILIES) if path == "/metrics/peers" else 11
    assert len([*parse_openmetrics(answer.text)]) >= least
    plain = client.get(path)
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize(
    "accept", ["text/plain;version=x", "application/openmetrics-text;version=1.x.0", "a;b=;c", ";"]
)
def test_a_wish_that_cannot_be_read_is_no_error(client: httpx2.Client, accept: str) -> None:
    answer = client.get("/metrics", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/plain")

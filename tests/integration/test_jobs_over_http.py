"""Jobs over HTTP: submitted, repeated, refused, cancelled; told by log, client, command and audit."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service
from typer.testing import CliRunner

from app.cli import command_line
from app.commands.exits import exit_of
from app.domain.events.wire import of_wire
from app.engine.cloud import Cloud
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows
from app.workbench.whatif import count_log
from tenure_client import TenureClient

GONE = "http://127.0.0.1:9"
"""Nobody listens there."""
PATH = "/v1/clouds/jobs"
HOUR = 3600


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int = 201) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def job(name: str, count: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "flavor": "c1", "count": count, "lifetime_s": HOUR} | more


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    client = service.client
    post(client, "/v1/clouds", {"name": "jobs", "policy": {"guarantee": "none"}})
    for node in ("a", "b"):
        post(client, f"{PATH}/nodes", {"name": node, "cores": 2})
    post(client, f"{PATH}/flavors", {"name": "c1", "cores": 1})
    post(client, f"{PATH}/instances", {"id": "s1", "market": "spot", "flavor": "c1", "lifetime_s": HOUR})
    return client


def events(client: httpx2.Client) -> list[dict[str, Any]]:
    return client.get(f"{PATH}/events", params={"limit": 1000}).json()["events"]


def test_a_job_runs_whole_or_not(client: httpx2.Client) -> None:
    shown = post(client, f"{PATH}/jobs", job("wide", 5))
    assert (shown["status"], shown["end"], shown["reason"], shown["where"]) == (
        "ended",
        "rejected",
        "no_capacity",
        None,
    )
    assert client.get(f"{PATH}/instances/wide.1").status_code == 404
    told = 'tenure_jobs_total{cloud="jobs",outcome="rejected",where="home"} 1.0'
    assert told in client.get("/metrics").text
    shown = post(client, f"{PATH}/jobs", job("four", 4))
    assert (shown["status"], shown["where"], shown["running"]) == ("running", "here", 4)
    assert [client.get(f"{PATH}/instances/{one}").json()["status"] for one in shown["instances"]] == ["running"] * 4
    assert client.get(f"{PATH}/instances/s1").json()["status"] == "evicted"
    last = events(client)[-1]["seq"]
    assert post(client, f"{PATH}/jobs", job("four", 4)) == shown, "a repeated request changes nothing"
    assert events(client)[-1]["seq"] == last
    refused = post(client, f"{PATH}/jobs", job("four", 3), 409)
    assert refused["errors"][0]["code"] == "preemptible.job.conflict"
    assert [one["id"] for one in client.get(f"{PATH}/jobs").json()["jobs"]] == ["wide", "four"]
    page = client.get(f"{PATH}/jobs", params={"limit": 1}).json()
    assert [one["id"] for one in client.get(page["links"][0]["href"]).json()["jobs"]] == ["four"]


def test_a_cancelled_job_stops(client: httpx2.Client) -> None:
    for _ in range(2):
        assert client.delete(f"{PATH}/jobs/four").status_code == 204
    shown = client.get(f"{PATH}/jobs/four").json()
    assert (shown["end"], shown["running"], shown["cancelled"]) == ("cancelled", 0, True)
    assert client.get(f"{PATH}/instances/four.2").json()["status"] == "stopped"
    assert client.get(f"{PATH}/jobs/nobody").json()["errors"][0]["code"] == "preemptible.job.not_found"
    assert client.get(f"{PATH}/jobs/four/attempts").json() == {"attempts": [], "links": []}


def test_the_id_of_an_instance_is_used_once(client: httpx2.Client) -> None:
    post(client, f"{PATH}/instances", {"id": "used.2", "market": "on_demand", "flavor": "c1"})
    assert client.delete(f"{PATH}/instances/used.2").status_code == 204
    before = events(client)[-1]["seq"]
    refused = post(client, f"{PATH}/jobs", job("used", 2), 409)
    assert refused["errors"][0]["code"] == "preemptible.instance.conflict"
    assert events(client)[-1]["seq"] == before


@pytest.mark.parametrize(
    "wrong",
    [{"count": 0}, {"count": 257}, {"lifetime_s": 0}, {"federate": "perhaps"}, {"id": "j" * 121}, {"more": 1}],
)
def test_a_job_that_cannot_be_is_refused(client: httpx2.Client, wrong: dict[str, Any]) -> None:
    before = events(client)[-1]["seq"]
    post(client, f"{PATH}/jobs", job("wrong", 1) | wrong, 400)
    assert post(client, f"{PATH}/jobs", job("wrong", 1, flavor="none"), 404)
    assert events(client)[-1]["seq"] == before


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--peer", "far"], "add --federate"),
        (["--on-preempted", "offer_again"], "add --federate"),
        (["--for", "0"], "--for: must be from 1"),
        (["--input", "k:1:abc"], "--input, number 1, sha256: must be 64 hexadecimal digits"),
        (["--input", f"a b:1:{64 * 'a'}"], "--input, number 1, key: must be names with slashes"),
        (["--federate", "allowed", "--peer", "a b"], "--peer, number 1: must begin with a letter or digit"),
    ],
)
def test_a_wrong_option_is_named(service: Service, wrong: list[str], told: str) -> None:
    options = ["--url", service.url, "--token", TOKEN, "--cloud", "jobs"]
    words = ["job", "submit", *options, "never", "--flavor", "c1", "--for", "2h", *wrong]
    run = CliRunner().invoke(command_line(), words)
    assert (run.exit_code, told in " ".join(str(run.exception).split())) == (1, True), (wrong, run.exception)


def test_client_and_command(service: Service, client: httpx2.Client) -> None:
    options = ["--url", service.url, "--token", TOKEN, "--cloud", "jobs"]
    run = CliRunner().invoke(
        command_line(), ["job", "submit", *options, "told", "--flavor", "c1", "--count", "2", "--for", "2h"]
    )
    assert (run.exit_code, "2 of 2" in run.output) == (0, True), run.output
    with TenureClient(service.url, TOKEN) as tenure:
        found = tenure.job("jobs", "told")
        assert (found.status, found.lifetime_s) == ("running", 2 * HOUR)
        assert [one.id for one in tenure.jobs("jobs")][-1] == "told"
        assert tenure.attempts("jobs", "told").attempts == []
    run = CliRunner().invoke(
        command_line(), ["job", "submit", *options, "big", "--flavor", "c1", "--count", "9", "--for", "2h"]
    )
    assert (run.exit_code, "no capacity" in run.output) == (1, True), run.output
    listed = CliRunner().invoke(command_line(), ["job", "list", *options, "--json"])
    assert [one["id"] for one in json.loads(listed.output)["jobs"]][-2:] == ["told", "big"]
    waits = ["job", "wait", *options, "told", "--json"]
    run = CliRunner().invoke(command_line(), [*waits, "--up-to", "1s"])
    assert (run.exit_code, json.loads(run.stdout)["status"]) == (4, "running"), run.output
    assert CliRunner().invoke(command_line(), ["job", "cancel", *options, "told"]).exit_code == 0
    run = CliRunner().invoke(command_line(), waits)
    assert (run.exit_code, json.loads(run.stdout)["end"]) == (1, "cancelled"), run.output
    post(client, f"{PATH}/jobs", job("well", 1))
    stopping = threading.Timer(1.5, lambda: client.delete(f"{PATH}/instances/well.1"))
    stopping.start()
    run = CliRunner().invoke(command_line(), ["job", "wait", *options, "well", "--json"])
    stopping.join()
    assert (run.exit_code, json.loads(run.stdout)["end"]) == (0, "completed"), run.output
    shown = json.loads(CliRunner().invoke(command_line(), ["job", "show", *options, "told", "--json"]).output)
    assert (shown["end"], shown["attempts"]) == ("cancelled", [])


@pytest.mark.parametrize("more", [{"peers": ["far"]}, {"on_preempted": "offer_again"}])
def test_what_only_peers_follow_is_refused_of_a_job_that_stays(client: httpx2.Client, more: dict[str, object]) -> None:
    answer = client.post(f"{PATH}/jobs", json=job("stays", 1, **more))
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["code"]) == (400, "preemptible.field.invalid")
    assert "say federate allowed or only" in fault["detail"]


def test_a_job_that_nobody_takes_is_explained(service: Service, client: httpx2.Client) -> None:
    assert post(client, f"{PATH}/jobs", job("nobodys", 1, federate="only"))["reason"] == "no_peers"
    options = ["--url", service.url, "--token", TOKEN, "--cloud", "jobs"]
    run = CliRunner().invoke(command_line(), ["job", "show", *options, "nobodys"])
    assert "no peers: no peer is entered here, or all are paused (tenure peer list" in run.output


def test_without_peers_nobody_is_asked(client: httpx2.Client) -> None:
    shown = post(client, f"{PATH}/jobs", job("away", 1, federate="only"))
    assert (shown["end"], shown["reason"]) == ("rejected", "no_peers")


def test_the_log_says_it_all(client: httpx2.Client) -> None:
    """The log folds, and its CSV is read back and passes the audit; each half of a job in it does not."""
    recorded = [of_wire(one) for one in events(client)]
    cloud, file = Cloud(), io.StringIO()
    cloud.apply_recorded(recorded)
    writer = LogWriter(file)
    for item in recorded:
        writer.write(item)
    file.seek(0)
    rows = [row for _, row in read_rows(file, "log")]
    assert audit(rows, []).finding is None
    assert count_log(recorded).tally is not None
    (third,) = [at for at, row in enumerate(rows) if row.instance_id == "four.3" and row.kind == "instance_started"]
    (stop,) = [at for at, row in enumerate(rows) if row.instance_id == "four.3" and row.kind == "instance_stopped"]
    without = [row for at, row in enumerate(rows) if at not in {third, stop}]
    dense = [row._replace(seq=seq) for seq, row in enumerate(without, 1)]
    found = audit(dense, []).finding
    assert found is not None


def test_a_rejected_spot_start_becomes_a_job_for_peers(service: Service, client: httpx2.Client) -> None:
    """Of the same id; and whoever repeats the start, as after a lost answer, finds the same job."""
    start = {"market": "spot", "flavor": "c1", "lifetime_s": HOUR, "count": 40, "federate": "allowed"}
    kept = post(client, f"{PATH}/instances", start | {"id": "fits", "count": 1})
    assert (kept["status"], kept["job"]) == ("accepted", None)
    first = post(client, f"{PATH}/instances", start | {"id": "great"})
    assert (first["status"], first["job"]) == ("rejected", "great")
    shown = client.get(f"{PATH}/jobs/great").json()
    assert (shown["federate"], shown["count"], shown["reason"]) == ("only", 40, "no_peers")
    last = events(client)[-1]["seq"]
    assert post(client, f"{PATH}/instances", start | {"id": "great"}) == first
    assert events(client)[-1]["seq"] == last
    with TenureClient(service.url, TOKEN) as tenure:
        told = tenure.start("jobs", "wide-spot", "spot", "c1", lifetime_s=HOUR, count=40, federate="allowed")
    assert told.job == "wide-spot"
    unbounded = {"market": "spot", "flavor": "c1", "lifetime": "longest", "federate": "allowed", "id": "endless"}
    for body in (unbounded, start | {"id": "x" * 121}, start | {"id": "od", "market": "on_demand"}):
        post(client, f"{PATH}/instances", body, 400)
    batch = {"operations": [{"start": start | {"id": "in-batch"}}]}
    assert client.post(f"{PATH}/batch", json=batch).json()["errors"][0]["code"] == "preemptible.field.unknown"


def test_a_start_on_an_external_clock_asks_no_peers(client: httpx2.Client) -> None:
    post(client, "/v1/clouds", {"name": "driven", "policy": {"clock": "external"}})
    start = {
        "id": "s",
        "market": "spot",
        "flavor": "c1",
        "lifetime_s": HOUR,
        "at": "1970-01-01T00:00:05Z",
        "federate": "allowed",
    }
    refused = post(client, "/v1/clouds/driven/instances", start, 400)
    assert refused["errors"][0]["code"] == "preemptible.job.clock_external"
    assert len(client.get("/v1/clouds/driven/events").json()["events"]) == 1


def test_a_wait_that_loses_its_service_says_that_the_job_goes_on(
    service: Service, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(client, f"{PATH}/jobs", job("alone", 1))
    monkeypatch.setattr("app.commands.jobs.TenureClient", lambda _url, token, **more: TenureClient(GONE, token, **more))
    words = ["job", "wait", "alone", "--url", service.url, "--token", TOKEN, "--cloud", "jobs", "--retry-for", "1s"]
    ended = CliRunner().invoke(command_line(), words).exception
    assert isinstance(ended, Exception)
    ending = exit_of(ended)
    assert ending is not None
    assert (ending.code, "is the service running" in ending.sentence) == (3, True)
    assert ending.sentence.endswith("; the job goes on, whoever waits for it")
    assert client.delete(f"{PATH}/jobs/alone").status_code == 204


def test_a_wait_is_never_longer_than_it_may_be(service: Service) -> None:
    """The job is under way still, as far as anybody knows; so it is where no service answers."""
    words = ["job", "wait", "any", "--url", GONE, "--token", TOKEN, "--cloud", "jobs", "--up-to", "1s"]
    began = time.monotonic()
    run = CliRunner().invoke(command_line(), words)
    assert (run.exit_code, time.monotonic() - began < 10) == (4, True), service.url
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        words[4] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        run = CliRunner().invoke(command_line(), words)
    assert (run.exit_code, time.monotonic() - began < 20) == (4, True)


def test_a_peer_is_named_once(client: httpx2.Client) -> None:
    refused = post(client, f"{PATH}/jobs", job("twice", 1, federate="only", peers=["far", "far"]), 400)
    assert refused["errors"][0]["code"] == "preemptible.field.invalid"
    assert refused["errors"][0]["detail"].startswith("peers: must not name a peer twice")

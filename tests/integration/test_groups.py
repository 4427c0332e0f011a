"""Groups of spot instances over HTTP: all members or none, one promise, evicted and stopped as a whole."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
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
from app.workbench.logevents import events_of
from app.workbench.whatif import count_log
from tenure_client import Start, Stop, TenureClient

HOUR = 3600
NAME = "groups"
PATH = f"/v1/clouds/{NAME}"


def moment(hours: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hours)


def at(hours: float) -> str:
    return moment(hours).isoformat().replace("+00:00", "Z")


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int = 201) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def start(client: httpx2.Client, name: str, hours: float, status: int = 201, **more: Any) -> Any:
    body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": HOUR / 4, "at": at(hours)} | more
    return post(client, f"{PATH}/instances", body, status)


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    """A cloud of two nodes with a day of on-demand load that leaves half of it free, and its first table."""
    client = service.client
    policy = {
        "clock": "external",
        "warm_up_s": 0,
        "sample_count": 200,
        "eviction_probability": 0.5,
        "forecast": "replay",
        "guarantee": "pooled",
        "grace_s": 60,
    }
    post(client, "/v1/clouds", {"name": NAME, "policy": policy})
    for number in range(2):
        post(client, f"{PATH}/nodes", {"name": f"n{number}", "cores": 4})
    for size in (1, 4):
        post(client, f"{PATH}/flavors", {"name": f"c{size}", "cores": size})
    for hour in range(24):
        start(client, f"busy-{hour}", hour, market="on_demand", flavor="c4", lifetime_s=None)
        client.delete(f"{PATH}/instances/busy-{hour}", params={"at": at(hour + 0.25)}).raise_for_status()
    assert client.post(f"{PATH}/tables").status_code == 202
    service.compute_tables()
    service.wait_for_epoch(NAME, 1)
    return client


def code(answer: Any) -> str:
    return str(answer["errors"][0]["code"])


def test_all_members_are_placed_or_none(client: httpx2.Client) -> None:
    refused = start(client, "nine", 23.75, count=9)
    assert (refused["status"], refused["reason"], refused["count"]) == ("rejected", "no_capacity", 9)
    assert (refused["nodes"], refused["quote"]["slots"]) == ([], 0)
    assert client.get(PATH).json()["counts"]["spot_admitted"] == 0
    group = start(client, "job", 23.75, count=6)
    assert (group["status"], group["node"], group["nodes"]) == ("accepted", "n0", ["n0"] * 4 + ["n1"] * 2)
    assert group["quote"]["slots"] == 3, "what the last of six members finds in eight slots"
    single = start(client, "single", 23.75)
    assert (single["count"], single["nodes"]) == (1, [])
    assert start(client, "job", 23.75, count=6) == group, "a repeat has the same answer"
    assert code(start(client, "job", 23.75, 409, count=5)) == "preemptible.instance.conflict"
    counts = client.get(PATH).json()["counts"]
    assert (counts["spot_requested"], counts["spot_admitted"]) == (3, 2), "a group is one start"
    shown = client.get(f"{PATH}/instances/job").json()
    assert (shown["status"], shown["count"], shown["nodes"]) == ("running", 6, group["nodes"])


def test_what_is_no_group(client: httpx2.Client) -> None:
    wrong = {"market": "on_demand", "lifetime_s": None, "count": 2}
    assert code(start(client, "od", 23.8, 400, **wrong)) == "preemptible.group.on_demand"
    for count in (0, 257, 1.5, "2", None):
        assert code(start(client, "odd", 23.8, 400, count=count)) == "preemptible.field.invalid", count
    assert client.get(f"{PATH}/instances/odd").status_code == 404


def test_a_longer_lifetime_is_that_of_all(client: httpx2.Client) -> None:
    path = f"{PATH}/instances/job/extend"
    answer = post(client, path, {"lifetime_s": HOUR / 2, "at": at(23.8)}, 200)
    assert (answer["status"], answer["deadline"]) == ("accepted", at(24.25))
    assert answer["quote"]["slots"] == 3, "eight less five, as the younger one goes before it"


def test_in_a_batch_and_by_the_client(service: Service, client: httpx2.Client) -> None:
    with TenureClient(service.url, TOKEN) as tenure:
        steps = [Stop("single", moment(23.85)), Start("pair", "spot", "c1", 900, at=moment(23.85), count=2)]
        stopped, started = tenure.batch(NAME, steps).results
        assert (stopped.status, started.status) == (204, 201)
        assert started.body
        assert (started.body.accepted, started.body.nodes) == (True, ["n1", "n1"])
        assert tenure.start(NAME, "pair", "spot", "c1", lifetime_s=900, at=moment(23.85), count=2) == started.body
        tenure.stop(NAME, "pair", at=moment(23.9))
    assert client.get(f"{PATH}/instances/pair").json()["status"] == "stopped"
    assert client.get(f"{PATH}/flavors/c1").json()["available_slots"] == 2, "both members are gone"


def test_the_whole_group_is_evicted_once(client: httpx2.Client) -> None:
    """An on-demand start needs one node; the group's members on either stand in its way."""
    seq = client.get(PATH).json()["seq"]
    answer = start(client, "peak", 23.95, market="on_demand", flavor="c4", lifetime_s=None)
    assert [one["id"] for one in answer["victims"]] == ["job"]
    assert answer["node"] == "n0"
    assert client.get(f"{PATH}/flavors/c1").json()["available_slots"] == 4
    events = client.get(f"{PATH}/events", params={"after_seq": seq}).json()["events"]
    assert [one["kind"] for one in events] == ["eviction_scheduled", "instance_evicted", "instance_started"]
    (handover,) = client.get(f"{PATH}/handovers").json()["handovers"]
    assert (handover["id"], handover["nodes"]) == ("job", ["n0"] * 4 + ["n1"] * 2)
    late = start(client, "late", 23.95, count=3)
    assert late["ready_at"] == handover["deadline"], "two members have not left the other node yet"
    client.post(f"{PATH}/handovers/job/confirm", params={"at": at(23.96)}).raise_for_status()
    (sla,) = client.get(f"{PATH}/sla").json()["classes"]
    assert (sla["admitted"], sla["evicted"]) == (4, 1)


def test_it_is_explained(client: httpx2.Client) -> None:
    found = client.get(f"{PATH}/instances/job/explanation").json()
    words = " ".join(found["sentences"])
    assert "a group of 6 spot instances of flavor c1 (1 core each) was asked for" in words
    assert "n0 (4), n1 (2), as a group of 6" in words
    assert "It is a group on n0 (4), n1 (2), which is evicted as a whole." in words
    page = client.get(f"/ui/clouds/{NAME}/instances/job", headers={"Cookie": f"tenure_token={TOKEN}"}).text
    assert "n0 (4), n1 (2)</dd>" in page
    for command in (["explain", "job"], ["instances"]):
        options = ["--url", str(client.base_url), "--token", TOKEN, "--cloud", NAME]
        assert "n0 (4), n1 (2)  " in CliRunner().invoke(command_line(), [*command, *options]).output
    assert found["promise"]["status"] == "broken"
    assert found["eviction"]["freed"]["cores"] == 4
    refused = client.get(f"{PATH}/instances/nine/explanation").json()
    assert "did not have room for all 9" in " ".join(refused["sentences"])


def test_the_history_of_utilisation_has_all_members(service: Service, client: httpx2.Client) -> None:
    service.roll_up()
    points = client.get(f"{PATH}/utilisation", params={"points": 10}).json()["points"]
    assert max(point["spot_peak"] for point in points) == 8, "six members of one, two of another"
    assert sum(point["spot_admitted"] for point in points) == 4
    there = client.get(f"{PATH}/utilisation", params={"points": 10, "node": "n1"}).json()["points"]
    assert max(point["spot_peak"] for point in there) == 4


def test_the_log_tells_it_to_everybody(client: httpx2.Client) -> None:
    recorded = [of_wire(event) for event in client.get(f"{PATH}/events", params={"limit": 1000}).json()["events"]]
    file = io.StringIO()
    writer = LogWriter(file)
    for item in recorded:
        writer.write(item)
    rows = [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]
    result = audit(rows, [])
    assert result.finding is None, result.finding
    cloud, again = Cloud(), Cloud()
    cloud.apply_recorded(recorded)
    again.apply_recorded(events_of(rows, cloud.policy))
    assert again.facts().running == cloud.facts().running
    assert Cloud.of_facts(cloud.facts()).digest() == cloud.digest()
    assert count_log(recorded).tally.total().evicted == 1

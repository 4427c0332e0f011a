"""Longer lifetimes over HTTP: promised or refused, quoted, repeated, explained, and checked by the audit."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
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
from tenure_client import AsyncTenureClient, Conflict, Extend, Start, Stop, TenureClient

HOUR = 3600


def at(hours: float) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int = 201) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def furnish(service: Service, name: str, guarantee: str) -> str:
    """Make a cloud with a day of on-demand load that leaves half of it free, and its first table."""
    client, path = service.client, f"/v1/clouds/{name}"
    policy = {
        "clock": "external",
        "warm_up_s": 0,
        "sample_count": 200,
        "eviction_probability": 0.2,
        "guarantee": guarantee,
        "forecast": "replay",
    }
    post(client, "/v1/clouds", {"name": name, "policy": policy})
    post(client, f"{path}/nodes", {"name": "node", "cores": 8})
    for size in (1, 4):
        post(client, f"{path}/flavors", {"name": f"c{size}", "cores": size})
    for hour in range(24):
        body = {"id": f"busy-{hour}", "market": "on_demand", "flavor": "c4", "at": at(hour)}
        post(client, f"{path}/instances", body)
        client.delete(f"{path}/instances/busy-{hour}", params={"at": at(hour + 0.25)}).raise_for_status()
    post(client, f"{path}/instances", {"id": "od", "market": "on_demand", "flavor": "c1", "at": at(23.6)})
    assert client.post(f"{path}/tables").status_code == 202
    service.compute_tables()
    service.wait_for_epoch(name, 1)
    for number in range(6):
        body = {"id": f"s{number}", "market": "spot", "flavor": "c1", "lifetime_s": HOUR // 4, "at": at(23.75)}
        assert post(client, f"{path}/instances", body)["status"] == "accepted", number
    return path


@pytest.fixture(scope="module", params=["per_instance", "pooled", "stratified", "none"])
def path(service: Service, request: pytest.FixtureRequest) -> str:
    return furnish(service, f"longer-{request.param}".replace("_", "-"), request.param)


def extend(client: httpx2.Client, path: str, name: str, lifetime_s: float, hours: float, status: int = 200) -> Any:
    body = {"lifetime_s": lifetime_s, "at": at(hours)}
    return post(client, f"{path}/instances/{name}/extend", body, status)


def code(answer: Any) -> str:
    return str(answer["errors"][0]["code"])


def test_the_oldest_is_promised_more(service: Service, path: str) -> None:
    client = service.client
    seq = client.get(path).json()["seq"]
    quote = client.get(f"{path}/instances/s0/extend", params={"lifetime_s": 2 * HOUR}).json()
    assert (quote["status"], quote["seq"]) == ("accepted", None)
    assert client.get(path).json()["seq"] == seq, "a quote changes nothing"
    answer = extend(client, path, "s0", 2 * HOUR, 23.75)
    assert answer == {**quote, "seq": seq + 1}
    assert (answer["former_lifetime_s"], answer["deadline"]) == (HOUR / 4, at(25.75))
    assert answer["quote"]["slots"] == 7, "its own, the free one and five younger ones"
    shown = client.get(f"{path}/instances/s0").json()
    assert (shown["lifetime_s"], shown["first_lifetime_s"]) == (2 * HOUR, HOUR / 4)
    assert client.get(f"{path}/instances/s1").json()["first_lifetime_s"] is None
    assert extend(client, path, "s0", 2 * HOUR, 23.8) == answer, "a repeat has the same answer, whenever it comes"
    event = client.get(f"{path}/events", params={"after_seq": seq}).json()["events"][0]
    assert (event["kind"], event["lifetime_s"], event["deadline"]) == ("instance_extended", 2 * HOUR, at(25.75))


def test_what_goes_too_far_is_refused_and_changes_nothing(service: Service, path: str) -> None:
    if path.endswith("none"):
        return
    client, asked_s = service.client, 300 * 24 * HOUR
    before = client.get(f"{path}/instances/s5").json()
    refused = extend(client, path, "s5", asked_s, 23.8)
    reason = "sla_unattainable" if path.endswith("per-instance") else "budget_exhausted"
    assert (refused["status"], refused["reason"]) == ("rejected", reason)
    assert refused["deadline"] == at(24.0), "it keeps what it had"
    assert "stays as it is" in refused["sentence"]
    assert client.get(f"{path}/instances/s5").json() == before
    again = extend(client, path, "s5", asked_s, 23.8)
    assert again == refused, "the same request, time and all, has the same answer"
    (decision,) = client.get(f"{path}/decisions", params={"outcome": "extension_rejected", "limit": 1}).json()[
        "decisions"
    ]
    assert (decision["id"], decision["sentence"]) == ("s5", refused["sentence"])


def test_what_cannot_be_extended(service: Service, path: str) -> None:
    client = service.client
    assert code(extend(client, path, "od", HOUR, 23.8, 409)) == "preemptible.extension.on_demand"
    assert code(extend(client, path, "nobody", HOUR, 23.8, 404)) == "preemptible.instance.not_found"
    assert code(extend(client, path, "busy-0", HOUR, 23.8, 409)) == "preemptible.extension.ended"
    assert code(extend(client, path, "s1", HOUR / 4, 23.8, 409)) == "preemptible.extension.not_longer"
    assert code(extend(client, path, "s1", -1, 23.8, 400)) == "preemptible.field.invalid"
    assert code(extend(client, path, "s1", HOUR, 23.0, 400)) == "preemptible.time.backwards"
    for name, found in (("od", "extension.on_demand"), ("nobody", "instance.not_found"), ("busy-0", "extension.ended")):
        answer = client.get(f"{path}/instances/{name}/extend", params={"lifetime_s": HOUR})
        assert code(answer.json()) == f"preemptible.{found}"


def test_in_a_batch_and_by_the_clients(service: Service, path: str) -> None:
    name = path.rsplit("/", maxsplit=1)[1]
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=23.9)
    with TenureClient(service.url, TOKEN) as client:
        steps = [
            Start("mine", "spot", "c1", HOUR / 4, at=when),
            Extend("mine", HOUR / 2, when),
            Extend("mine", HOUR / 2, when),
            Extend("mine", 1, when),
            Stop("mine", when),
        ]
        started, extended, again, shorter, stopped = client.batch(name, steps).results
        assert (started.status, extended.status, stopped.status) == (201, 200, 204)
        assert extended.extension
        assert extended.extension.accepted
        assert again == extended
        assert shorter.error is not None
        assert shorter.error.code == "preemptible.extension.not_longer"
        assert client.extend(name, "mine", HOUR / 2, at=when) == extended.extension, "also after its end"
        with pytest.raises(Conflict, match="does not run"):
            client.extension_quote(name, "mine", HOUR)
        assert client.extension_quote(name, "s1", HOUR).id == "s1"

    async def ask() -> bool:
        async with AsyncTenureClient(service.url, TOKEN) as client:
            return (await client.extend(name, "s1", HOUR / 2, at=when)).accepted

    assert anyio.run(ask)


def test_by_the_command(service: Service, path: str) -> None:
    name = path.rsplit("/", maxsplit=1)[1]
    options = ["--url", service.url, "--token", TOKEN, "--cloud", name]
    run = CliRunner().invoke
    for words in (["extend", "s2", "--dry-run"], ["extend", "s2"], ["quote"]):
        wrong = run(command_line(), [*words, *options, "--lifetime", "9999999d"])
        assert str(wrong.exception).startswith("--lifetime: "), (words, wrong.exception, wrong.output)
    told = run(command_line(), ["extend", *options, "s2", "--lifetime", "30m", "--dry-run"])
    assert (told.exit_code, "If asked for now: Extended" in told.output) == (0, True)
    if not path.endswith("none"):
        refused = run(command_line(), ["extend", *options, "s2", "--lifetime", "300d", "--dry-run", "--json"])
        assert (refused.exit_code, '"rejected"' in refused.output) == (1, True)


def test_it_is_explained(service: Service, path: str) -> None:
    found = service.client.get(f"{path}/instances/s0/explanation").json()
    assert [one["lifetime_s"] for one in found["extensions"]] == [2 * HOUR]
    assert any("Extended from" in sentence for sentence in found["sentences"])
    assert found["promise"]["until"] == (None if path.endswith("none") else at(25.75))


def test_an_eviction_within_it_breaks_the_promise_and_the_audit_agrees(service: Service, path: str) -> None:
    """Two on-demand starts take the whole node an hour after the declared lifetime, within the extended one."""
    client, hours = service.client, 24.75
    for name in ("peak-0", "peak-1"):
        body = {"id": name, "market": "on_demand", "flavor": "c4", "at": at(hours)}
        if name == "peak-1":
            client.delete(f"{path}/instances/od", params={"at": at(hours)}).raise_for_status()
        post(client, f"{path}/instances", body)
    found = client.get(f"{path}/instances/s0/explanation").json()
    assert found["instance"]["status"] == "evicted"
    assert found["promise"]["status"] == ("none" if path.endswith("none") else "broken")
    recorded = [of_wire(event) for event in client.get(f"{path}/events", params={"limit": 1000}).json()["events"]]
    classes = client.get(f"{path}/sla").json()["classes"]
    assert [one["evicted"] for one in classes] == ([] if path.endswith("none") else [1])
    reliability = client.get(f"{path}/reliability").json()
    assert sum(one["evicted"] for one in reliability["classes"] if one["promised"] is not None) == sum(
        one["evicted"] for one in classes
    )
    assert count_log(recorded).tally.total().evicted == 1
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

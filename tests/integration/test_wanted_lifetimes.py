"""Starts for as long as possible over HTTP: what they get, how they are extended, and who is told when that ends."""

from __future__ import annotations

import io
from typing import Any

import anyio
import httpx2
import pytest
from api_service import TOKEN, Service
from test_extensions import HOUR, at, code, furnish, post

from app.domain.events.wire import of_wire
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows
from tenure_client import AsyncTenureClient, Start, TenureClient

WISH = {"id": "w", "market": "spot", "flavor": "c1", "lifetime": "longest", "min_lifetime_s": 60}


@pytest.fixture(scope="module")
def path(service: Service) -> str:
    return furnish(service, "wanted", "per_instance")


@pytest.fixture(scope="module")
def wish(service: Service, path: str) -> Any:
    return post(service.client, f"{path}/instances", WISH | {"at": at(23.75)})


def test_it_gets_the_longest_lifetime_and_is_told_why_no_longer(service: Service, path: str, wish: Any) -> None:
    assert (wish["status"], wish["limited_by"]) == ("accepted", "sla_unattainable")
    assert wish["wanted"] == {"lifetime_s": None, "min_lifetime_s": 60}
    got_s = wish["lifetime_s"]
    assert got_s <= wish["quote"]["lifetime_s"] <= got_s + 1
    assert post(service.client, f"{path}/instances", WISH | {"at": at(23.75)}) == wish, "a repeat has the same answer"
    for other in ({"min_lifetime_s": 61}, {"lifetime_s": got_s, "lifetime": None}):
        body = {key: value for key, value in (WISH | other | {"at": at(23.75)}).items() if value is not None}
        assert code(post(service.client, f"{path}/instances", body, 409)) == "preemptible.instance.conflict"
    told = " ".join(service.client.get(f"{path}/instances/w/explanation").json()["sentences"])
    assert "was asked for, for as long as possible, at least 60 s." in told
    assert "no longer one was quoted at its eviction probability" in told


@pytest.mark.parametrize(
    "wrong",
    [
        {"lifetime_s": HOUR},
        {"lifetime": "forever"},
        {"lifetime": None},
        {"market": "on_demand"},
        {"min_lifetime_s": 0},
        {"lifetime": None, "lifetime_s": 10, "min_lifetime_s": 11},
    ],
)
def test_what_could_be_misread_is_refused(service: Service, path: str, wrong: dict[str, Any]) -> None:
    body = {key: value for key, value in (WISH | {"id": "x", "at": at(23.75)} | wrong).items() if value is not None}
    seq = service.client.get(path).json()["seq"]
    post(service.client, f"{path}/instances", body, 400)
    post(service.client, f"{path}/batch", {"operations": [{"start": body}]}, 400)
    assert service.client.get(path).json()["seq"] == seq


@pytest.mark.parametrize("lifetime", [600, "10m", True, ["longest"]])
def test_a_time_in_the_place_of_longest_is_told_where_it_belongs(service: Service, path: str, lifetime: object) -> None:
    body = {"id": "x", "market": "spot", "flavor": "c1", "lifetime": lifetime, "at": at(23.75)}
    (told,) = post(service.client, f"{path}/instances", body, 400)["errors"]
    assert "must be 'longest'; a time is told in seconds, as lifetime_s" in told["detail"]


def test_a_minimum_that_cannot_be_promised_tells_what_would_be(service: Service, path: str, wish: Any) -> None:
    service.client.delete(f"{path}/instances/s5", params={"at": at(23.75)}).raise_for_status()
    refused = post(service.client, f"{path}/instances", WISH | {"id": "m", "min_lifetime_s": 3e7, "at": at(23.75)})
    assert (refused["status"], refused["reason"]) == ("rejected", "sla_unattainable")
    assert refused["lifetime_s"] == 3e7
    assert wish["lifetime_s"] > 0 < refused["acceptable"]["lifetime_s"] < 3e7


def events(client: httpx2.Client, path: str, kind: str) -> list[Any]:
    found = client.get(f"{path}/events", params={"limit": 1000}).json()["events"]
    return [one for one in found if one["kind"] == kind]


def test_it_is_extended_by_itself_and_then_told_that_it_ends(service: Service, path: str, wish: Any) -> None:
    """The requests of an on-demand instance bring the times; the table grows too old, and nothing more is promised."""
    client = service.client
    hour, end_hour = 23.75, 23.75 + wish["lifetime_s"] / HOUR
    for number in range(40):
        hour += (end_hour - hour) / 2 + 0.05
        post(client, f"{path}/instances", {"id": f"t{number}", "market": "on_demand", "flavor": "c1", "at": at(hour)})
        client.delete(f"{path}/instances/t{number}", params={"at": at(hour)}).raise_for_status()
        shown = client.get(f"{path}/instances/w").json()
        end_hour = 23.75 + shown["lifetime_s"] / HOUR
        if events(client, path, "promise_ending"):
            break
    longer = [one for one in events(client, path, "instance_extended") if one["is_automatic"]]
    assert longer
    assert shown["lifetime_s"] == longer[-1]["lifetime_s"]
    (told,) = events(client, path, "promise_ending")
    assert (told["id"], told["afterwards"], told["deadline"]) == ("w", "displaced_first", at(end_hour))
    explained = client.get(f"{path}/instances/w/explanation").json()
    sentences = " ".join(explained["sentences"])
    assert "Extended by the service, because its start wanted more" in sentences
    assert "it overruns, and is evicted before all that have a promise" in sentences
    assert [one["automatic"] for one in explained["extensions"]] == [True] * len(longer)


def test_the_audit_finds_nothing(service: Service, path: str, wish: Any) -> None:
    recorded = [of_wire(one) for one in service.client.get(f"{path}/events", params={"limit": 1000}).json()["events"]]
    file = io.StringIO()
    writer = LogWriter(file)
    for one in recorded:
        writer.write(one)
    assert audit((row for _, row in read_rows(io.StringIO(file.getvalue()), "log")), []).finding is None


def test_both_clients_ask_for_it(service: Service, path: str, wish: Any) -> None:
    url = str(service.client.base_url)
    with TenureClient(url, TOKEN) as tenure:
        moment = tenure.cloud("wanted").at
        one = tenure.start("wanted", "c-1", "spot", "c1", lifetime_s=7200, min_lifetime_s=1, at=moment)
        assert one.wanted is not None
        assert (one.wanted.lifetime_s, one.wanted.min_lifetime_s) == (7200, 1)

    async def ask() -> None:
        async with AsyncTenureClient(url, TOKEN) as tenure:
            two = await tenure.start("wanted", "c-2", "spot", "c1", lifetime="longest", at=moment)
            assert two.wanted is not None
            assert two.wanted.lifetime_s is None
            asked = Start("c-3", "spot", "c1", at=moment, lifetime="longest", min_lifetime_s=5)
            (result,) = (await tenure.batch("wanted", [asked])).results
            assert result.decision is not None
            assert result.decision.wanted is not None

    anyio.run(ask)

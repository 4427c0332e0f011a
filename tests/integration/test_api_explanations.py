"""Tests of explanations over HTTP: each kind of story, and its cost on a long log."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import numpy as np
import pytest
from api_service import TOKEN, Service

from app.domain.budgets import AdmittedBy, Book
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeRemoved,
    PolicyChanged,
    Recorded,
)
from app.domain.events.formats import LOG_FORMAT
from app.domain.times import HOUR_US
from app.domain.values import (
    Basis,
    Clock,
    EvictionPolicy,
    EvictionReason,
    Guarantee,
    Market,
    Policy,
    Rejection,
    Resources,
)
from app.forecast.survival import Bucket
from app.forecast.table import QuantileTable, make_curve
from app.forecasts.store.tables import Tables
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

SPOT, OD = Market.SPOT, Market.ON_DEMAND
POLICY = Policy(eviction_probability=0.05, clock=Clock.EXTERNAL)


def spot(
    at_h: float, name: str, lifetime_h: float, *, probability: float | None = None, node: str = "n"
) -> InstanceStarted:
    basis = Basis(3, 7, 0.05 if probability is None else probability, 5 * HOUR_US, 0.0123)
    return InstanceStarted(
        at_us=hours(at_h),
        instance_id=name,
        market=SPOT,
        flavor="c1",
        node=node,
        lifetime_us=hours(lifetime_h),
        probability=probability,
        basis=basis,
    )


def refused(at_h: float, name: str, reason: Rejection, basis: Basis | None) -> Event:
    return InstanceRejected(
        at_us=hours(at_h),
        instance_id=name,
        market=SPOT,
        flavor="c1",
        reason=reason,
        lifetime_us=hours(9),
        probability=None,
        basis=basis,
    )


def evicted(at_h: float, name: str, cause_seq: int) -> Event:
    return InstanceEvicted(
        at_us=hours(at_h), instance_id=name, reason=EvictionReason.ON_DEMAND_START, cause_seq=cause_seq
    )


def hours(number: float) -> int:
    return round(number * HOUR_US)


LOG: list[Event] = [
    CloudCreated(at_us=0, policy=POLICY),
    NodeAdded(at_us=0, node="n", capacity=Resources(4)),
    NodeAdded(at_us=0, node="m", capacity=Resources(1, 2048)),
    FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
    FlavorAdded(at_us=0, flavor="c3", demand=Resources(3, 0, 5)),
    refused(1, "early", Rejection.NO_HISTORY, Basis(4, probability=0.05)),
    refused(30, "tableless", Rejection.NO_HISTORY, Basis(4, probability=0.05)),
    refused(31, "unseen", Rejection.NO_HISTORY, Basis(4, 6, 0.05)),
    refused(32, "stale", Rejection.QUOTES_STALE, Basis(4, 6, 0.05, HOUR_US, 0.5)),
    refused(33, "long", Rejection.SLA_UNATTAINABLE, Basis(4, 7, 0.05, 5 * HOUR_US, 0.11, probability_bound=0.43)),
    refused(33, "hopeless", Rejection.SLA_UNATTAINABLE, Basis(4, 7, 0.05, 0, 1.0)),
    refused(33, "crowded", Rejection.NO_CAPACITY, Basis(0, 7, 0.05, HOUR_US, 0.2)),
    InstanceRejected(at_us=hours(33), instance_id="huge", market=OD, flavor="c3", reason=Rejection.NO_CAPACITY),
    spot(40, "over", 1),
    spot(41, "old", 4, probability=0.2),
    spot(42, "young", 4),
    spot(42, "done", 4),
    InstanceStopped(at_us=hours(43), instance_id="done"),
    evicted(43.5, "over", 22),
    evicted(43.5, "young", 22),
    evicted(43.5, "old", 22),
    InstanceStarted(
        at_us=hours(43.5),
        instance_id="peak",
        market=OD,
        flavor="c3",
        node="n",
        lifetime_us=None,
        probability=None,
        basis=None,
        victims=("over", "young", "old"),
    ),
    spot(44, "left", 4),
    spot(44, "removed", 4, node="m"),
    InstanceEvicted(at_us=hours(45), instance_id="removed", reason=EvictionReason.NODE_REMOVED, cause_seq=26),
    NodeRemoved(at_us=hours(45), node="m"),
    PolicyChanged(at_us=hours(46), policy=Policy(Guarantee.NONE, 0.05, EvictionPolicy.YJF_GLOBAL, Clock.EXTERNAL)),
    InstanceStarted(
        at_us=hours(46),
        instance_id="unpromised",
        market=SPOT,
        flavor="c1",
        node="n",
        lifetime_us=HOUR_US,
        probability=None,
        basis=Basis(2),
    ),
    InstanceEvicted(at_us=hours(46.5), instance_id="unpromised", reason=EvictionReason.ON_DEMAND_START, cause_seq=30),
    InstanceStarted(
        at_us=hours(46.5),
        instance_id="wide",
        market=OD,
        flavor="c1",
        node="m",
        lifetime_us=None,
        probability=None,
        basis=None,
        victims=("unpromised",),
    ),
    refused(46.5, "newer", Rejection.SLA_UNATTAINABLE, Basis(4, 8, 0.05, 5 * HOUR_US, 0.11)),
]


TABLE = QuantileTable(
    7,
    hours(30),
    5,
    {
        "c1": make_curve(
            [Bucket(4, 40, 3, hours(20), np.array([hours(5)]), np.array([0.11]), (40, 40, 39, 21, 9, 5, 3, 2, 1, 1))]
        )
    },
).to_bytes()


async def write(url: str, name: str, events: list[Event], log_format: int = 1, has_newer: bool = True) -> int:
    database = Database(url)
    database.newer.log_format = log_format
    recorded = [Recorded(seq, event) for seq, event in enumerate(events, 1)]
    cloud_id = await Clouds(database).create(name, recorded[0])
    await EventLog(database).append(cloud_id, recorded[1:])
    await Tables(database).publish(cloud_id, epoch=7, epoch_us=hours(30), seq=5, data=TABLE, wall_s=0.0)
    if has_newer:
        await Tables(database).publish(cloud_id, epoch=8, epoch_us=hours(36), seq=5, data=b"newer\n", wall_s=0.0)
    await database.close()
    return cloud_id


@pytest.fixture(scope="module")
def story(service: Service, database_url: str) -> httpx2.Client:
    anyio.run(write, database_url, "why", LOG)
    return service.client


@pytest.mark.parametrize(
    ("name", "hour", "said"),
    [
        ("awaited", 1, "The first was due at 1970-01-01 06:00:00 UTC."),
        ("late", 7, "A worker (tenure worker) computes the first; tenure status tells what the workers do."),
    ],
)
def test_a_refusal_for_want_of_a_table_tells_when_it_is_due(
    service: Service, database_url: str, name: str, hour: float, said: str
) -> None:
    policy = replace(POLICY, clock=Clock.SYSTEM, warm_up_us=0)
    want = [refused(hour, "want", Rejection.NO_HISTORY, Basis(4, probability=0.05))]
    anyio.run(write, database_url, name, [CloudCreated(at_us=0, policy=policy), *LOG[1:4], *want])
    told = service.client.get(f"/v1/clouds/{name}/instances/want/explanation").json()["sentences"]
    assert told[1:] == ["Rejected: no table of quotes was published yet, so nothing could be promised.", said]


def test_a_new_clouds_first_table_is_told_before_it_is_due(service: Service) -> None:
    path = "/v1/clouds/fresh"
    for place, body in (
        ("/v1/clouds", {"name": "fresh", "policy": {"warm_up_s": 0}}),
        (f"{path}/nodes", {"name": "n", "cores": 4}),
        (f"{path}/flavors", {"name": "c1", "cores": 1}),
        (f"{path}/instances", {"id": "want", "market": "spot", "flavor": "c1", "lifetime_s": 60}),
    ):
        service.client.post(place, json=body).raise_for_status()
    told = service.client.get(f"{path}/instances/want/explanation").json()["sentences"]
    assert told[1].startswith("Rejected: no table of quotes was published yet")
    assert re.fullmatch(
        r"The first is due at .*:00:00 UTC; POST \.\.\./tables of the cloud asks for one at once\.", told[2]
    )
    quoted = service.client.get(f"{path}/quotes").json()["errors"][0]["detail"]
    assert told[2].split(";")[0].removeprefix("The first is due at ") in quoted


def explained(client: httpx2.Client, name: str) -> dict[str, Any]:
    answer = client.get(f"/v1/clouds/why/instances/{name}/explanation")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("early", "the cloud was still warming up (for its first 24 h, until 1970-01-02 00:00:00 UTC)"),
        ("tableless", "Rejected: no table of quotes was published yet, so nothing could be promised."),
        ("unseen", "the table of epoch 6 had seen nothing of this flavor, so nothing could be promised."),
        ("stale", "Rejected: the newest table of quotes of epoch 6 was older than the policy's 12 h, so nothing"),
        (
            "long",
            "Rejected: with 4 slots of the flavor available, the table of epoch 7 (of the history up to 1970-01-02 "
            "06:00:00 UTC) guaranteed a lifetime of 5 h at an eviction probability of 5 % (the SLA of the cloud), not "
            "longer than was declared. The risk, the probability of an eviction within the declared lifetime, was "
            "estimated at 11 % (at most 43 % with 95 % confidence, on 5 windows). That rested on 40 samples at 4 slots "
            "(3 evicted sooner or later), 5 of them independent of each other for so long a lifetime. "
            "Would have been accepted: this lifetime at an eviction probability of 11 %, or at this "
            "eviction probability a lifetime of up to 4.99 h.",
        ),
        (
            "hopeless",
            "guaranteed no lifetime at an eviction probability of 5 % (the SLA of the cloud), not longer than",
        ),
        ("hopeless", "The table knew no probability for the declared lifetime: nothing observed had run that long."),
        ("newer", "the table of epoch 8 (of the history up to 1970-01-02 12:00:00 UTC) guaranteed a lifetime of 5 h"),
        ("hopeless", "No lifetime would have been accepted."),
        ("crowded", "Rejected: no open node had room for it, and a spot start evicts nobody."),
        ("huge", "no open node would have had room for it, even with all of its spot instances evicted."),
        ("old", "at an eviction probability of 20 % (asked for by the start itself), longer than was declared."),
        ("done", "Stopped at 1970-01-02 19:00:00 UTC by its owner, after 1 h. The promise was kept"),
        (
            "young",
            "Evicted at 1970-01-02 19:30:00 UTC to make room on n for the on-demand instance peak, which needed 3 "
            "cores, 5 GiB of disk on one node (flavor c3); no open node had that free. 3 spot instances had to go, "
            "those that had overrun their lifetimes first, then the youngest: had any of them been spared, the start "
            "would not have fitted. The victims, in this order: over (1 core, 3.5 h of 1 h), young (1 core, 1.5 h of "
            "4 h), old (1 core, 2.5 h of 4 h). It had run for 1.5 h of its declared 4 h, so the promise to it counts "
            "as broken. At most 5 % of those with this promise may be evicted within their lifetime",
        ),
        (
            "over",
            "It had overrun its declared lifetime, and such instances go before all others. It had run for 3.5 h,",
        ),
        ("over", "longer than the 1 h it declared: the promise was kept."),
        ("peak", "No open node had room for it, so 3 spot instances had to go: over, young, old."),
        ("left", "Still running on n after 2.5 h. The promise, an eviction probability of at most 5 %, holds until"),
        ("removed", "Evicted at 1970-01-02 21:00:00 UTC, because its node m was removed (event 26). It had run for"),
        ("unpromised", "because it fitted; no SLA was in force, so nothing was promised."),
        (
            "unpromised",
            "spot instances of the whole cloud, youngest first, until a node has room; this was number 1 of 1. It ran",
        ),
        ("unpromised", "It ran on n, so its going did not help m."),
    ],
)
def test_each_story_in_words(story: httpx2.Client, name: str, why: str) -> None:
    assert why in " ".join(explained(story, name)["sentences"])


def test_an_eviction_in_fields(story: httpx2.Client) -> None:
    found = explained(story, "young")
    assert found["promise"] == {
        "status": "broken", "eviction_probability": 0.05, "until": "1970-01-02T22:00:00Z",
    }  # fmt: skip
    assert (found["as_of"], found["epoch_at"]) == ("1970-01-02T22:30:00Z", "1970-01-02T06:00:00Z")
    assert (found["guarantee"], found["required"]["cores"]) == ("per_instance", 1)
    eviction = found["eviction"]
    assert (eviction["cause_seq"], eviction["cause_id"], eviction["node"], eviction["rank"]) == (22, "peak", "n", 2)
    assert eviction["required"] == {"cores": 3, "memory_mib": 0, "disk_gib": 5}
    assert eviction["freed"] == {"cores": 3, "memory_mib": 0, "disk_gib": 0}
    assert eviction["eviction_policy"] == "yjf"
    assert [(v["id"], v["ran_s"], v["overrunning"], v["promise"]) for v in eviction["victims"]] == [
        ("over", 12_600, True, "kept"),
        ("young", 5400, False, "broken"),
        ("old", 9000, False, "broken"),
    ]
    assert found["instance"] == story.get("/v1/clouds/why/instances/young").json()


def test_the_page_tells_a_promise_of_two_digits_as_it_is(story: httpx2.Client) -> None:
    shown = story.get("/ui/clouds/why/instances/long", headers={"Cookie": f"tenure_token={TOKEN}"}).text
    assert "at a probability of <strong>11 %</strong>.</p>" in shown


def page_of(story: httpx2.Client, place: str) -> str:
    return story.get(f"/ui/clouds/{place}", headers={"Cookie": f"tenure_token={TOKEN}"}).text


def test_a_promise_that_one_alone_exceeds_is_told_as_one_to_all_together(
    story: httpx2.Client, database_url: str
) -> None:
    book = Book(0, None, 3.0, 0, 0.0, 0, AdmittedBy.PAID)
    risky = replace(spot(31, "risky", 4), basis=Basis(4, 7, 0.2, HOUR_US, 0.54, book=book))
    anyio.run(write, database_url, "beyond", [*LOG[:5], risky], LOG_FORMAT)
    shown = page_of(story, "beyond/instances/risky")
    assert "<dd>20 %<small>at most, of all such starts together</small></dd>" in shown
    assert "<dd>54 %<small>of the declared lifetime, for this one alone</small></dd>" in shown
    listed = story.get("/v1/clouds/beyond/decisions").json()["decisions"]
    assert "more than is promised for all such starts together, which its book could bear" in listed[0]["sentence"]


def test_the_page_of_epochs_tells_of_one_that_there_is_not(story: httpx2.Client, database_url: str) -> None:
    anyio.run(write, database_url, "short", LOG[:5], 1, False)
    assert "There is no epoch 999: the newest are shown." in page_of(story, "short/epochs?epoch=999")
    assert "There is no epoch 0 and no run 7: the newest are shown." in page_of(story, "short/epochs?epoch=0&run=7")
    assert "There is no" not in page_of(story, "short/epochs?epoch=7")


def test_a_rejection_says_what_would_have_been_accepted(story: httpx2.Client) -> None:
    found = explained(story, "long")
    assert found["acceptable"] == {"lifetime_s": 17_999.999999, "eviction_probability": 0.11}
    assert (found["promise"]["status"], found["eviction"]) == ("none", None)


def test_the_samples_that_a_decision_rests_on(story: httpx2.Client) -> None:
    found = explained(story, "long")
    assert found["evidence"] == [{"slots": 4, "sample_count": 40, "evicted_count": 3}]
    assert (found["window_count"], found["confidence"]) == (5, 0.95)
    assert found["instance"]["quote"]["eviction_probability_bound"] == 0.43
    newer, early = explained(story, "newer"), explained(story, "early")
    assert (newer["evidence"], newer["epoch_at"]) == ([], "1970-01-02T12:00:00Z")
    assert (early["evidence"], early["window_count"], early["epoch_at"]) == ([], None, None)


def test_the_newest_decisions_come_first_and_are_paged_backwards(story: httpx2.Client) -> None:
    whole = story.get("/v1/clouds/why/decisions").json()
    kinds = {"accepted": InstanceStarted, "rejected": InstanceRejected, "stopped": InstanceStopped}
    expected = [seq for seq, event in enumerate(LOG, 1) if isinstance(event, (InstanceEvicted, *kinds.values()))]
    assert [line["seq"] for line in whole["decisions"]] == expected[::-1]
    assert whole["links"] == []
    for line in whole["decisions"]:
        assert type(LOG[line["seq"] - 1]) is kinds.get(line["outcome"], InstanceEvicted)
    path, found = "/v1/clouds/why/decisions?limit=4", []
    while path:
        page = story.get(path).json()
        assert len(page["decisions"]) <= 4
        found += page["decisions"]
        path = page["links"][0]["href"] if page["links"] else ""
    assert found == whole["decisions"]


@pytest.mark.parametrize("outcome", ["accepted", "rejected", "stopped", "evicted"])
@pytest.mark.parametrize("market", [None, "spot", "on_demand"])
def test_decisions_of_one_outcome_and_market(story: httpx2.Client, outcome: str, market: str | None) -> None:
    whole = story.get("/v1/clouds/why/decisions").json()["decisions"]
    query = {"outcome": outcome, "limit": 3} | ({"market": market} if market else {})
    expected = [one for one in whole if one["outcome"] == outcome and market in (None, one["market"])]
    page = story.get("/v1/clouds/why/decisions", params=query).json()
    assert page["decisions"] == expected[:3]
    if len(expected) > 3:
        assert story.get(page["links"][0]["href"]).json()["decisions"] == expected[3:6]


def test_each_decision_in_one_sentence(story: httpx2.Client) -> None:
    whole = {line["seq"]: line["sentence"] for line in story.get("/v1/clouds/why/decisions").json()["decisions"]}
    quoted = "quoted was 5 h at 5 %, and its risk was"
    assert whole[10] == f"Rejected: the SLA was out of reach for at most 9 h; {quoted} 11 % (at most 43 %)."
    assert whole[16] == f"Accepted on n for at most 4 h; {quoted} 1.23 %."
    assert whole[18] == "Stopped after 1 h of 4 h declared."
    assert whole[19] == "Evicted for peak, after 3.5 h of 1 h declared."
    assert whole[20] == "Evicted for peak, after 1.5 h of 4 h declared; the promise is broken."
    assert whole[22] == "Accepted on n, at the cost of 3 spot instances."
    assert whole[25] == "Evicted because m was removed, after 1 h of 4 h declared; the promise is broken."


def test_what_the_engine_decides_can_be_explained(service: Service) -> None:
    """Real decisions tell the story too: a start whose room costs the two youngest, and not the oldest."""
    client, path = service.client, "/v1/clouds/real"
    assert client.post("/v1/clouds", json={"name": "real", "policy": {"guarantee": "none"}}).status_code == 201
    client.post(f"{path}/nodes", json={"name": "n", "cores": 3})
    for cores in (1, 2):
        client.post(f"{path}/flavors", json={"name": f"c{cores}", "cores": cores})
    for name in ("first", "second", "third"):
        body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 60}
        assert client.post(f"{path}/instances", json=body).json()["status"] == "accepted"
    client.post(f"{path}/instances", json={"id": "peak", "market": "on_demand", "flavor": "c2"})
    found = client.get(f"{path}/instances/second/explanation").json()
    assert [victim["id"] for victim in found["eviction"]["victims"]] == ["third", "second"]
    assert (found["eviction"]["rank"], found["promise"]["status"]) == (2, "none")
    assert client.get(f"{path}/instances/first/explanation").json()["eviction"] is None


@pytest.mark.anyio
async def test_a_long_log_costs_no_more(database_url: str) -> None:
    """No lookup reads more of a log that is longer: each goes by an index, or over a bounded range of seqs."""
    ordinary = [
        event
        for number in range(12_000)
        for event in (
            InstanceStarted(at_us=hours(50), instance_id=f"o{number}", market=OD, flavor="c1", node="n"),
            InstanceStopped(at_us=hours(50), instance_id=f"o{number}"),
        )
    ]
    cloud_id = await write(database_url, "long", [*LOG, *ordinary])
    database = Database(database_url)
    await database.execute("ANALYZE event")
    rows = [await buffers(database, cloud_id, sql) for sql in LOOKUPS]
    await database.close()
    assert max(rows) <= 40, rows


LOOKUPS = (
    "kind IN ('instance_rejected') AND seq < 99999 ORDER BY seq DESC LIMIT 10",
    "kind IN ('instance_evicted') AND seq < 99999 ORDER BY seq DESC LIMIT 10",
    "kind IN ('cloud_created', 'policy_changed') AND seq <= 24000 ORDER BY seq DESC LIMIT 1",
    "kind = 'flavor_added' AND data->>'flavor' = ANY('{c1,c3}')",
    "kind IN ('instance_started', 'instance_rejected') AND data->>'project' = 'none' AND seq > 0 ORDER BY seq LIMIT 9",
    "seq = ANY('{1,20000}'::bigint[])",
    "kind IN ('eviction_scheduled', 'eviction_confirmed', 'eviction_overdue', 'eviction_risk')"
    " AND instance_id = 'young' ORDER BY seq DESC LIMIT 20",
)


async def buffers(database: Database, cloud_id: int, condition: str) -> int:
    """Pages that PostgreSQL reads for the statement."""
    sql = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT seq, data FROM event WHERE cloud_id = {cloud_id} AND "
    ((plan,),) = await database.execute(sql + condition)
    return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]


@pytest.mark.anyio
async def test_a_page_of_what_is_rare_looks_back_so_far_and_no_further(database_url: str, service: Service) -> None:
    path, seen, pages = "/v1/clouds/long/decisions?outcome=accepted&market=spot", [], 0
    while path:
        page = service.client.get(path).json()
        pages += 1
        seen += page["decisions"]
        path = page["links"][0]["href"] if page["links"] else ""
    assert [one["id"] for one in seen] == ["unpromised", "removed", "left", "done", "young", "old", "over"]
    assert pages == 3


def test_what_runs_is_listed_from_the_state_in_start_order(service: Service) -> None:
    client, path = service.client, "/v1/clouds/runs"
    assert client.post("/v1/clouds", json={"name": "runs", "policy": {"guarantee": "none"}}).status_code == 201
    client.post(f"{path}/nodes", json={"name": "n", "cores": 40})
    client.post(f"{path}/flavors", json={"name": "c1", "cores": 1})
    for number in range(30):
        market = "spot" if number % 3 else "on_demand"
        body = {"id": f"i{number}", "market": market, "flavor": "c1", "lifetime_s": 60}
        assert client.post(f"{path}/instances", json=body).json()["status"] == "accepted"
    for number in range(0, 30, 2):
        assert client.delete(f"{path}/instances/i{number}").status_code == 204
    spot, href = [], f"{path}/instances?status=running&market=spot&limit=3&marker=i4"
    while href:
        page = client.get(href).json()
        spot += page["instances"]
        href = page["links"][0]["href"] if page["links"] else ""
    assert [one["id"] for one in spot] == [f"i{n}" for n in range(5, 30) if n % 3 and n % 2]
    assert {one["status"] for one in spot} == {"running"}
    assert spot[0] == client.get(f"{path}/instances/i5").json()
    everything = client.get(f"{path}/instances").json()["instances"]
    assert client.get(f"{path}/instances?status=running").json()["instances"] == [
        one for one in everything if one["status"] == "running"
    ]
    assert client.get(f"{path}/instances?status=running&marker=none").status_code == 400

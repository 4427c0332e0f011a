"""The history of utilisation: every bucket of every width against a plain integration of the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from fractions import Fraction
from random import Random
from time import sleep
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service
from servers import run_sql

from app.admission.batch import decide_batch
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    NodeRemoved,
    Recorded,
)
from app.domain.requests import StartRequest, StopRequest
from app.domain.times import SECOND_US
from app.domain.values import Clock, Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.utilisation.jobs import BucketFold, Rollup
from app.utilisation.rules import NODE_WIDTHS_S, WIDTHS_S
from app.utilisation.service import UtilisationHistory
from app.utilisation.store import UtilisationRows

BEGIN_US = 90_061 * SECOND_US
LONG_US = 40 * 86_400 * SECOND_US


def make_log(seed: int, steps: int) -> list[Recorded]:
    """A log of everything: bursts within a second, silences of days, a node that goes and comes back."""
    random, cloud = Random(seed), Cloud()
    policy = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL, clock_step_us=None)
    events = [
        CloudCreated(at_us=BEGIN_US, policy=policy),
        FlavorAdded(at_us=BEGIN_US, flavor="c1", demand=Resources(1)),
    ]
    events += [
        FlavorAdded(at_us=BEGIN_US, flavor="c3", demand=Resources(3)),
        *(NodeAdded(at_us=BEGIN_US, node=f"n{i}", capacity=Resources(4)) for i in "abc"),
    ]
    recorded = [cloud.apply(event) for event in events]
    at_us, running = BEGIN_US, []
    for number in range(steps):
        at_us += random.choice([0, 0, 1, 7_654_321, 61 * SECOND_US, 5_000 * SECOND_US, random.randrange(LONG_US // 20)])
        if number == steps // 2:
            gone = [name for name, one in cloud.running.items() if one.node == "nc"]
            stops = decide_batch(cloud, [StopRequest(name, at_us) for name in gone], {}, 0, None).recorded
            recorded += [
                *stops,
                cloud.apply(NodeRemoved(at_us=at_us, node="nc")),
                cloud.apply(NodeAdded(at_us=at_us, node="nc", capacity=Resources(2))),
            ]
        market = random.choice([*Market])
        step = StartRequest(f"i{number}", market, random.choice(["c1", "c3"]), 10**9, at_us=at_us)
        running.append(step.instance_id)
        steps_now: list[Any] = [step]
        if random.random() < 0.6:
            steps_now.append(StopRequest(running.pop(random.randrange(len(running))), at_us))
        past = {
            item.event.instance_id: item
            for item in recorded
            if isinstance(item.event, InstanceRejected | InstanceStarted)
        }
        recorded += decide_batch(cloud, steps_now, past, 0, None).recorded
    return recorded


class Naive:
    """The log's levels after every event, of the cloud or of one node, integrated the plain way."""

    def __init__(self, recorded: list[Recorded], node: str | None) -> None:
        cloud = Cloud()
        self.levels: list[tuple[int, int, int, int]] = []
        self.kinds: list[tuple[int, str]] = []
        for item in recorded:
            mine = node is None or self._node(cloud, item.event) == node
            cloud.apply(item.event)
            used = dict.fromkeys(Market, 0)
            for one in cloud.running.values():
                used[one.market] += cloud.flavors[one.flavor].resources.cores * (node in (None, one.node))
            total = sum(n.capacity.cores for n in cloud.nodes.values() if node in (None, n.name))
            self.levels.append((item.event.at_us, used[Market.ON_DEMAND], used[Market.SPOT], total))
            kind = self._kind(item.event)
            if mine and kind:
                self.kinds.append((item.event.at_us, kind))

    def _node(self, cloud: Cloud, event: Any) -> str | None:
        if isinstance(event, InstanceEvicted):
            return cloud.running[event.instance_id].node
        return getattr(event, "node", None)

    def _kind(self, event: Any) -> str | None:
        if isinstance(event, InstanceEvicted):
            return "evicted"
        if isinstance(event, InstanceStarted | InstanceRejected):
            return f"{event.market.value}_{'admitted' if isinstance(event, InstanceStarted) else 'rejected'}"
        return None

    def bucket(self, begin_us: int, end_us: int) -> tuple[list[Fraction], list[int], dict[str, int]]:
        """Means, peaks (on-demand, spot, both) and counts of a stretch that ends by the last event."""
        areas, peaks = [Fraction(0)] * 3, [0] * 3
        for (at_us, *level), later in zip(self.levels, [*self.levels[1:], (end_us, 0, 0, 0)], strict=True):
            length_us = max(0, min(end_us, later[0]) - max(begin_us, at_us))
            areas = [area + length_us * cores for area, cores in zip(areas, level, strict=True)]
            if length_us or begin_us <= at_us < end_us:
                peaks = [max(pair) for pair in zip(peaks, (level[0], level[1], level[0] + level[1]), strict=True)]
        kinds = [kind for at_us, kind in self.kinds if begin_us <= at_us < end_us]
        return [area / (end_us - begin_us) for area in areas], peaks, {kind: kinds.count(kind) for kind in kinds}


async def fill(database: Database, name: str, recorded: list[Recorded]) -> int:
    cloud_id = await Clouds(database).create(name, recorded[0])
    await EventLog(database).append(cloud_id, recorded[1:])
    return cloud_id


def keeper(database: Database, read_events: int) -> Rollup:
    return Rollup(UtilisationRows(database), read_events)


def reader(database: Database, now_us: int = 0) -> UtilisationHistory:
    return UtilisationHistory(Clouds(database), EventLog(database), UtilisationRows(database), lambda: now_us)


@pytest.mark.anyio
async def test_a_turn_takes_one_connection(database: Database, database_url: str) -> None:
    cloud_id = await fill(database, "narrow", make_log(4, 60))
    narrow = Database(database_url, timeout_s=2, pool_size=1)
    assert await keeper(narrow, 20).catch_up_cloud(cloud_id) == await EventLog(database).last_seq(cloud_id)
    await narrow.close()


@pytest.mark.anyio
@pytest.mark.parametrize(("seed", "read_events"), [(1, 7), (2, 61), (3, 5000)])
async def test_every_bucket_is_the_exact_integral(database: Database, seed: int, read_events: int) -> None:
    recorded = make_log(seed, 120)
    name = f"exact-{seed}"
    cloud_id = await fill(database, name, recorded)
    assert await keeper(database, read_events).catch_up_cloud(cloud_id) == len(recorded)
    end_us = recorded[-1].event.at_us
    for node in (None, "na", "nc"):
        naive = Naive(recorded, node)
        for width_s in WIDTHS_S if node is None else NODE_WIDTHS_S:
            width_us = width_s * SECOND_US
            begin_us = max(BEGIN_US, end_us - 60 * width_us)
            points = max(1, -(-(end_us - begin_us) // width_us))
            found = await reader(database).read(
                name, system_clock=False, begin_us=begin_us, end_us=end_us, points=points, node=node
            )
            assert found.width_us <= width_us
            check(found, naive, end_us)


def check(found: Any, naive: Naive, end_us: int) -> None:
    assert found.points
    for point in found.points:
        begin = max(BEGIN_US, point.at_us)
        # The last bucket ends at the last event, which is in it.
        _, peaks, counts = naive.bucket(begin, min(end_us, point.at_us + found.width_us) + (point is found.points[-1]))
        length = Fraction(min(end_us, point.at_us + found.width_us) - begin)
        if length:
            means, _, _ = naive.bucket(begin, min(end_us, point.at_us + found.width_us))
            got = [point.on_demand_mean, point.spot_mean, point.total_mean]
            assert got == pytest.approx([float(mean) for mean in means], rel=1e-12, abs=1e-12)
        assert [point.on_demand_peak, point.spot_peak, point.used_peak] == peaks
        for kind in ("on_demand_admitted", "on_demand_rejected", "spot_admitted", "spot_rejected", "evicted"):
            assert getattr(point, kind) == counts.get(kind, 0), kind


@pytest.mark.anyio
async def test_it_resumes_where_it_was_and_folds_nothing_twice(database: Database) -> None:
    recorded = make_log(9, 60)
    cloud_id = await fill(database, "resumed", recorded[:50])
    await keeper(database, 20).catch_up_cloud(cloud_id)
    assert await keeper(database, 20).catch_up_cloud(cloud_id) == 0
    async with UtilisationRows(database).turn(cloud_id) as held:
        assert held is not None
        assert await keeper(database, 20).catch_up_cloud(cloud_id) == 0, "another worker is at it"
    await EventLog(database).append(cloud_id, recorded[50:])
    behind = await reader(database).read("resumed", system_clock=False)
    assert (behind.seq, behind.log_seq) == (50, len(recorded))
    assert await keeper(database, 20).catch_up() == len(recorded) - 50
    found = await reader(database).read("resumed", system_clock=False, begin_us=0, points=1000)
    check(found, Naive(recorded, None), recorded[-1].event.at_us)


@pytest.mark.anyio
@pytest.mark.parametrize("was_restored", [False, True])
async def test_the_history_of_a_log_that_was_cut_off_is_that_of_the_log_that_there_is(
    database: Database, database_url: str, was_restored: bool
) -> None:
    """Even after it has grown again beyond its old end; where a restore ran no triggers, if it was seen before that."""
    recorded = make_log(9, 60)
    name = f"cut-{was_restored}"
    cloud_id = await fill(database, name, recorded)
    await keeper(database, 20).catch_up_cloud(cloud_id)
    how = "SET session_replication_role = replica; " if was_restored else ""
    await asyncio.to_thread(run_sql, database_url, f"{how}DELETE FROM event WHERE cloud_id = {cloud_id} AND seq > 40")
    if was_restored:
        await keeper(database, 20).catch_up()
    others = [Recorded(one.seq, replace(one.event, at_us=one.event.at_us + 7 * SECOND_US)) for one in recorded[40:]]
    await EventLog(database).append(cloud_id, others)
    await keeper(database, 20).catch_up()
    found = await reader(database).read(name, system_clock=False, begin_us=0, points=1000)
    assert (found.seq, found.log_seq) == (len(recorded), len(recorded))
    check(found, Naive(recorded[:40] + others, None), others[-1].event.at_us)


@pytest.mark.anyio
async def test_old_fine_buckets_go_and_what_is_read_stays_right(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = make_log(4, 150)
    monkeypatch.setattr("app.utilisation.jobs.KEPT", 50)
    monkeypatch.setattr("app.utilisation.jobs._PRUNED_EVERY", 1)
    monkeypatch.setattr("app.utilisation.service.KEPT", 50)
    cloud_id = await fill(database, "pruned", recorded)
    await keeper(database, 10).catch_up_cloud(cloud_id)
    rows = await database.execute(
        "SELECT width_s, count(*) AS kept FROM utilisation WHERE cloud_id = %(id)s AND node = '' GROUP BY 1",
        {"id": cloud_id},
    )
    assert {row.width_s for row in rows} == set(WIDTHS_S)
    assert all(row.kept <= 53 for row in rows)
    end_us = recorded[-1].event.at_us
    for length_us in (3600 * SECOND_US, 86_400 * SECOND_US, end_us - BEGIN_US):
        found = await reader(database).read("pruned", system_clock=False, begin_us=end_us - length_us, points=100)
        check(found, Naive(recorded, None), end_us)


@pytest.mark.anyio
async def test_on_the_systems_clock_the_level_stands_until_now(database: Database) -> None:
    recorded = make_log(5, 30)
    cloud_id = await fill(database, "standing", recorded)
    await keeper(database, 100).catch_up_cloud(cloud_id)
    now_us = recorded[-1].event.at_us + 10 * 86_400 * SECOND_US
    found = await reader(database, now_us).read("standing", system_clock=True, points=48)
    level = Naive(recorded, None).levels[-1]
    assert found.as_of_us == now_us
    assert {(p.on_demand_mean, p.spot_mean, p.total_mean) for p in found.points} == {tuple(map(float, level[1:]))}
    assert len(found.points) in (24, 25)
    assert found.points[-1].at_us < now_us


def test_over_http(service: Service, client: httpx2.Client) -> None:
    path = "/v1/clouds/told"
    assert client.post("/v1/clouds", json={"name": "told", "policy": {"guarantee": "none"}}).is_success
    assert client.get(f"{path}/utilisation").json()["points"] == []
    client.post(f"{path}/nodes", json={"name": "n", "cores": 8})
    client.post(f"{path}/flavors", json={"name": "c2", "cores": 2})
    client.post(f"{path}/instances", json={"id": "a", "market": "on_demand", "flavor": "c2"})
    service.roll_up()
    answer = client.get(f"{path}/utilisation", params={"node": "n", "points": 10}).json()
    assert (answer["seq"], answer["log_seq"]) == (4, 4)
    (point,) = answer["points"]
    assert (point["on_demand_peak"], point["on_demand_admitted"], point["spot_peak"]) == (2, 1, 0)
    assert client.get(f"{path}/utilisation", params={"points": 5000}).status_code == 400


def test_an_instance_that_was_observed_with_another_flavor(service: Service, client: httpx2.Client) -> None:
    """Its flavor is in no start that the roll-up reads with it."""
    path = "/v1/clouds/observed"
    assert client.post("/v1/clouds", json={"name": "observed", "policy": {"guarantee": "none"}}).is_success
    client.post(f"{path}/nodes", json={"name": "n", "cores": 8})
    for cores in (2, 5):
        client.post(f"{path}/flavors", json={"name": f"c{cores}", "cores": cores})
    client.post(f"{path}/instances", json={"id": "a", "market": "on_demand", "flavor": "c2"})
    service.roll_up()
    assert client.post(f"{path}/instances/a/observe", json={"node": "n", "flavor": "c5"}).json()["changed"]
    service.roll_up()
    answer = client.get(f"{path}/utilisation", params={"node": "n", "points": 10}).json()
    assert answer["seq"] == answer["log_seq"]
    assert max(point["on_demand_peak"] for point in answer["points"]) == 5


@pytest.mark.anyio
async def test_a_machine_that_is_too_slow_for_a_turn_takes_shorter_ones(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The database ends a transaction that rests for too long, and it was begun again as it had been."""
    recorded = make_log(6, 60)
    cloud_id = await fill(database, "slow", recorded)
    apply = BucketFold.apply

    def slowly(fold: BucketFold, event: Event) -> None:
        sleep(0.02)
        apply(fold, event)

    monkeypatch.setattr("app.platform.database.database._IDLE_IN_TRANSACTION_MS", 300)
    monkeypatch.setattr(BucketFold, "apply", slowly)
    hasty = Database(database_url)
    assert await keeper(hasty, 64).catch_up_cloud(cloud_id) == len(recorded)
    await hasty.close()
    assert "this service let a transaction rest for too long" in caplog.text
    found = await reader(database).read("slow", system_clock=False, begin_us=0, points=1000)
    check(found, Naive(recorded, None), recorded[-1].event.at_us)


def test_the_page_tells_up_to_when_the_history_is_shown(service: Service, client: httpx2.Client) -> None:
    path = "/v1/clouds/late"
    assert client.post("/v1/clouds", json={"name": "late", "policy": {"guarantee": "none"}}).is_success
    client.post(f"{path}/nodes", json={"name": "n", "cores": 8})
    service.roll_up()
    cookie = {"Cookie": f"tenure_token={TOKEN}"}
    assert "Shown up to" not in client.get("/ui/clouds/late", headers=cookie).text
    client.post(f"{path}/nodes", json={"name": "m", "cores": 8})
    text = client.get("/ui/clouds/late", headers=cookie).text
    assert "the history is 1 event behind, and a worker brings it up to date." in text
    assert "Shown up to <time" in text

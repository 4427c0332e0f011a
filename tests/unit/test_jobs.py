"""Jobs: all instances or none, as plain Python decides it; what is tried leaves no trace; snapshots hold them."""

from __future__ import annotations

from random import Random

import pytest
from oracles.engine import NaiveCluster, NaiveInstance, NaiveNode

from app.admission.decide import decide_start
from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    JobAdmitted,
    JobEnded,
    JobRequested,
    NodeAdded,
)
from app.domain.jobs import AwayEnd
from app.domain.requests import StartRequest
from app.domain.values import EvictionPolicy, Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.federation.rules.homeside import decide_cancel, decide_completed, decide_job
from app.scheduling.store.snapshots import decode_cloud, encode_cloud

HOUR = 3600 * 1_000_000
FLAVORS = {"c1": 1, "c2": 2, "c3": 3}


class TwoWorlds:
    """A cloud beside the same in plain Python."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.policy = self.random.choice([*EvictionPolicy])
        self.cloud, self.naive, self.now_us = Cloud(), NaiveCluster(), 0
        self.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE, eviction_policy=self.policy)))
        for number in range(self.random.randint(1, 4)):
            size = self.random.randint(1, 6)
            self.apply(NodeAdded(at_us=0, node=f"n{number}", capacity=Resources(size)))
            self.naive.nodes.append(NaiveNode(f"n{number}", (size,)))
        for name, cores in FLAVORS.items():
            self.apply(FlavorAdded(at_us=0, flavor=name, demand=Resources(cores)))

    def apply(self, *events: object) -> None:
        for event in events:
            self.cloud.apply(event)  # type: ignore[arg-type]
        self.cloud.commit()

    def fill(self, number: int) -> None:
        """Start an instance or a group in both."""
        self.now_us += 1
        flavor, is_spot = self.random.choice([*FLAVORS]), self.random.random() < 0.7
        count = self.random.randint(1, 2) if is_spot else 1
        market = Market.SPOT if is_spot else Market.ON_DEMAND
        asked = StartRequest(f"i{number}", market, flavor, HOUR if is_spot else None, count=count)
        self.apply(*decide_start(self.cloud, asked, self.now_us, None))
        one = self.instance(asked.instance_id, flavor, is_spot=is_spot, count=count)
        if is_spot:
            self.naive.start_spot(one)
        else:
            self.naive.start_on_demand(one, self.now_us, self.policy.value)

    def instance(self, name: str, flavor: str, *, is_spot: bool, count: int = 1) -> NaiveInstance:
        deadline_us = self.now_us + HOUR
        born = float(self.cloud.seq)
        return NaiveInstance(name, is_spot, (FLAVORS[flavor],), born, deadline_us, self.naive.nodes[0], count=count)

    def naively(self, asked: JobRequested) -> list[tuple[str, str, list[str]]] | None:
        """The node of each instance, and who goes for it; None if not all can start."""
        found = []
        for number in range(1, asked.count + 1):
            one = self.instance(f"{asked.job}.{number}", asked.flavor, is_spot=False)
            victims = self.naive.start_on_demand(one, asked.at_us, self.policy.value)
            if victims is None:
                return None
            found.append((one.name, one.node.name, victims))
        return found


def job(at_us: int, **more: object) -> JobRequested:
    return JobRequested(**({"at_us": at_us, "job": "j", "flavor": "c1", "count": 2, "lifetime_us": HOUR} | more))  # type: ignore[arg-type]


def test_all_instances_start_or_none_as_plain_python_says() -> None:
    admitted = evicting = 0
    for seed in range(400):
        worlds = TwoWorlds(seed)
        for number in range(worlds.random.randint(0, 8)):
            worlds.fill(number)
        asked = job(worlds.now_us, flavor=worlds.random.choice([*FLAVORS]), count=worlds.random.randint(1, 6))
        before = worlds.cloud.digest()
        events = decide_job(worlds.cloud, asked)
        assert worlds.cloud.digest() == before, "a decision leaves no trace"
        started = [event for event in events if isinstance(event, InstanceStarted)]
        evicted = [event.instance_id for event in events if isinstance(event, InstanceEvicted)]
        expected = worlds.naively(asked)
        if expected is None:
            assert events[1:] == [
                JobEnded(
                    at_us=asked.at_us, job="j", attempt=0, end=AwayEnd.REJECTED, is_last=True, reason="no_capacity"
                )
            ]
        else:
            assert [(one.instance_id, one.node, [*one.victims]) for one in started] == expected, seed
            assert evicted == [victim for *_, victims in expected for victim in victims]
            assert isinstance(events[1], JobAdmitted)
            admitted += 1
            evicting += bool(evicted)
        worlds.apply(*events)
        again = decode_cloud(encode_cloud(worlds.cloud))
        assert again is not None
        assert again.digest() == worlds.cloud.digest()
    assert (admitted > 100, evicting > 30, admitted < 350) == (True, True, True)


def with_job(count: int = 2) -> Cloud:
    cloud = Cloud()
    for event in (
        CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)),
        NodeAdded(at_us=0, node="n", capacity=Resources(4)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
    ):
        cloud.apply(event)
    for event in decide_job(cloud, job(1, count=count)):
        cloud.apply(event)
    cloud.commit()
    return cloud


def test_a_job_has_completed_when_nothing_of_it_runs() -> None:
    cloud = with_job()
    assert [*decide_completed(cloud, 5)] == []
    stop = decide_cancel(cloud, cloud.jobs.by_id["j"], 5)[1:3]
    before = cloud.digest()
    cloud.apply(stop[0])
    assert [*decide_completed(cloud, 5)] == []
    cloud.apply(stop[1])
    assert [event.end for event in decide_completed(cloud, 5)] == [AwayEnd.COMPLETED]  # type: ignore[union-attr]
    cloud.rollback()
    assert cloud.digest() == before


@pytest.mark.parametrize("in_one_run", [True, False])
def test_many_stops_together_end_a_job_like_one_by_one(in_one_run: bool) -> None:
    cloud = with_job(4)
    stops = [*decide_cancel(cloud, cloud.jobs.by_id["j"], 5)[1:5]]
    if in_one_run:
        cloud.apply_run(stops)  # type: ignore[arg-type]
    else:
        for stop in stops:
            cloud.apply(stop)
    assert (cloud.jobs.by_id["j"].left, len(decide_completed(cloud, 5))) == (0, 1)
    cloud.rollback()
    assert cloud.jobs.by_id["j"].left == 4


def test_a_cancelled_job_stops_and_has_ended() -> None:
    cloud = with_job()
    for event in decide_cancel(cloud, cloud.jobs.by_id["j"], 5):
        cloud.apply(event)
    found = cloud.jobs.by_id["j"]
    assert (found.away.end, found.left, [*cloud.running], [*cloud.jobs.open]) == (AwayEnd.CANCELLED, 0, [], [])
    assert [*decide_cancel(cloud, found, 6)] == []

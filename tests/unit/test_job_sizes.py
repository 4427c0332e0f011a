"""The memory that jobs take is bounded: ended ones leave the state first, and too many open ones are refused."""

from __future__ import annotations

import random

import pytest

from app.domain.errors import TooManyJobs
from app.domain.events import CloudCreated, Event, FlavorAdded, JobRequested, NodeAdded
from app.domain.jobs import DataObject, OutputObject
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.federation.rules.homeside import decide_cancel, decide_job
from app.scheduling.store.snapshots import decode_cloud, encode_cloud


def asked_of(name: str, at_us: int, flavor: str = "huge", objects: int = 5) -> JobRequested:
    inputs = tuple(DataObject(f"in/{number}", 1, "0" * 64) for number in range(objects))
    outputs = tuple(OutputObject(f"out/{number}", 1) for number in range(objects))
    return JobRequested(at_us=at_us, job=name, flavor=flavor, count=1, lifetime_us=9, inputs=inputs, outputs=outputs)


def small_cloud() -> Cloud:
    cloud = Cloud()
    for event in (
        CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)),
        NodeAdded(at_us=0, node="n", capacity=Resources(8)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
        FlavorAdded(at_us=0, flavor="huge", demand=Resources(9)),
    ):
        cloud.apply(event)
    cloud.commit()
    return cloud


def read_back(cloud: Cloud) -> Cloud:
    found = decode_cloud(encode_cloud(cloud))
    assert found is not None
    assert found.digest() == cloud.digest()
    return found


def in_order(cloud: Cloud) -> list[str]:
    return sorted(cloud.jobs.by_id, key=lambda name: (cloud.jobs.by_id[name].asked.at_us, name))


def test_jobs_that_ended_take_so_much_memory_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.cloud.jobs.MOST_ENDED", 260)
    rng, cloud, log = random.Random(3), small_cloud(), list[Event]()
    runs = asked_of("runs", 1, "c1")
    times = sorted(rng.randrange(2, 200) for _ in range(300))  # some at the same time
    for number, asked in enumerate([runs, *(asked_of(f"j{number}", at_us) for number, at_us in enumerate(times))]):
        before = cloud.digest()
        events = decide_job(cloud, asked)
        with cloud.tried():
            for event in events:
                cloud.apply(event)
        assert cloud.digest() == before, "what is tried leaves no trace"
        assert [*cloud.jobs.order.after(None)] == in_order(cloud)
        for event in events:
            cloud.apply(event)
        cloud.commit()
        log += events
        if number % 50 == 49:  # a state that is read back lets go of the same ones
            cloud = read_back(cloud)
    again = small_cloud()
    for event in log:
        again.apply(event)
    again.commit()
    assert again.digest() == cloud.digest() == read_back(cloud).digest()
    assert [*again.jobs.order.after(None)] == [*read_back(cloud).jobs.order.after(None)] == in_order(cloud)
    kept = sorted(int(name[1:]) for name in cloud.jobs.by_id if name != "runs")
    assert kept == [*range(300 - len(kept), 300)], "the newest"
    assert 10 < len(kept) <= 260 // 13 + 1
    assert "runs" in cloud.jobs.by_id, "what runs stays"


def test_jobs_that_have_not_ended_are_bounded_until_some_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.federation.rules.homeside.MOST_OPEN", 30)
    cloud = small_cloud()

    def enter(events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            cloud.apply(event)
        cloud.commit()

    for number in range(3):
        enter(decide_job(cloud, asked_of(f"j{number}", number + 1, "c1")))
    with pytest.raises(TooManyJobs, match="3 jobs have not ended"):
        decide_job(cloud, asked_of("j3", 4, "c1"))
    with pytest.raises(TooManyJobs):
        decide_job(read_back(cloud), asked_of("j3", 4, "c1"))
    enter(decide_cancel(cloud, cloud.jobs.by_id["j1"], 5))
    enter(decide_job(cloud, asked_of("j3", 6, "c1")))
    assert [*cloud.jobs.open] == ["j0", "j2", "j3"]

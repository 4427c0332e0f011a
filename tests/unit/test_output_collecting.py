"""Outputs of jobs at hosts: one that does not answer keeps no other one waiting; an odd answer loses its own alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    JobAwarded,
    JobEnded,
    JobOffered,
    JobOutputsLost,
    JobRequested,
)
from app.domain.jobs import AttemptKey, AwayEnd, Federate, OutputObject
from app.domain.times import SECOND_US
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import KEPT_US, Cloud
from app.federation.collecting import OutputCollector
from app.federation.rules.data import Direction, WantedObject, is_under
from app.federation.rules.peers import Peer
from app.federation.store import PeerStore, Transfers
from app.platform.outbound.asking import Asker, Inquiry, Reply

STORE = "https://objects.example"
READY = {"key": "result", "bytes": 1, "sha256": "0" * 64, "url": f"{STORE}/result?signed"}
WHERE = (1, "a")


def cloud_of(jobs: Mapping[str, str]) -> Cloud:
    """Return a cloud whose jobs have each completed at a host, and left an output there."""
    cloud, at_us = Cloud(), 10
    terms: dict[str, Any] = {"flavor": "c1", "count": 1, "lifetime_us": SECOND_US, "answer_us": 1, "hold_us": 1}
    events: list[Event] = [
        CloudCreated(at_us=at_us, policy=Policy(guarantee=Guarantee.NONE)),
        FlavorAdded(at_us=at_us, flavor="c1", demand=Resources(1)),
    ]
    for job, host in jobs.items():
        of: dict[str, Any] = {"at_us": at_us, "job": job}
        outputs = (OutputObject("result", 10),)
        events += [
            JobRequested(**of, **terms, federate=Federate.ONLY, peers=(host,), attempts=1, outputs=outputs),
            JobOffered(**of, attempt=1, peer=host),
            JobAwarded(**of, attempt=1, reclaim_us=10 * SECOND_US),
            JobEnded(**of, attempt=1, end=AwayEnd.COMPLETED, is_last=True),
        ]
    for event in events:
        cloud.apply(event)
    return cloud


class Hosts:
    """Peers that answer as they are told to, or never (None), and the list of what is to be pulled from them."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any] | None]) -> None:
        self._answers = answers
        self.asked = Counter[str]()
        self.entered: list[str] = []

    async def all(self) -> list[Peer]:
        now = datetime.now(UTC)
        return [
            Peer(name, f"https://{name}.example", name, "t", None, {}, now, None, None, now, STORE)
            for name in self._answers
        ]

    async def ask(self, inquiry: Inquiry) -> Reply:
        self.asked[inquiry.place] += 1
        answer = self._answers[inquiry.place]
        if answer is None:
            await asyncio.Event().wait()
        return Reply(200, answer or {})

    async def enter(self, _: int, __: Direction, key: AttemptKey, ___: Sequence[WantedObject]) -> None:
        self.entered.append(key.origin)


async def collected(hosts: Hosts, cloud: Cloud, rounds: int, now_us: int = 20) -> list[Event]:
    """Take so many turns at a time; return what was told."""
    told: list[Event] = []

    async def append(decide: Callable[[Cloud, int], Sequence[Event]]) -> int:
        told.extend(decide(cloud, now_us))
        return 1

    parts = cast("Transfers", hosts), cast("PeerStore", hosts), cast("Asker", hosts)
    collector = OutputCollector(*parts, lambda: now_us)
    for _ in range(rounds):
        await collector.collect(WHERE, cloud, [], append)
    await collector.end(WHERE[0])
    return told


def test_a_host_that_never_answers_keeps_no_other_one_waiting() -> None:
    jobs = {f"slow-{number}": "silent" for number in range(12)} | {"quick": "good"}
    hosts = Hosts({"silent": None, "good": {"state": "ready", "outputs": [READY]}})
    asyncio.run(asyncio.wait_for(collected(hosts, cloud_of(jobs), rounds=3), 5))
    assert hosts.entered == ["good"]
    assert hosts.asked["silent"] == 1, "it is asked for the next job once it has answered"


@pytest.mark.parametrize(
    "answer",
    [
        {"state": "lost", "reason": ["x"]},
        {"state": "lost", "reason": {}},
        {"state": "ready", "outputs": [READY | {"url": f"{STORE}/\x00"}]},
        {"state": "ready", "outputs": [READY | {"url": f"{STORE}/\ud800"}]},
        {"state": "ready", "outputs": [READY | {"bytes": 10**30}]},
        {"state": "ready", "outputs": [[READY]]},
        {"state": "ready"},
    ],
)
def test_an_odd_answer_loses_the_outputs_of_its_job_alone(answer: Mapping[str, Any]) -> None:
    hosts = Hosts({"odd": answer, "good": {"state": "ready", "outputs": [READY]}})
    told = asyncio.run(collected(hosts, cloud_of({"lost": "odd", "kept": "good"}), rounds=1))
    assert [one.job for one in told if isinstance(one, JobOutputsLost)] == ["lost"]
    assert hosts.entered == ["good"]


def test_outputs_that_a_host_keeps_no_more_are_lost_and_then_their_job_leaves_the_state() -> None:
    cloud, hosts = cloud_of({"j": "silent"}), Hosts({"silent": None})
    assert not asyncio.run(collected(hosts, cloud, rounds=1, now_us=KEPT_US + 9))
    later = JobRequested(at_us=KEPT_US + 20, job="k", flavor="c1", count=1, lifetime_us=1, federate=Federate.NEVER)
    cloud.apply(later)
    assert "j" in cloud.jobs.collecting, "it has not been told yet"
    told = asyncio.run(collected(hosts, cloud, rounds=1, now_us=KEPT_US + 30))
    assert [(one.job, one.reason) for one in told if isinstance(one, JobOutputsLost)] == [("j", "data_gone")]
    for event in told:
        cloud.apply(event)
    assert not cloud.jobs.collecting
    for name, at_us in (("l", 2 * KEPT_US + 30), ("m", 2 * KEPT_US + 31)):
        assert "j" in cloud.jobs.by_id
        cloud.apply(replace(later, job=name, at_us=at_us))
    assert "j" not in cloud.jobs.by_id


@pytest.mark.parametrize("end", ["\x00", "\n", " ", "\ud800", "é", "#part", "\x7f"])
def test_a_link_holds_nothing_but_printed_characters(end: str) -> None:
    assert is_under(f"{STORE}/object?signed=%2F&x=~!*'()", STORE)
    assert not is_under(f"{STORE}/object{end}", STORE)

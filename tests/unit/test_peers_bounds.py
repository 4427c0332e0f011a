"""Jobs of peers at a host found no promises without end, and fill no disk; and what is told of jobs is true."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.admission.limits import MOST_CLASSES
from app.domain.events import CloudCreated, Event, FlavorAdded, JobRequested, NodeAdded, Recorded
from app.domain.jobs import AttemptKey, DataFault, DataObject, Word
from app.domain.times import SECOND_US
from app.domain.values import Policy, Resources
from app.engine.cloud import Cloud
from app.engine.cloud.records import ClassCounts
from app.federation.lending import Lender
from app.federation.rules.foreignside import ForeignAsk, PeerQuota, decide_offer
from app.federation.rules.homeside import decide_job
from app.federation.submitting import JobBoard
from app.platform.outbound.pulling import Pull, Puller, PullFault
from app.platform.settings import Settings
from app.processes.run import worker_environment

KEY = AttemptKey("far", "job", 1)


def cloud_of(*events: Event) -> Cloud:
    cloud = Cloud()
    opening = CloudCreated(at_us=0, policy=Policy(eviction_probability=0.9))
    node, flavor = (
        NodeAdded(at_us=0, node="n", capacity=Resources(100)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
    )
    for event in (opening, node, flavor, *events):
        cloud.apply(event)
    cloud.commit()
    return cloud


def reason_of_offer(cloud: Cloud, probability: float) -> str | None:
    ask = ForeignAsk(KEY, "c1", 1, 60 * SECOND_US, probability, 30 * SECOND_US)
    (refused,) = decide_offer(cloud, ask, PeerQuota(), None, 0)
    return refused.reason  # type: ignore[union-attr,no-any-return]


def test_peers_leave_classes_to_the_users_of_the_cloud() -> None:
    cloud = cloud_of()
    for number in range(1, MOST_CLASSES // 2):
        cloud.classes[number / 1000] = ClassCounts(1)
    assert reason_of_offer(cloud, 0.5) != "out_of_bounds"
    cloud.classes[0.4] = ClassCounts(1)
    assert reason_of_offer(cloud, 0.5) == "out_of_bounds"
    assert reason_of_offer(cloud, 0.4) != "out_of_bounds", "a class that is there may be asked for"
    assert reason_of_offer(cloud, 0.9) != "out_of_bounds", "and so may that of the policy"


@pytest.mark.anyio
async def test_a_disk_keeps_what_is_left_to_others(tmp_path: Path) -> None:
    async with Puller(allow_private=True, bytes_per_s=0, reserve=1 << 60) as puller:
        with pytest.raises(PullFault) as refused:
            await puller.pull(Pull("http://127.0.0.1:1/object", tmp_path / "part", 1), lambda _: None)
    assert refused.value.fault is DataFault.SPOOL


def test_a_worker_beside_the_service_gets_its_folders(tmp_path: Path) -> None:
    environment, _ = worker_environment(Settings(data_dir=tmp_path), "postgresql://x")
    assert environment["TENURE_SPOOL_DIR"] == str(tmp_path / "spool")


@pytest.mark.anyio
async def test_the_inputs_of_a_job_that_finished_have_all_come() -> None:
    told: list[tuple[object, ...]] = []

    async def tell(*news: object) -> None:
        told.append(news)

    asked = SimpleNamespace(inputs=(DataObject("k", 40, "0" * 64),), job="job")
    record = cast("Any", SimpleNamespace(asked=asked, away=SimpleNamespace(peer="far", attempt=1)))
    lender = Lender(cast("Any", SimpleNamespace(tell=tell)), None, None)
    for word in (Word.STAGING, Word.FINISHED, Word.FINISHED):
        await lender.heard(1, record, word, {"staged_bytes": 0})
    assert [news[2:] for news in told] == [(40, 0, None), (40, 40, None)]


def test_a_job_that_has_just_begun_is_not_told_as_one_of_long_ago() -> None:
    """The log has it before this process has read so far, and events of starts are not among those of a job."""
    asked = JobRequested(at_us=0, job="job", flavor="c1", count=2, lifetime_us=60 * SECOND_US)
    before = cloud_of()
    events: Sequence[Event] = decide_job(before, asked)
    states = [before, cloud_of(*events)]

    async def state(_: str) -> Cloud:
        return states.pop(0)

    async def cloud_id(_: str) -> int:
        return 1

    async def of_job(*_: object) -> list[Recorded]:
        return [Recorded(seq, one) for seq, one in enumerate(events, 4) if getattr(one, "job", None) == "job"]

    scheduler, past = SimpleNamespace(state=state, cloud_id=cloud_id), SimpleNamespace(of_job=of_job)
    nothing: Any = None
    board = JobBoard(cast("Any", scheduler), nothing, cast("Any", past), nothing, nothing)
    shown = asyncio.run(board.show("c", "job"))
    assert (shown.left, shown.is_native) == (2, True)

"""Jobs as their users see them: submitted, shown, cancelled. Each change is decided in the line of its cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from app.domain.errors import (
    ClockExternal,
    DataUnavailable,
    IdNotOwn,
    JobConflict,
    JobNotFound,
    MarkerInvalid,
    PeerNotFound,
)
from app.domain.events import Event, JobRequested
from app.domain.jobs import Federate
from app.domain.paging import Page
from app.domain.requests import StartRequest
from app.domain.values import Clock
from app.engine.cloud import Cloud, JobRecord, Jobs
from app.federation.lending import Lender
from app.federation.rules.data import Transfer, stage_us
from app.federation.rules.homeside import decide_cancel, decide_job, is_same_job
from app.federation.store import JobLog, PeerStore, Transfers
from app.scheduling.scheduler import Scheduler

_TRIES_OF_EACH = 3
"""Attempts at each peer for a job that is offered again after it was preempted."""


class AwayTerms(NamedTuple):
    """The times of jobs at peers: how long room is held, how late a job is taken back, how long an answer may take.

    `link_bytes_per_s`: the slowest rate of links to peers that inputs are reckoned with.
    """

    hold_us: int
    margin_us: int
    answer_us: int
    link_bytes_per_s: int


class JobData(NamedTuple):
    """The data of jobs: what is on its way, and the lender of inputs."""

    transfers: Transfers
    lender: Lender


class JobBoard:
    """The jobs of all clouds."""

    def __init__(self, scheduler: Scheduler, peers: PeerStore, past: JobLog, terms: AwayTerms, data: JobData) -> None:
        self._scheduler, self._peers, self._past, self._terms, self._data = scheduler, peers, past, terms, data

    async def submit(
        self, cloud_name: str, asked: JobRequested, peers: Sequence[str] | None, at_us: int | None
    ) -> JobRecord:
        """Decide a job. The same job submitted again is shown as it is now. Raises JobConflict for another body.

        `peers`: whom it may be offered to; None: all that are not paused, by name. Raises PeerNotFound, and
        DataUnavailable if a peer could not get the inputs.
        """
        asked = await self._with_peers(asked, peers)
        past = await self._known(cloud_name, asked.job)  # the state may let go meanwhile what it holds now
        await self._check_data(cloud_name, asked, is_known=past is not None)
        found: list[JobRecord] = []

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            _check_own(cloud, asked.job, asked.owner, [one.key for one in asked.inputs])
            earlier = cloud.jobs.by_id.get(asked.job) or past
            if asked.federate is not Federate.NEVER:
                _check_clock(cloud)
            if earlier is None:
                decided = decide_job(cloud, replace(asked, at_us=now_us))
                found[:] = [_after(cloud, decided, asked.job)]
                return decided
            if not is_same_job(asked if peers else replace(asked, peers=earlier.asked.peers), earlier.asked):
                raise JobConflict(f"job {asked.job!r} was submitted before with another body")
            found[:] = [earlier]
            return []

        starts = tuple(f"{asked.job}.{number}" for number in range(1, asked.count + 1))
        await self._scheduler.change(cloud_name, decide, at_us, () if asked.federate is Federate.ONLY else starts)
        return found[0]

    async def check_away(self, cloud_name: str) -> None:
        """Raise ClockExternal for a cloud of which other clouds run no jobs."""
        _check_clock(await self._scheduler.state(cloud_name))

    async def ask_for(self, cloud_name: str, refused: StartRequest) -> str:
        """Submit a spot start that was rejected here as a job for peers only, and return its id, which is the same."""
        assert refused.lifetime_us is not None
        asked = JobRequested(
            at_us=0,
            job=refused.instance_id,
            flavor=refused.flavor,
            count=refused.count,
            lifetime_us=refused.lifetime_us,
            federate=Federate.ONLY,
            eviction_probability=refused.eviction_probability,
            owner=refused.owner,
        )
        return (await self.submit(cloud_name, asked, None, None)).asked.job

    async def _with_peers(self, asked: JobRequested, peers: Sequence[str] | None) -> JobRequested:
        known = {peer.name: peer for peer in await self._peers.all()} if asked.federate is not Federate.NEVER else {}
        unknown = [name for name in peers or () if asked.federate is not Federate.NEVER and name not in known]
        if unknown:
            raise PeerNotFound(f"there is no peer {unknown[0]!r}")
        free = [name for name, peer in known.items() if peer.paused_because is None]
        names = () if asked.federate is Federate.NEVER else tuple(peers or free)
        tries = _TRIES_OF_EACH if asked.on_preempted.again else 1
        terms = self._terms
        return replace(
            asked,
            peers=names,
            attempts=tries * len(names),
            hold_us=terms.hold_us,
            margin_us=terms.margin_us,
            answer_us=terms.answer_us,
            stage_us=stage_us(asked.inputs, terms.link_bytes_per_s),
        )

    async def _check_data(self, cloud_name: str, asked: JobRequested, *, is_known: bool) -> None:
        """Raise DataUnavailable if no peer could get the inputs of a new job."""
        has_data = bool(asked.inputs or asked.outputs) and asked.federate is not Federate.NEVER
        if not has_data or is_known or asked.job in (await self._scheduler.state(cloud_name)).jobs.by_id:
            return
        why_not = await self._data.lender.check(asked.inputs)
        if why_not is not None:
            raise DataUnavailable(why_not)

    async def moved(self, cloud_name: str, name: str) -> list[Transfer]:
        """Return the data of a job that is on its way to and from peers."""
        return await self._data.transfers.of_job(await self._scheduler.cloud_id(cloud_name), name)

    async def show(self, cloud_name: str, name: str) -> JobRecord:
        """Return a job, also one that has left the state. Raises JobNotFound."""
        found = await self._known(cloud_name, name)
        if found is None:
            raise _not_found(name)
        return found

    async def _known(self, cloud_name: str, name: str) -> JobRecord | None:
        """Return a job, also one that has left the state; None if there is none."""
        cloud = await self._scheduler.state(cloud_name)
        return cloud.jobs.by_id.get(name) or await self._past_one(cloud, cloud_name, name)

    async def _past_one(self, cloud: Cloud, cloud_name: str, name: str) -> JobRecord | None:
        """Return a job that is not in this state, as the log tells of it, or as it is now; None if there is none."""
        if name in cloud.jobs.by_id:
            return None
        events = await self._past.of_job(await self._scheduler.cloud_id(cloud_name), name)
        part = Jobs()
        folds = part.folds()
        for one in events:
            folds[type(one.event)](one.event)
        found = part.by_id.get(name)
        if found is None:
            return None
        # The log may tell of it because it has come since the state was read, not because it has left it.
        return (await self._scheduler.state(cloud_name)).jobs.by_id.get(name) or replace(found, left=0)

    async def page(self, cloud_name: str, marker: str | None, limit: int) -> Page[JobRecord]:
        """Return at most `limit` jobs in the order of their submission, without those that ended long ago.

        They follow the job named `marker`, also one that has left the state. Raises MarkerInvalid if there is none.
        """
        cloud = await self._scheduler.state(cloud_name)
        last = None if marker is None else cloud.jobs.by_id.get(marker)
        if marker is not None and last is None:
            last = await self._past_one(cloud, cloud_name, marker)
            if last is None:
                raise MarkerInvalid(f"{marker!r} is not in this list")
            cloud = await self._scheduler.state(cloud_name)
        names = [*islice(cloud.jobs.order.after(None if last is None else last.place), limit + 1)]
        return Page([cloud.jobs.by_id[one] for one in names[:limit]], names[limit - 1] if limit < len(names) else None)

    async def newest(self, cloud_name: str, most: int) -> tuple[list[JobRecord], int]:
        """Return the jobs that were submitted last, the newest first, and the number of all."""
        jobs = (await self._scheduler.state(cloud_name)).jobs
        return [jobs.by_id[one] for one in islice(jobs.order.newest(), most)], len(jobs.by_id)

    async def cancel(self, cloud_name: str, name: str, owner: str | None, at_us: int | None) -> None:
        """End a job, at once or, if a peer runs it, once the peer knows. Nothing happens if it has ended."""
        is_known = await self._known(cloud_name, name) is not None

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            _check_own(cloud, name, owner)
            if is_known and name not in cloud.jobs.by_id:
                return []  # it has ended: no other job leaves the state
            return decide_cancel(cloud, _found(cloud, name), now_us)

        await self._scheduler.change(cloud_name, decide, at_us)


def _found(cloud: Cloud, name: str) -> JobRecord:
    job = cloud.jobs.by_id.get(name)
    if job is None:
        raise _not_found(name)
    return job


def _after(cloud: Cloud, decided: Sequence[Event], name: str) -> JobRecord:
    """Return a job as the events that were decided leave it: to read the state again would be a turn of its own."""
    with cloud.tried():
        for event in decided:
            cloud.apply(event)
        return _found(cloud, name)


def _not_found(name: str) -> JobNotFound:
    return JobNotFound(f"there is no job {name!r}")


def _check_clock(cloud: Cloud) -> None:
    if cloud.policy.clock is Clock.EXTERNAL:
        raise ClockExternal("other clouds run no jobs of a cloud with an external clock")


def _check_own(cloud: Cloud, name: str, owner: str | None, keys: Sequence[str] = ()) -> None:
    if owner is None or cloud.policy.shared_ids:
        return
    if not name.startswith(f"{owner}."):
        raise IdNotOwn(f"ids are not shared in this cloud: yours begin with {owner!r} and a dot")
    if any(not key.startswith(f"{owner}/") for key in keys):
        raise IdNotOwn(f"ids are not shared in this cloud: keys of your objects begin with {owner!r} and a slash")

"""The origin's way to the outputs of jobs that ended at hosts: asked for, entered as pulls, and told as collected."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

from app.domain.events import Event, JobCollected, JobOutputsLost
from app.domain.jobs import AttemptKey, DataFault, DataObject
from app.engine.cloud import KEPT_US, Cloud, JobRecord
from app.federation.rules.data import Direction, Transfer, WantedObject, are_outputs, is_sha256, is_under, pause_s
from app.federation.rules.peers import Peer
from app.federation.store import PeerStore, Transfers
from app.platform.outbound.asking import Asker, Inquiry, Reply
from app.platform.outbound.connection import NoAnswer

logger = logging.getLogger(__name__)

_ASKED_AGAIN_S = 2.0
_MOST_NOTED = 10_000
"""With so many attempts noted, those that may be asked for again are left out."""
_TURN_S = 0.5
"""The time that a turn waits for the answers of hosts."""
_OK, _NO_CONTENT, _NOT_FOUND = 200, 204, 404
_FAULTS = frozenset(map(str, DataFault))

FetchStep = Callable[[], Coroutine[Any, Any, None]]
Append = Callable[[Callable[[Cloud, int], Sequence[Event]]], Coroutine[Any, Any, int]]


class OutputCollector:
    """Fetches outputs. A host that is slow to answer keeps no other one waiting, and is asked again after a rest.

    Outputs are lost seven days after the job has ended, when its host keeps them no more. `now_us`: the server's clock.
    """

    def __init__(self, transfers: Transfers, peers: PeerStore, asker: Asker, now_us: Callable[[], int]) -> None:
        self._transfers, self._peers, self._asker, self._now_us = transfers, peers, asker, now_us
        self._not_before: dict[tuple[int, AttemptKey], float] = {}
        self._silent: dict[str, tuple[int, float]] = {}
        self._talks: dict[tuple[int, str], asyncio.Task[None]] = {}

    async def collect(self, where: tuple[int, str], cloud: Cloud, rows: Sequence[Transfer], append: Append) -> int:
        """Do what is due for the outputs of a cloud's jobs; return how many jobs wait for theirs."""
        peers = {peer.name: peer for peer in await self._peers.all()}
        own: defaultdict[AttemptKey, list[Transfer]] = defaultdict(list)
        for one in rows:
            if one.direction == Direction.OUT:
                own[one.of].append(one)
        steps: defaultdict[str, list[FetchStep]] = defaultdict(list)
        for record in [cloud.jobs.by_id[name] for name in cloud.jobs.collecting]:
            key = _key(record)
            steps[key.origin].append(partial(self._fetch, where, record, peers.get(key.origin), own[key], append))
        for key in [key for key in own if key.job not in cloud.jobs.collecting]:
            names = [one.id for one in own[key]]
            steps[key.origin].append(partial(self._let_go, where[0], key, peers.get(key.origin), names))
        await self._take(where[0], steps)
        return len(cloud.jobs.collecting)

    async def end(self, cloud_id: int) -> None:
        """Break off what is under way for a cloud."""
        talks = [self._talks.pop(key) for key in [*self._talks] if key[0] == cloud_id]
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    async def _take(self, cloud_id: int, steps: Mapping[str, Sequence[FetchStep]]) -> None:
        """Begin the steps of each peer whose last ones are over, and wait for them for a moment."""
        for peer in steps:
            if (cloud_id, peer) not in self._talks:
                self._talks[cloud_id, peer] = asyncio.create_task(_in_order(steps[peer]))
        own = {key: talk for key, talk in self._talks.items() if key[0] == cloud_id}
        if own:
            await asyncio.wait(own.values(), timeout=_TURN_S)
        for key in [key for key, talk in own.items() if talk.done()]:
            self._talks.pop(key).result()

    async def _fetch(
        self, where: tuple[int, str], record: JobRecord, peer: Peer | None, rows: list[Transfer], append: Append
    ) -> None:
        """Take the next step with the outputs of a job."""
        failed = next((one.fault for one in rows if one.state == "failed"), None)
        is_kept = record.ended_us is not None and self._now_us() < record.ended_us + KEPT_US
        if rows and all(one.state == "stored" for one in rows):
            await append(_once(record, lambda at_us: _collected(record, rows, at_us)))
        elif peer is None or failed is not None or not is_kept:
            why = failed or (DataFault.GONE if peer else DataFault.NO_PEER)
            await append(_once(record, lambda at_us: _lost(record, why, at_us)))
        elif not rows or any(one.fault == DataFault.LINK for one in rows):
            await self._ask(where[0], record, peer, append)

    async def _ask(self, cloud_id: int, record: JobRecord, peer: Peer, append: Append) -> None:
        """Ask a host for outputs, and enter them to be pulled."""
        key = _key(record)
        reply = await self._asked(cloud_id, peer, key, "GET", "outputs")
        if reply is None:
            return
        state = reply.body.get("state")
        if reply.status == _NOT_FOUND or state == "lost":
            told = reply.body.get("reason")
            reason = told if isinstance(told, str) and told in _FAULTS else DataFault.GONE.value
            await append(_once(record, lambda at_us: _lost(record, reason, at_us)))
        elif reply.status == _OK and state == "ready":
            found = _outputs(reply.body, peer)
            if found is None or not are_outputs([one for one, _ in found], record.asked.outputs):
                await append(_once(record, lambda at_us: _lost(record, DataFault.INVALID, at_us)))
                return
            wanted = [WantedObject(one.key, one.bytes, one.sha256, url) for one, url in found]
            await self._transfers.enter(cloud_id, Direction.OUT, key, wanted)

    async def _let_go(self, cloud_id: int, key: AttemptKey, peer: Peer | None, names: list[int]) -> None:
        """Tell a host that its outputs are needed no more. What it has heard, or cannot hear, is forgotten."""
        reply = None if peer is None else await self._asked(cloud_id, peer, key, "PUT", "collected")
        if peer is None or (reply is not None and reply.status in {_OK, _NO_CONTENT, _NOT_FOUND}):
            await self._transfers.forget(names)

    async def _asked(self, cloud_id: int, peer: Peer, key: AttemptKey, method: str, what: str) -> Reply | None:
        """Return a host's answer; None if there is none, or if it was asked a moment ago."""
        failures, rests_until_s = self._silent.get(peer.name, (0, 0.0))
        if monotonic() < max(self._not_before.get((cloud_id, key), 0.0), rests_until_s):
            return None
        if len(self._not_before) >= _MOST_NOTED:
            self._not_before = {one: at_s for one, at_s in self._not_before.items() if at_s > monotonic()}
        self._not_before[cloud_id, key] = monotonic() + _ASKED_AGAIN_S
        url = f"{peer.url}/v1/clouds/{peer.cloud}/offers/{key.job}/{key.attempt}/{what}"
        try:
            reply = await self._asker.ask(Inquiry(peer.name, method, url, peer.secret))
        except NoAnswer as error:
            logger.warning("peer %s does not answer: %s", peer.name, error)
            self._silent[peer.name] = failures + 1, monotonic() + pause_s(failures)
            return None
        self._silent.pop(peer.name, None)
        return reply


async def _in_order(steps: Sequence[FetchStep]) -> None:
    for step in steps:
        await step()


def _once(record: JobRecord, tell: Callable[[int], Event]) -> Callable[[Cloud, int], Sequence[Event]]:
    """Return a decision that tells something of a job's outputs, if nothing was told before."""
    return lambda cloud, at_us: [tell(at_us)] if record.asked.job in cloud.jobs.collecting else []


def _key(record: JobRecord) -> AttemptKey:
    attempt = record.finished_attempt
    return AttemptKey(record.away.asked[attempt], record.asked.job, attempt)


def _outputs(body: Mapping[str, Any], peer: Peer) -> list[tuple[DataObject, str]] | None:
    """Return the outputs that an answer tells of, with their links; None if it is no such answer."""
    told = body.get("outputs")
    if not isinstance(told, list):
        return None
    found = []
    for one in told:
        if not isinstance(one, dict):
            return None
        key, size, sha256, url = (one.get(name) for name in ("key", "bytes", "sha256", "url"))
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            return None
        if not (isinstance(key, str) and isinstance(url, str) and is_sha256(sha256)):
            return None
        if not is_under(url, peer.objects_url):
            return None
        found.append((DataObject(key, size, str(sha256)), url))
    return found


def _collected(record: JobRecord, rows: list[Transfer], at_us: int) -> JobCollected:
    outputs = tuple(DataObject(one.key, one.bytes, one.sha256 or "") for one in sorted(rows, key=lambda one: one.key))
    return JobCollected(at_us=at_us, job=record.asked.job, attempt=record.finished_attempt, outputs=outputs)


def _lost(record: JobRecord, reason: str, at_us: int) -> JobOutputsLost:
    return JobOutputsLost(at_us=at_us, job=record.asked.job, attempt=record.finished_attempt, reason=str(reason))

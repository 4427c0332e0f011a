"""Clients of the service in two kinds: one that waits for answers, and one for asynchronous programs.

Both have the same methods, made from the same descriptions (`calls`). See docs/client.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

import httpx2

from tenure_client import (
    calls,
    cluster_calls,
    controller_calls,
    job_calls,
    peer_calls,
    plan_calls,
    venue_calls,
    webhook_calls,
)
from tenure_client.endpoints import Call, Listing
from tenure_client.exchange import (
    Again,
    Patience,
    broken,
    client_arguments,
    event_in,
    opened,
    read,
    request_arguments,
)
from tenure_client.forms.events import EventAnswer
from tenure_client.methods import Method

T = TypeVar("T")

RETRY_S = 30.0
TIMEOUT_S = 60.0
_PAUSE_S = 1.0
"""The pause between two streams of events, unless the service names one."""


class Methods:
    """The methods of both clients. `calls` describes their arguments and answers."""

    create_cloud = Method(calls.create_cloud)
    clouds = Method(calls.clouds)
    cloud = Method(calls.cloud)
    change_policy = Method(calls.change_policy)
    add_node = Method(calls.add_node)
    nodes = Method(calls.nodes)
    node = Method(calls.node)
    remove_node = Method(calls.remove_node)
    drain_node = Method(calls.drain_node)
    open_node = Method(calls.open_node)
    owners = Method(calls.owners)
    set_quota = Method(calls.set_quota)
    remove_quota = Method(calls.remove_quota)
    add_flavor = Method(calls.add_flavor)
    flavors = Method(calls.flavors)
    flavor = Method(calls.flavor)
    start = Method(calls.start)
    stop = Method(calls.stop)
    extend = Method(calls.extend)
    move = Method(controller_calls.move)
    observe_instance = Method(controller_calls.observe_instance)
    abort_instance = Method(controller_calls.abort_instance)
    resize_node = Method(controller_calls.resize_node)
    proposals = Method(controller_calls.proposals)
    extension_quote = Method(calls.extension_quote)
    checkpoint_advice = Method(controller_calls.checkpoint_advice)
    flavor_checkpoint_advice = Method(controller_calls.flavor_checkpoint_advice)
    batch = Method(calls.batch)
    drill = Method(calls.drill)
    drill_victim = Method(calls.drill_victim)
    handovers = Method(controller_calls.handovers)
    confirm_handover = Method(controller_calls.confirm_handover)
    create_webhook = Method(webhook_calls.create_webhook)
    webhooks = Method(webhook_calls.webhooks)
    webhook = Method(webhook_calls.webhook)
    delete_webhook = Method(webhook_calls.delete_webhook)
    pause_webhook = Method(webhook_calls.pause_webhook)
    resume_webhook = Method(webhook_calls.resume_webhook)
    test_webhook = Method(webhook_calls.test_webhook)
    dead_letters = Method(webhook_calls.dead_letters)
    replay_dead_letters = Method(webhook_calls.replay_dead_letters)
    instances = Method(calls.instances)
    instance = Method(calls.instance)
    explain = Method(calls.explain)
    decisions = Method(calls.decisions)
    quotes = Method(calls.quotes)
    curves = Method(calls.curves)
    request_table = Method(calls.request_table)
    tables = Method(calls.tables)
    newest_table = Method(calls.newest_table)
    table = Method(calls.table)
    runs = Method(calls.runs)
    run = Method(calls.run)
    reliability = Method(calls.reliability)
    sla = Method(calls.sla)
    utilisation = Method(calls.utilisation)
    events = Method(calls.events)
    create_token = Method(calls.create_token)
    tokens = Method(calls.tokens)
    token = Method(calls.token)
    revoke_token = Method(calls.revoke_token)
    versions = Method(calls.versions)
    health = Method(calls.health)
    readiness = Method(calls.readiness)
    add_peer = Method(peer_calls.add_peer)
    peers = Method(peer_calls.peers)
    peer = Method(peer_calls.peer)
    change_peer = Method(peer_calls.change_peer)
    pause_peer = Method(peer_calls.pause_peer)
    resume_peer = Method(peer_calls.resume_peer)
    test_peer = Method(peer_calls.test_peer)
    remove_peer = Method(peer_calls.remove_peer)
    standing = Method(peer_calls.standing)
    peer_metrics = Method(peer_calls.peer_metrics)
    submit_job = Method(job_calls.submit_job)
    jobs = Method(job_calls.jobs)
    job = Method(job_calls.job)
    attempts = Method(job_calls.attempts)
    cancel_job = Method(job_calls.cancel_job)
    venues = Method(venue_calls.venues)
    venue = Method(venue_calls.venue)
    remove_venue = Method(venue_calls.remove_venue)
    pools = Method(venue_calls.pools)
    pool_survival = Method(venue_calls.pool_survival)
    observe = Method(venue_calls.observe)
    venue_prices = Method(venue_calls.venue_prices)
    venue_checkpoint_advice = Method(venue_calls.venue_checkpoint_advice)
    venue_quotes = Method(venue_calls.venue_quotes)
    put_cluster = Method(cluster_calls.put_cluster)
    clusters = Method(cluster_calls.clusters)
    cluster = Method(cluster_calls.cluster)
    delete_cluster = Method(cluster_calls.delete_cluster)
    cluster_nodes = Method(cluster_calls.cluster_nodes)
    cluster_jobs = Method(cluster_calls.cluster_jobs)
    cluster_checkpoints = Method(cluster_calls.cluster_checkpoints)
    cluster_cost = Method(cluster_calls.cluster_cost)
    cluster_events = Method(cluster_calls.cluster_events)
    report_cluster_events = Method(cluster_calls.report_cluster_events)
    venue_reliability = Method(plan_calls.venue_reliability)
    peer_reliability = Method(plan_calls.peer_reliability)
    make_plan = Method(plan_calls.make_plan)
    plans = Method(plan_calls.plans)
    plan = Method(plan_calls.plan)
    next_move = Method(plan_calls.next_move)
    tell_outcome = Method(plan_calls.tell_outcome)
    process_metrics = Method(calls.process_metrics)
    cloud_metrics = Method(calls.cloud_metrics)
    cluster_metrics = Method(cluster_calls.cluster_metrics)


class TenureClient(Methods):
    """Connections to a service that threads may share.

    `retry_s` is how long a failed request is retried, if that is safe; `timeout_s` bounds each wait for the service in
    one attempt. Raises ArgumentInvalid if `url` is not a web address, `token` not ASCII, or a time limit none.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retry_s: float = RETRY_S,
        timeout_s: float = TIMEOUT_S,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._retry_s = retry_s
        self._http = httpx2.Client(**client_arguments(url, token, timeout_s, retry_s), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raise ClientError if there is none."""
        return self._retried(lambda: self._attempt(call))

    def every(self, listing: Listing[T]) -> Iterator[T]:
        """Yield all items of a list, fetching pages as they are needed."""
        call: Call[Any] | None = listing.first
        while call is not None:
            page = self.send(call)
            yield from listing.items(page)
            call = listing.after(page)

    def follow(self, cloud: str, *, after_seq: int = 0) -> Iterator[EventAnswer]:
        """Yield every event after a seq, once and in order, and each later one as it comes. It never ends by itself.

        A broken stream is reopened at the same event, with retries for `retry_s` each time. Raises Conflict
        (`preemptible.log.put_back`) if the log was put back to an earlier end.
        """
        call = calls.event_stream(cloud, after_seq=after_seq)
        while True:
            pause_s = _PAUSE_S
            with ExitStack() as stack:
                source = self._retried(partial(self._open, call, stack))
                with suppress(httpx2.TransportError):
                    for frame in source:
                        pause_s = pause_s if frame.retry is None else frame.retry / 1000
                        event = event_in(frame)
                        if event is not None:
                            call = replace(call, query={"after_seq": event.seq})
                            yield event
            time.sleep(pause_s)

    def _attempt(self, call: Call[T]) -> T:
        try:
            response = self._http.request(**request_arguments(call))
        except httpx2.RequestError as error:
            raise broken(call, error, self._http.base_url) from error
        return read(call, response)

    def _retried(self, attempt: Callable[[], T]) -> T:
        patience = Patience(self._retry_s)
        while True:
            try:
                return attempt()
            except Again as again:
                pause_s = patience.pause_s(again)
            time.sleep(pause_s)

    def _open(self, call: Call[str], stack: ExitStack) -> httpx2.EventSource:
        try:
            source = stack.enter_context(self._http.sse(call.path, params=call.query))
            if not source.response.is_success:
                source.response.read()
        except httpx2.RequestError as error:
            raise broken(call, error, self._http.base_url) from error
        return opened(call, source)


class AsyncTenureClient(Methods):
    """The counterpart of `TenureClient` for asynchronous programs."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retry_s: float = RETRY_S,
        timeout_s: float = TIMEOUT_S,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._retry_s = retry_s
        self._http = httpx2.AsyncClient(**client_arguments(url, token, timeout_s, retry_s), transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raise ClientError if there is none."""
        return await self._retried(lambda: self._attempt(call))

    async def every(self, listing: Listing[T]) -> AsyncIterator[T]:
        """Yield all items of a list, fetching pages as they are needed."""
        call: Call[Any] | None = listing.first
        while call is not None:
            page = await self.send(call)
            for item in listing.items(page):
                yield item
            call = listing.after(page)

    async def follow(self, cloud: str, *, after_seq: int = 0) -> AsyncIterator[EventAnswer]:
        """Yield every event after a seq, as `TenureClient.follow` does."""
        call = calls.event_stream(cloud, after_seq=after_seq)
        while True:
            pause_s = _PAUSE_S
            async with AsyncExitStack() as stack:
                source = await self._retried(partial(self._open, call, stack))
                with suppress(httpx2.TransportError):
                    async for frame in source:
                        pause_s = pause_s if frame.retry is None else frame.retry / 1000
                        event = event_in(frame)
                        if event is not None:
                            call = replace(call, query={"after_seq": event.seq})
                            yield event
            await asyncio.sleep(pause_s)

    async def _attempt(self, call: Call[T]) -> T:
        try:
            response = await self._http.request(**request_arguments(call))
        except httpx2.RequestError as error:
            raise broken(call, error, self._http.base_url) from error
        return read(call, response)

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        patience = Patience(self._retry_s)
        while True:
            try:
                return await attempt()
            except Again as again:
                pause_s = patience.pause_s(again)
            await asyncio.sleep(pause_s)

    async def _open(self, call: Call[str], stack: AsyncExitStack) -> httpx2.EventSource:
        try:
            source = await stack.enter_async_context(self._http.sse(call.path, params=call.query))
            if not source.response.is_success:
                await source.response.aread()
        except httpx2.RequestError as error:
            raise broken(call, error, self._http.base_url) from error
        return opened(call, source)

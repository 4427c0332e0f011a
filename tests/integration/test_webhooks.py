"""Webhooks: in order, victims first, at least once, signed; a receiver that fails gets everything in the end."""

from __future__ import annotations

import asyncio
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import httpx2
import pytest
import trustme
from api_service import Service, running_service
from receivers import Receiver, data_of
from servers import run_sql

from app.domain.errors import LogPutBack
from app.following.courier import Pace
from app.platform.clock import ServerClock
from app.platform.http.errors import PROBLEMS
from app.platform.outbound.messages import make_secret, trial_message
from app.platform.outbound.posting import Poster
from app.processes.outbound_wiring import poster
from app.processes.worker_wiring import open_worker
from app.scheduling.log_heads import HeadPauses

PACE = Pace(look_s=0.1, idle_s=0.2, standby_s=0.1)
"""Shorter pauses than a worker's own, so that little is waited for."""

_names = (f"hooked-{number}" for number in count())


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def service(database_url: str, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of an environment that trusts the authority."""
    trusted: Path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    changed = {"webhook_allow_private": True, "webhook_retry_s": 0.05, "webhook_attempts": 4, "webhook_timeout_s": 2}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", str(trusted))
        with running_service(database_url, **changed, webhook_limit=3) as service:
            yield service


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver
        assert receiver.wrong == []


@pytest.fixture
def cloud(client: httpx2.Client) -> str:
    """A cloud with one node of four cores and two flavors."""
    name = next(_names)
    path = f"/v1/clouds/{name}"
    client.post("/v1/clouds", json={"name": name, "policy": {"guarantee": "none"}}).raise_for_status()
    client.post(f"{path}/nodes", json={"name": "node-0", "cores": 4}).raise_for_status()
    for cores in (1, 4):
        client.post(f"{path}/flavors", json={"name": f"c{cores}", "cores": cores}).raise_for_status()
    return path


@contextmanager
def delivering(service: Service, *, workers: int = 1) -> Iterator[None]:
    """Workers that deliver, until the block ends."""
    loop = asyncio.new_event_loop()
    leaving = asyncio.Event()

    async def work() -> None:
        async with open_worker(service.settings, PACE, HeadPauses(look_s=0.2)) as parts:
            running = asyncio.create_task(parts.deliveries.run())
            await leaving.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def work_all() -> None:
        await asyncio.gather(*(work() for _ in range(workers)))

    thread = threading.Thread(target=lambda: loop.run_until_complete(work_all()))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(leaving.set)
        thread.join()
        loop.close()


def changed(service: Service, **settings: object) -> Service:
    """The service with other settings for its workers."""
    return replace(service, settings=service.settings.model_copy(update=settings))


def hook(client: httpx2.Client, cloud: str, receiver: Receiver, **more: object) -> str:
    """The path of a new webhook to the receiver."""
    answer = client.post(f"{cloud}/webhooks", json={"url": receiver.url, **more})
    assert answer.status_code == 201, answer.text
    receiver.secret = answer.json()["secret"]
    return str(answer.json()["links"][0]["href"])


def start(client: httpx2.Client, cloud: str, name: str, market: str = "spot", flavor: str = "c1") -> int:
    body = {"id": name, "market": market, "flavor": flavor, "lifetime_s": 60}
    answer = client.post(f"{cloud}/instances", json=body).json()
    assert answer["status"] == "accepted"
    return int(answer["seq"])


def evict(client: httpx2.Client, cloud: str) -> None:
    """Four spot instances, and an on-demand one that evicts them all."""
    for number in range(4):
        start(client, cloud, f"s{number}")
    start(client, cloud, "d0", "on_demand", "c4")


def log_of(client: httpx2.Client, cloud: str) -> list[dict[str, object]]:
    return client.get(f"{cloud}/events?limit=1000").json()["events"]


def test_events_arrive_in_order_as_signed_cloudevents(service, client, cloud, receiver) -> None:
    path = hook(client, cloud, receiver, after_seq=0)
    with delivering(service):
        evict(client, cloud)
        receiver.wait_for(lambda: len(receiver.taken) == client.get(cloud).json()["seq"])
    log = log_of(client, cloud)
    assert receiver.seqs()[-1] == log[-1]["seq"]
    (first,) = [one for one in receiver.taken if one.seq == 1]
    name = cloud.rsplit("/", 1)[-1]
    by_seq = {one.seq: data_of(one) for one in receiver.taken}
    assert [by_seq[event["seq"]] for event in log] == log, "the data is the paged list's"
    assert first.event.get_source() == f"/v1/clouds/{name}"
    assert (first.event.get_type(), first.event.get_id()) == ("tenure.cloud_created", "1")
    assert first.event.get_time() == datetime.fromisoformat(log[0]["at"])
    assert receiver.taken[-1].event.get_subject() == "d0"
    shown = client.get(path).json()
    assert (shown["delivered_count"], shown["last_error"], shown["dead_count"]) == (len(log), None, 0)
    assert "secret" not in shown
    assert receiver.secret not in client.get(f"{cloud}/webhooks").text


def test_victims_go_first_and_nothing_overtakes_them(service, client, cloud, receiver) -> None:
    """A backlog: the evictions at its end are told before its beginning, each lane in order of seq."""
    evict(client, cloud)
    hook(client, cloud, receiver, after_seq=0)
    with delivering(service):
        receiver.wait_for(lambda: len(receiver.taken) == len(log_of(client, cloud)))
    log = log_of(client, cloud)
    urgent = [event["seq"] for event in log if event["kind"] == "instance_evicted"]
    ordinary = [event["seq"] for event in log if event["kind"] != "instance_evicted"]
    assert len(urgent) == 4
    assert receiver.seqs() == urgent + ordinary


def test_an_ordinary_event_waits_for_the_victims_before_it(service, client, cloud, receiver) -> None:
    """The start that evicted is not told while the receiver has not taken its victims; what came before them is."""
    evict(client, cloud)
    log = log_of(client, cloud)
    kinds = {event["seq"]: event["kind"] for event in log}
    refused: list[str] = []

    def answer(name: str) -> int:
        refused.append(name)
        return 503 if len(refused) <= 2 else 204

    receiver.answer = answer
    hook(client, cloud, receiver, after_seq=0)
    with delivering(service):
        receiver.wait_for(lambda: len(receiver.taken) == len(log))
    order = receiver.seqs()
    for seq in order:
        if kinds[seq] != "instance_evicted":
            earlier = {s for s in kinds if s < seq and kinds[s] == "instance_evicted"}
            assert earlier <= set(order[: order.index(seq)])


def test_only_the_kinds_that_were_asked_for(service, client, cloud, receiver) -> None:
    evict(client, cloud)
    hook(client, cloud, receiver, after_seq=0, kinds=["instance_evicted", "flavor_added"])
    with delivering(service):
        receiver.wait_for(lambda: len(receiver.taken) == 6)
        start_count = len(receiver.tries)
        client.delete(f"{cloud}/instances/d0")
        start(client, cloud, "late")
        client.post(f"{cloud}/flavors", json={"name": "c2", "cores": 2})
        receiver.wait_for(lambda: len(receiver.taken) == 7)
    assert len(receiver.tries) == start_count + 1
    assert {one.event.get_type() for one in receiver.taken} == {"tenure.instance_evicted", "tenure.flavor_added"}


def test_from_now_on_is_the_default(service, client, cloud, receiver) -> None:
    before = client.get(cloud).json()["seq"]
    hook(client, cloud, receiver)
    with delivering(service):
        start(client, cloud, "first")
        receiver.wait_for(lambda: bool(receiver.taken))
    assert receiver.seqs() == [before + 1]


def test_a_receiver_that_fails_for_a_while_gets_everything_in_the_end(service, client, cloud, receiver) -> None:
    """Every event is refused twice or three times, in every way there is, before it is taken."""
    failures: dict[str, list[int]] = {}

    def answer(name: str) -> int:
        left = failures.setdefault(name, [[500, 503], [302, 429, 404], [401, 500]][len(failures) % 3][:])
        return left.pop() if left else 204

    receiver.answer = answer
    hook(client, cloud, receiver, after_seq=0)
    evict(client, cloud)
    with delivering(service):
        receiver.wait_for(lambda: len(receiver.seqs()) == len(log_of(client, cloud)), 60)
    assert sorted(receiver.seqs()) == [event["seq"] for event in log_of(client, cloud)]
    ids = {}
    for one in receiver.taken:
        assert ids.setdefault(one.webhook_id, one.seq) == one.seq, "an id is of one event"
    tried = [name for name, _ in receiver.tries]
    assert len(tried) > len(set(tried)), "it was tried again, under the same id"
    assert set(tried) == set(ids)


def test_what_is_never_taken_is_a_dead_letter_and_can_be_replayed(service, client, cloud, receiver) -> None:
    poisoned = client.get(cloud).json()["seq"] + 1
    healthy: list[bool] = []
    receiver.answer = lambda name: 500 if name.endswith(f"_{poisoned}") and not healthy else 204
    path = hook(client, cloud, receiver)
    with delivering(service):
        start(client, cloud, "poison")
        later = start(client, cloud, "later")
        receiver.wait_for(lambda: receiver.seqs() == [later])
        assert client.get(path).json()["dead_count"] == 1
        (letter,) = client.get(f"{path}/dead").json()["dead"]
        assert (letter["seq"], letter["kind"], letter["attempts"]) == (poisoned, "instance_started", 4)
        assert letter["error"] == "answered 500"
        assert client.post(f"{path}/replay", json={"seqs": [poisoned]}).json() == {"asked": 1}
        receiver.wait_for(lambda: client.get(f"{path}/dead").json()["dead"][0]["attempts"] == 5)
        healthy.append(True)
        assert client.post(f"{path}/replay", json={}).json() == {"asked": 1}
        receiver.wait_for(lambda: receiver.seqs() == [later, poisoned])
        receiver.wait_for(lambda: client.get(path).json()["dead_count"] == 0)
    assert len({name for name, _ in receiver.tries if name.endswith(f"_{poisoned}")}) == 1


def test_replays_keep_no_victim_waiting(service, client, cloud, receiver) -> None:
    """Evictions that come while dead letters are replayed go before the next of these."""
    dead: list[int] = []
    receiver.answer = lambda _: 500
    path = hook(client, cloud, receiver, kinds=["flavor_added", "instance_evicted"])

    def evict_meanwhile(_: str) -> int:
        if len(receiver.tries) == tried:
            evict(client, cloud)
            time.sleep(0.5)
        return 204

    with delivering(changed(service, webhook_timeout_s=20)):
        for cores in (2, 3, 5):
            client.post(f"{cloud}/flavors", json={"name": f"c{cores}", "cores": cores}).raise_for_status()
            dead.append(client.get(cloud).json()["seq"])
        receiver.wait_for(lambda: client.get(path).json()["dead_count"] == len(dead))
        tried = len(receiver.tries)
        receiver.answer = evict_meanwhile
        client.post(f"{path}/replay", json={}).raise_for_status()
        receiver.wait_for(lambda: client.get(path).json()["dead_count"] == 0)
    victims = [event["seq"] for event in log_of(client, cloud) if event["kind"] == "instance_evicted"]
    assert len(victims) == 4
    assert receiver.seqs() == [dead[0], *victims, *dead[1:]]
    assert receiver.taken[-1].at - receiver.taken[-2].at < 1, "the next replay waits for nothing else"


def put_back(service, cloud, last_seq: int, *more: str) -> None:
    """Put the cloud's log back to an earlier end, as a restored database has it; `more` concerns its webhook."""
    name = cloud.rsplit("/", 1)[-1]
    which = f"cloud_id = (SELECT id FROM cloud WHERE name = '{name}')"
    changes = ["SET session_replication_role = replica"]  # a restore runs no triggers
    changes += [f"DELETE FROM event WHERE {which} AND seq > {last_seq}"]
    changes += [f"UPDATE webhook SET {one} WHERE {which}" for one in more]
    run_sql(service.settings.database_url, "; ".join(changes))


def paused_because(client, path) -> str:
    return client.get(path).json()["paused_because"] or ""


def test_a_webhook_whose_place_is_after_the_end_of_the_log_is_paused_and_says_so(
    service, client, cloud, receiver
) -> None:
    evict(client, cloud)
    end = client.get(cloud).json()["seq"]
    path = hook(client, cloud, receiver)
    put_back(service, cloud, end - 3)
    with delivering(service):
        receiver.wait_for(lambda: client.get(path).json()["status"] == "paused")
        assert paused_because(client, path).startswith(f"{PROBLEMS[LogPutBack].code}: its place is event {end} ")
        resumed = client.post(f"{path}/resume").json()
        assert (resumed["status"], resumed["urgent"]["seq"], resumed["ordinary"]["seq"]) == ("active", end - 3, end - 3)
        client.post(f"{cloud}/flavors", json={"name": "c2", "cores": 2}).raise_for_status()
        receiver.wait_for(lambda: receiver.seqs() == [end - 2])


@pytest.mark.parametrize("grows", [0, 8])
def test_a_webhook_whose_receiver_is_ahead_of_the_log_is_paused_and_says_so(
    service, client, cloud, receiver, grows
) -> None:
    """However far the log has grown again: the receiver would take the new events for those that it has."""
    path = hook(client, cloud, receiver, after_seq=0)
    with delivering(service):
        evict(client, cloud)
        end = client.get(cloud).json()["seq"]
        receiver.wait_for(lambda: len(receiver.taken) == end)
        put_back(service, cloud, 4, "urgent_seq = 4, ordinary_seq = 4")
        for number in range(grows):
            client.post(f"{cloud}/flavors", json={"name": f"new-{number}", "cores": 1}).raise_for_status()
        receiver.wait_for(lambda: client.get(path).json()["status"] == "paused")
        assert f"{PROBLEMS[LogPutBack].code}: the receiver has taken event {end} " in paused_because(client, path)
        assert len(receiver.taken) == end
        client.post(f"{path}/resume").raise_for_status()
        client.post(f"{cloud}/flavors", json={"name": "last", "cores": 1}).raise_for_status()
        # By the messages' ids, of which this receiver has those of the lost events already.
        expected = [*range(5, client.get(cloud).json()["seq"] + 1)]
        receiver.wait_for(lambda: [int(name.rsplit("_", 1)[1]) for name, _ in receiver.tries[end:]] == expected)


def test_a_new_webhook_has_nothing_of_a_lost_one_of_the_same_number(service, client, cloud, receiver) -> None:
    """The backup that was put back did not hold the first one; nobody paused or deleted it."""
    path = hook(client, cloud, receiver, after_seq=0)
    with delivering(service), Receiver() as other:
        evict(client, cloud)
        end = client.get(cloud).json()["seq"]
        receiver.wait_for(lambda: len(receiver.taken) == end)
        other.secret = receiver.secret
        put_back(service, cloud, 4, f"url = '{other.url}', created_at = now(), urgent_seq = 0, ordinary_seq = 0")
        other.wait_for(lambda: other.seqs() == [1, 2, 3, 4])
        assert client.get(path).json()["status"] == "active"
        assert len(receiver.taken) == end


def test_a_new_webhook_of_another_cloud_may_have_the_number_of_a_lost_one(service, client, cloud, receiver) -> None:
    path = hook(client, cloud, receiver, after_seq=0)
    number = int(path.rsplit("/", 1)[1])
    client.post("/v1/clouds", json={"name": f"{cloud.rsplit('/', 1)[1]}-b"}).raise_for_status()
    with delivering(service), Receiver() as other:
        evict(client, cloud)
        receiver.wait_for(lambda: len(receiver.taken) == client.get(cloud).json()["seq"])
        for lost in ("ALTER TABLE webhook ALTER COLUMN id RESTART WITH", "DELETE FROM webhook WHERE id ="):
            run_sql(service.settings.database_url, f"{lost} {number}")  # each by itself: the worker uses both tables
        time.sleep(1)  # the worker has seen that it is gone
        path = hook(client, f"{cloud}-b", other, after_seq=0)
        assert path.endswith(f"/{number}")
        other.wait_for(lambda: other.seqs() == [1])
        assert client.get(path).json()["status"] == "active"


def cut(service, cloud, last_seq: int) -> None:
    """Cut the log off, as docs/operations.md has it for a log with a gap."""
    name = cloud.rsplit("/", 1)[-1]
    which = f"cloud_id = (SELECT id FROM cloud WHERE name = '{name}')"
    run_sql(service.settings.database_url, f"DELETE FROM event WHERE {which} AND seq > {last_seq}")


def grow(client, cloud, count: int) -> None:
    for _ in range(count):
        client.post(f"{cloud}/flavors", json={"name": f"f-{time.monotonic_ns()}", "cores": 1}).raise_for_status()


@pytest.mark.parametrize("grows", [1, 20])
def test_after_a_log_was_cut_off_every_event_since_then_is_sent(service, client, cloud, receiver, grows) -> None:
    """However far it has grown by the time that the webhook is resumed, and however few it had before."""
    path = hook(client, cloud, receiver, after_seq=0)
    with delivering(service):
        grow(client, cloud, 9)
        end = client.get(cloud).json()["seq"]
        receiver.wait_for(lambda: client.get(path).json()["ordinary"]["seq"] == end)
        cut(service, cloud, end - 6)
        grow(client, cloud, grows)
        receiver.wait_for(lambda: client.get(path).json()["status"] == "paused")
        assert paused_because(client, path).startswith(f"{PROBLEMS[LogPutBack].code}: the log was cut off after event ")
        time.sleep(2)
        client.post(f"{path}/resume").raise_for_status()
        expected = [*range(end - 5, client.get(cloud).json()["seq"] + 1)]
        receiver.wait_for(lambda: [int(name.rsplit("_", 1)[1]) for name, _ in receiver.tries[end:]] == expected)
        assert client.get(path).json()["status"] == "active"


def test_a_webhook_that_has_none_of_the_events_that_were_cut_off_goes_on(service, client, cloud, receiver) -> None:
    path = hook(client, cloud, receiver, after_seq=0)
    end = client.get(cloud).json()["seq"]
    with delivering(service):
        receiver.wait_for(lambda: client.get(path).json()["ordinary"]["seq"] == end)
    grow(client, cloud, 5)
    cut(service, cloud, end)
    grow(client, cloud, 2)
    with delivering(service):
        receiver.wait_for(lambda: receiver.seqs() == [*range(1, end + 3)])
    assert client.get(path).json()["status"] == "active"


def test_what_was_read_before_a_cut_does_not_move_the_place(service, client, cloud, receiver) -> None:
    """An event is under way while it is cut off, and another one has its seq when the receiver takes it."""
    path = hook(client, cloud, receiver)
    end = client.get(cloud).json()["seq"]

    def cut_meanwhile(*_: object) -> int:
        receiver.answer = lambda *_: 204
        cut(service, cloud, end)
        grow(client, cloud, 3)
        return 204

    receiver.answer = cut_meanwhile
    with delivering(service):
        grow(client, cloud, 1)
        receiver.wait_for(lambda: client.get(path).json()["status"] == "paused")
        assert client.get(path).json()["ordinary"]["seq"] == end
        time.sleep(2)
        client.post(f"{path}/resume").raise_for_status()
        receiver.wait_for(lambda: len(receiver.tries) == 4)
        assert [int(name.rsplit("_", 1)[1]) for name, _ in receiver.tries] == [end + 1, end + 1, end + 2, end + 3]


def test_an_idle_webhook_of_a_log_that_was_put_back_misses_nothing(service, client, cloud, receiver) -> None:
    """It had searched the lost events in vain, and others have their seqs now."""
    hook(client, cloud, receiver, after_seq=0, kinds=["node_added", "instance_evicted"])
    with delivering(service):
        receiver.wait_for(lambda: len(receiver.taken) == 1)
        for number in range(5):
            client.post(f"{cloud}/flavors", json={"name": f"lost-{number}", "cores": 1}).raise_for_status()
        time.sleep(1)  # it has searched them
        put_back(service, cloud, 4)
        client.post(f"{cloud}/nodes", json={"name": "node-1", "cores": 1}).raise_for_status()
        receiver.wait_for(lambda: receiver.seqs() == [2, 5])


def test_paused_it_keeps_its_place_and_resumed_it_goes_on(service, client, cloud, receiver) -> None:
    path = hook(client, cloud, receiver)
    with delivering(service):
        first = start(client, cloud, "a")
        receiver.wait_for(lambda: receiver.seqs() == [first])
        paused = client.post(f"{path}/pause").json()
        assert (paused["status"], paused["paused_because"]) == ("paused", "paused by its owner")
        asyncio.run(asyncio.sleep(1.2))
        tried = len(receiver.tries)
        second = start(client, cloud, "b")
        asyncio.run(asyncio.sleep(0.5))
        assert len(receiver.tries) == tried
        assert client.post(f"{path}/resume").json()["status"] == "active"
        receiver.wait_for(lambda: receiver.seqs() == [first, second])
        assert client.delete(path).status_code == 204
        asyncio.run(asyncio.sleep(1.2))
        start(client, cloud, "c")
        asyncio.run(asyncio.sleep(0.5))
    assert receiver.seqs() == [first, second]
    assert client.get(path).status_code == 404


def pause_and_resume(client: httpx2.Client, path: str) -> None:
    """Within a moment, which no look at the webhooks sees."""
    for change in ("pause", "resume"):
        client.post(f"{path}/{change}").raise_for_status()


def test_resumed_it_is_tried_at_once_however_short_the_pause(service, client, cloud, receiver) -> None:
    """Though the next try was an hour away."""
    receiver.answer = lambda _: 503 if len(receiver.tries) == 0 else 204
    path = hook(client, cloud, receiver)
    with delivering(changed(service, webhook_retry_s=3600)):
        first = start(client, cloud, "a")
        receiver.wait_for(lambda: client.get(path).json()["ordinary"]["attempts"] == 1)
        pause_and_resume(client, path)
        receiver.wait_for(lambda: receiver.seqs() == [first], 10)
    assert len(receiver.tries) == 2


def test_a_try_under_way_does_not_undo_that_it_was_resumed(service, client, cloud, receiver, database_url) -> None:
    """It fails after the webhook was resumed: the next one counts as the second and comes at once."""

    def answer(_: str) -> int:
        if receiver.tries:
            return 204
        pause_and_resume(client, path)
        return 503

    receiver.answer = answer
    path = hook(client, cloud, receiver)
    first = start(client, cloud, "a")
    run_sql(database_url, f"UPDATE webhook SET ordinary_attempts = 2 WHERE id = {path.rsplit('/', 1)[-1]}")
    with delivering(changed(service, webhook_retry_s=3600, webhook_timeout_s=20)):
        receiver.wait_for(lambda: receiver.seqs() == [first], 10)


def test_tries_are_kept_when_much_of_the_log_was_of_no_interest(service, client, cloud, receiver) -> None:
    """The place in the log is kept now and then, but the tries of the event after it count on."""
    receiver.answer = lambda _: 503
    path = hook(client, cloud, receiver, kinds=["flavor_added"])
    for number in range(2):
        steps = [
            {kind: {"id": f"i{number}-{n}", **(body if kind == "start" else {})}}
            for n in range(300)
            for body in [{"market": "on_demand", "flavor": "c1"}]
            for kind in ("start", "stop")
        ]
        client.post(f"{cloud}/batch", json={"operations": steps}).raise_for_status()
    client.post(f"{cloud}/flavors", json={"name": "c2", "cores": 2}).raise_for_status()
    with delivering(changed(service, webhook_retry_s=3600)):
        receiver.wait_for(lambda: client.get(path).json()["ordinary"]["attempts"] == 1)
        time.sleep(3)
        assert client.get(path).json()["ordinary"]["attempts"] == 1
    assert len(receiver.tries) == 1


_REFUSE = """
CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER refuse_writes BEFORE INSERT OR UPDATE OR DELETE ON webhook FOR EACH STATEMENT
EXECUTE FUNCTION refuse_writes();
CREATE TRIGGER refuse_writes BEFORE INSERT OR UPDATE OR DELETE ON webhook_dead FOR EACH STATEMENT
EXECUTE FUNCTION refuse_writes()
"""
_CUT_OFF = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@contextmanager
def nothing_noted(database_url: str, *, at_once: bool = True) -> Iterator[None]:
    """The database takes no notes of deliveries, or will not soon, until the block ends."""
    if at_once:
        run_sql(database_url, _REFUSE)
    try:
        yield
    finally:
        run_sql(database_url, "DROP FUNCTION IF EXISTS refuse_writes CASCADE")


@pytest.mark.parametrize("answer", [204, 410, 422, 503])
def test_while_the_database_takes_no_writes_a_receiver_gets_an_event_once(
    service, client, cloud, receiver, database_url, caplog, answer
) -> None:
    path = hook(client, cloud, receiver)
    receiver.answer = lambda _: answer
    caplog.set_level("WARNING")
    with delivering(changed(service, webhook_retry_s=0.01, webhook_attempts=1)):
        with nothing_noted(database_url):
            first = start(client, cloud, "a")
            receiver.wait_for(lambda: bool(receiver.tries))
            time.sleep(4)
            assert len(receiver.tries) == 1
        receiver.answer = lambda _: 204
        settled = {204: ("active", 1, 0), 410: ("paused", 0, 0)}.get(answer, ("active", 0, 1))
        receiver.wait_for(lambda: state_of(client, path) == settled, 15)
        if answer != 410:
            second = start(client, cloud, "b")
            receiver.wait_for(lambda: receiver.seqs()[-1:] == [second])
            assert client.get(path).json()["ordinary"]["seq"] >= first
    told = [record for record in caplog.records if "waits for the database" in record.getMessage()]
    assert 0 < len(told) < 8
    assert not [record for record in caplog.records if record.exc_info]


def state_of(client: httpx2.Client, path: str) -> tuple[object, ...]:
    found = client.get(path).json()
    return found["status"], found["delivered_count"], found["dead_count"]


def test_what_was_taken_is_remembered_when_the_lock_is_lost_too(service, client, cloud, receiver, database_url) -> None:
    path = hook(client, cloud, receiver)
    with delivering(service):
        with nothing_noted(database_url):
            first = start(client, cloud, "a")
            receiver.wait_for(lambda: receiver.seqs() == [first])
            for _ in range(3):
                run_sql(database_url, _CUT_OFF)
                time.sleep(1.5)
        receiver.wait_for(lambda: state_of(client, path) == ("active", 1, 0), 15)
        second = start(client, cloud, "b")
        receiver.wait_for(lambda: len(receiver.tries) == 2)
    assert [one.seq for one in receiver.taken] == [first, second]


def test_a_replay_whose_outcome_is_not_noted_is_made_once(service, client, cloud, receiver, database_url) -> None:
    receiver.answer = lambda _: 400
    path = hook(client, cloud, receiver)
    with delivering(changed(service, webhook_attempts=1)):
        start(client, cloud, "a")
        receiver.wait_for(lambda: client.get(path).json()["dead_count"] == 1)

        def refuse_meanwhile(_: str) -> int:
            run_sql(database_url, _REFUSE)
            receiver.answer = lambda _: 204
            return 204

        receiver.answer = refuse_meanwhile
        with nothing_noted(database_url, at_once=False):
            client.post(f"{path}/replay", json={}).raise_for_status()
            receiver.wait_for(lambda: len(receiver.tries) == 2)
            time.sleep(4)
            assert len(receiver.tries) == 2
        receiver.wait_for(lambda: state_of(client, path) == ("active", 1, 0), 15)


def test_a_receiver_that_is_gone_is_left_alone(service, client, cloud, receiver) -> None:
    receiver.answer = lambda _: 410
    path = hook(client, cloud, receiver, after_seq=0)
    with delivering(service):
        receiver.wait_for(lambda: client.get(path).json()["status"] == "paused")
    assert "410" in client.get(path).json()["paused_because"]
    assert len(receiver.tries) == 1


def test_one_of_several_workers_delivers(service, client, cloud, receiver) -> None:
    hook(client, cloud, receiver, after_seq=0)
    with delivering(service, workers=3):
        evict(client, cloud)
        receiver.wait_for(lambda: len(receiver.seqs()) == len(log_of(client, cloud)))
    assert len(receiver.tries) == len(receiver.taken) == len(log_of(client, cloud)), "and none of them twice"


def test_a_trial_tells_how_the_receiver_answers(service, client, cloud, receiver) -> None:
    path = hook(client, cloud, receiver)
    with delivering(service):
        assert client.post(f"{path}/test").json() == {"taken": True, "status": 204, "error": None}
        assert receiver.taken[0].event.get_type() == "tenure.webhook_test"
        receiver.answer = lambda _: 302
        assert client.post(f"{path}/test").json() == {"taken": False, "status": 302, "error": "answered 302"}
    assert len(receiver.tries) == 2, "redirects are not followed"


def test_a_trial_that_no_worker_sends_is_said_so_and_not_sent_later(service, client, cloud, receiver) -> None:
    """Nothing is sent by a process that answers callers."""
    path = hook(client, cloud, receiver)
    answer = client.post(f"{path}/test").json()
    assert (answer["taken"], answer["status"]) == (False, None)
    assert "is one running?" in answer["error"]
    with delivering(service):
        time.sleep(2)
    assert receiver.tries == []


def test_cookies_of_receivers_are_not_kept(service, client, cloud, receiver) -> None:
    """Another receiver at the same address would be sent them, and in the end more than it takes."""
    receiver.cookie = "session=of-this-receiver; Path=/"
    with Receiver() as neighbour, delivering(service):
        first, second = hook(client, cloud, receiver), hook(client, cloud, neighbour)
        answers = [client.post(f"{path}/test").json()["taken"] for path in (first, second, first)]
    assert answers == [True, True, True]
    assert (receiver.cookies, neighbour.cookies, neighbour.wrong) == ([], [], [])


def test_a_message_that_is_too_large_says_where_its_data_is(service, client, cloud, receiver) -> None:
    hook(client, cloud, receiver, after_seq=0)
    with delivering(changed(service, webhook_max_bytes=350)):
        receiver.wait_for(lambda: len(receiver.taken) == len(log_of(client, cloud)))
    (policy,) = [one for one in receiver.taken if one.event.get_type() == "tenure.cloud_created"]
    assert policy.event.get_data() is None
    reference = policy.event.get_extension("dataref")
    assert client.get(reference).json()["events"] == log_of(client, cloud)[:1]


def test_private_addresses_are_refused_when_sending_too(service, client, cloud, receiver, database_url) -> None:
    """The name was fine when the webhook was made; where it leads now is looked at each time."""
    path = hook(client, cloud, receiver)
    run_sql(database_url, f"UPDATE webhook SET url = 'http://localhost:{receiver.url.split(':')[2]}'")
    with delivering(changed(service, webhook_allow_private=False)):
        answer = client.post(f"{path}/test").json()
        run_sql(database_url, "UPDATE webhook SET url = 'http://no-such-name.invalid/'")
        unknown = client.post(f"{path}/test").json()
    assert answer == {"taken": False, "status": None, "error": "localhost leads to no address that is sent to"}
    assert unknown["error"] == "no-such-name.invalid leads to no address that is sent to", "as for one that is inside"
    assert receiver.tries == []
    run_sql(database_url, f"UPDATE webhook SET url = 'http://localhost:{receiver.url.split(':')[2]}'")
    with delivering(service):
        assert client.post(f"{path}/test").json()["taken"], "where the setting allows it"


@contextmanager
def secured(certificate: trustme.LeafCert) -> Iterator[Receiver]:
    """A receiver at https://localhost that has this certificate."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(tls)
    with Receiver(tls=tls) as receiver:
        yield receiver
        assert receiver.wrong == []
        assert set(receiver.names) == {"localhost"}, "the server is asked by the URL's name"
        assert set(receiver.first_bytes) == {b"\x16"}, "every connection begins with a handshake: nothing goes in clear"


def test_over_tls_the_certificate_is_that_of_the_urls_name(service, client, cloud, authority) -> None:
    """Though the connection is made to an address. One for each message: none is found again by its address alone."""
    with secured(authority.issue_cert("localhost")) as receiver:
        path = hook(client, cloud, receiver, after_seq=0)
        with delivering(service):
            receiver.wait_for(lambda: receiver.seqs() == [event["seq"] for event in log_of(client, cloud)])
            assert client.post(f"{path}/test").json() == {"taken": True, "status": 204, "error": None}
        assert len(receiver.names) == len(receiver.taken)


def issued(authority: trustme.CA, flaw: str) -> trustme.LeafCert:
    if flaw == "another name":
        return authority.issue_cert("elsewhere.example", "127.0.0.1")
    if flaw == "another authority":
        return trustme.CA().issue_cert("localhost")
    return authority.issue_cert(
        "localhost", not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=datetime(2021, 1, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("flaw", "told"),
    [
        ("another name", "Hostname mismatch, certificate is not valid for 'localhost'"),
        ("another authority", "unable to get local issuer certificate"),
        ("expired", "certificate has expired"),
    ],
)
def test_nothing_is_sent_to_who_has_no_good_certificate(service, client, cloud, authority, flaw, told) -> None:
    """It is a failure like any other: told, retried, a dead letter in the end, and delivered when that is put right."""
    with secured(issued(authority, flaw)) as receiver:
        path = hook(client, cloud, receiver, kinds=["instance_started"])
        with delivering(service):
            answer = client.post(f"{path}/test").json()
            assert (answer["taken"], answer["status"]) == (False, None)
            assert told in answer["error"]
            seq = start(client, cloud, "s0")
            receiver.wait_for(lambda: client.get(path).json()["dead_count"] == 1)
            (letter,) = client.get(f"{path}/dead").json()["dead"]
            assert (letter["seq"], letter["attempts"]) == (seq, 4)
            assert told in letter["error"]
            assert (len(receiver.names), receiver.tries) == (5, [])
            authority.issue_cert("localhost").configure_cert(receiver.tls)
            client.post(f"{path}/replay", json={}).raise_for_status()
            receiver.wait_for(lambda: receiver.seqs() == [seq])


async def service_time() -> int:
    return 0


def test_authorities_that_cannot_be_read_are_told_at_once(service, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing.pem"))
    with pytest.raises(OSError, match="SSL_CERT_FILE"):
        poster(service.settings, ServerClock(service_time))


class Flood(socketserver.ThreadingTCPServer):
    """A receiver that answers each request with the same bytes again and again, for as long as they are taken."""

    daemon_threads = True

    def __init__(self, sent: bytes) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._sent = sent
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request: socket.socket, client_address: object) -> None:
        with suppress(OSError):
            request.recv(65536)
            while True:
                request.sendall(self._sent)


@pytest.mark.parametrize(
    "sent",
    [b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, b"x-more: of this\r\n" * 1000, b"HTTP/1.1 200 OK\r\n" + b"a" * 99999],
)
@pytest.mark.anyio
async def test_a_receiver_that_sends_on_and_on_before_its_answer_stops_nobody(sent: bytes) -> None:
    """The loop goes on beside it, and the try is over long before its time."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    with Flood(sent) as flood:
        counting = asyncio.create_task(count_turns())
        began = time.monotonic()
        async with Poster(timeout_s=20, allow_private=True, at_once=1, now=lambda: datetime.now(UTC)) as post:
            place = f"http://127.0.0.1:{flood.server_address[1]}/"
            receipt = await post.post("c", place, make_secret(), trial_message(1, "c", datetime.now(UTC)))
            took_s = time.monotonic() - began
            await asyncio.sleep(0.1)
        counting.cancel()
        flood.shutdown()
    assert receipt.status is None
    assert receipt.error
    assert took_s < 5
    assert turns > 0


@pytest.mark.anyio
async def test_slow_receivers_and_slow_names_of_one_cloud_keep_no_other_waiting(monkeypatch) -> None:
    names = threading.Event()
    ask = socket.getaddrinfo

    def slowly(host: str, *more: object, **how: object) -> object:
        if host == "slow.example":
            names.wait(20)
        return ask("127.0.0.1", *more, **how)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    with socket.create_server(("127.0.0.1", 0)) as silent, Receiver() as quick:
        message, secret = trial_message(1, "c", datetime.now(UTC)), make_secret()
        quick.secret = secret
        never = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        async with Poster(timeout_s=20, allow_private=True, at_once=4, now=lambda: datetime.now(UTC)) as post:
            urls = [(cloud, never) for cloud in ("a", "b")] * 40 + [("d", "http://slow.example/")] * 40
            slow = [asyncio.create_task(post.post(cloud, url, secret, message)) for cloud, url in urls]
            await asyncio.sleep(0.2)
            async with asyncio.timeout(5):
                assert (await post.post("c", quick.url, secret, message)).taken
                await asyncio.to_thread(time.sleep, 0)  # the threads of everybody else are free
            names.set()
            for one in slow:
                one.cancel()
            await asyncio.gather(*slow, return_exceptions=True)


def test_a_cloud_has_only_so_many(client, cloud, receiver) -> None:
    for _ in range(3):
        hook(client, cloud, receiver)
    answer = client.post(f"{cloud}/webhooks", json={"url": receiver.url})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "preemptible.webhook.too_many")
    page = client.get(f"{cloud}/webhooks?limit=2").json()
    rest = client.get(page["links"][0]["href"]).json()
    assert [len(page["webhooks"]), len(rest["webhooks"]), rest["links"]] == [2, 1, []]
    other = client.get(page["webhooks"][0]["links"][0]["href"].replace(cloud, "/v1/clouds/hooked-0"))
    assert other.status_code == 404, "another cloud's webhook is not there"

"""Server-sent events: every event once and in order, whoever writes; bounded, and ending when they should."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from servers import run_sql

from app.scheduling.log_heads import HeadPauses
from tenure_client import Conflict, TenureClient

CLOUD = "/v1/clouds/streamed"
STREAM = f"{CLOUD}/events/stream"
LOOK_S = 1.0
"""A shorter pause between looks at the logs than a process's own, so that little is waited for."""


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    limits = {"stream_limit": 4, "stream_limit_per_token": 3, "stream_heartbeat_s": 0.3}
    with running_service(database_url, **limits) as service:
        service.client.post("/v1/clouds", json={"name": "streamed", "policy": {"guarantee": "none"}})
        service.client.post(f"{CLOUD}/nodes", json={"name": "node-0", "cores": 64})
        service.client.post(f"{CLOUD}/flavors", json={"name": "c1", "cores": 1})
        yield service


@pytest.fixture(scope="module")
def looking(service: Service, database_url: str) -> Iterator[Service]:
    """Another process, which looks at the logs more often."""
    with running_service(database_url, HeadPauses(look_s=LOOK_S)) as looking:
        yield looking


class Reader:
    """Reads one stream on the test's own thread."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.lines = response.iter_lines()

    def frame(self) -> dict[str, str]:
        """The next frame, a comment as `:`."""
        found: dict[str, str] = {}
        for line in self.lines:
            if not line:
                return found
            name, _, value = line.partition(": ")
            found[name] = value
        raise EOFError

    def event(self) -> dict[str, str]:
        """The next frame with an event."""
        while "id" not in (frame := self.frame()):
            pass
        return frame

    def drain(self) -> None:
        """Until the stream ends."""
        while True:
            self.frame()

    def seqs(self, count: int) -> list[int]:
        return [int(self.event()["id"]) for _ in range(count)]


@contextmanager
def reading(service: Service, query: str = "", **headers: str) -> Iterator[Reader]:
    with service.client.stream("GET", f"{STREAM}{query}", headers=headers) as response:
        assert response.status_code == 200, response.read()
        yield Reader(response)


def ends(reader: Reader) -> None:
    with pytest.raises(EOFError):
        reader.drain()


def start(service: Service, name: str) -> int:
    body = {"id": name, "market": "on_demand", "flavor": "c1"}
    answer = service.client.post(f"{CLOUD}/instances", json=body)
    service.client.delete(f"{CLOUD}/instances/{name}")
    return int(answer.json()["seq"])


def test_events_are_those_of_the_paged_list(service: Service) -> None:
    listed = service.client.get(f"{CLOUD}/events?limit=3").json()["events"]
    with reading(service) as reader:
        frames = [reader.event() for _ in range(3)]
    assert [json.loads(frame["data"]) for frame in frames] == listed
    assert [(int(frame["id"]), frame["event"]) for frame in frames] == [(e["seq"], e["kind"]) for e in listed]


def test_new_events_come_at_once_and_silence_is_broken_by_comments(service: Service) -> None:
    last = service.last_seq("streamed")
    with reading(service, f"?after_seq={last}") as reader:
        reader.frame()
        assert reader.frame() == {"": "heartbeat"}
        began = time.monotonic()
        assert start(service, "live") == last + 1
        assert reader.seqs(2) == [last + 1, last + 2]
        assert time.monotonic() - began < 4, "not by the look every five seconds"


def test_the_last_event_id_counts_for_more_than_after_seq(service: Service) -> None:
    with reading(service, "?after_seq=0&limit=1", **{"Last-Event-ID": "2"}) as reader:
        assert reader.seqs(1) == [3]
        with pytest.raises(EOFError):
            reader.event()


@pytest.mark.parametrize("beyond", [1, 1 << 40])
@pytest.mark.parametrize("path", [STREAM, f"{CLOUD}/events"])
def test_a_follower_ahead_of_the_log_is_told(service: Service, path: str, beyond: int) -> None:
    """The log was put back, or the seq is another cloud's. At the very end there is only nothing to tell yet."""
    last = service.last_seq("streamed")
    answer = service.client.get(path, params={"after_seq": last + beyond})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "preemptible.log.put_back")
    assert f"the end of the log, {last}" in answer.json()["errors"][0]["detail"]
    if path != STREAM:
        assert service.client.get(path, params={"after_seq": last}).json()["events"] == []


@pytest.fixture
def put_back(looking: Service, database_url: str) -> Callable[[str], tuple[int, Callable[[], None]]]:
    """Makes a cloud with some events; its last seq, and what takes the newest three of them away."""

    def make(name: str) -> tuple[int, Callable[[], None]]:
        looking.client.post("/v1/clouds", json={"name": name, "policy": {"guarantee": "none"}}).raise_for_status()
        for number in range(8):
            flavor = {"name": f"f-{number}", "cores": 1}
            looking.client.post(f"/v1/clouds/{name}/flavors", json=flavor).raise_for_status()
        last = looking.last_seq(name)
        which = f"(SELECT id FROM cloud WHERE name = '{name}')"
        return last, lambda: run_sql(database_url, f"DELETE FROM event WHERE cloud_id = {which} AND seq > {last - 3}")

    return make


@pytest.mark.parametrize("grows", [0, 2, 5])
def test_an_open_stream_of_a_log_that_is_put_back_ends_with_an_error(looking: Service, put_back, grows: int) -> None:
    """However far the log has grown again, also beyond what the reader has, by another process that nobody heard of."""
    name = f"put-back-{grows}"
    last, cut = put_back(name)
    with looking.client.stream("GET", f"/v1/clouds/{name}/events/stream") as response:
        reader = Reader(response)
        assert reader.seqs(last) == [*range(1, last + 1)]
        time.sleep(1.5 * LOOK_S)  # the process has looked at the log's end
        cut()
        if grows:
            with running_service(looking.settings.database_url) as other:
                for number in range(grows):
                    flavor = {"name": f"g-{number}", "cores": 1}
                    other.client.post(f"/v1/clouds/{name}/flavors", json=flavor).raise_for_status()
        while (frame := reader.frame()).get("event") != "log_put_back":
            pass
        (error,) = json.loads(frame["data"])["errors"]
        assert (error["status"], error["code"]) == (409, "preemptible.log.put_back")
        assert error["request_id"] == response.headers["x-openstack-request-id"]
        ends(reader)


@pytest.mark.parametrize("ahead", [1, 10**15])
def test_a_signal_of_more_than_a_log_has_ends_its_streams_and_nothing_else(
    service: Service, database_url: str, ahead: int
) -> None:
    """A process that stood still sends such a one after the log was put back."""
    last = service.last_seq("streamed")
    signal = f"""json_build_object('type', 'log_grew', 'cloud_id', id, 'seq', {last + ahead})::text"""
    with service.client.stream("GET", STREAM) as response:
        reader = Reader(response)
        assert reader.seqs(last) == [*range(1, last + 1)]
        run_sql(database_url, f"SELECT pg_notify('tenure_log', {signal}) FROM cloud WHERE name = 'streamed'")
        while reader.frame().get("event") != "log_put_back":
            pass
        ends(reader)
    with service.client.stream("GET", STREAM) as response:
        reader = Reader(response)
        assert reader.seqs(last) == [*range(1, last + 1)]
        start(service, f"ahead-{ahead}")
        assert int(reader.event()["id"]) == last + 1


@pytest.mark.parametrize(
    "change", ["DELETE FROM event WHERE seq = 5", "UPDATE event SET seq = seq + 1000 WHERE seq > 4"]
)
def test_a_stream_ends_before_a_gap_in_the_log(looking: Service, put_back, database_url: str, change: str) -> None:
    """It would ask the database again and again without a pause, for events that do not come."""
    name = f"gap-{change[:6].lower()}"
    put_back(name)
    run_sql(database_url, f"{change} AND cloud_id = (SELECT id FROM cloud WHERE name = '{name}')")
    with looking.client.stream("GET", f"/v1/clouds/{name}/events/stream") as response:
        reader = Reader(response)
        with pytest.raises(EOFError):
            assert reader.seqs(5)[-1] < 5


def test_a_reader_that_has_what_was_lost_is_not_sent_what_came_instead(looking: Service, put_back) -> None:
    """The log is cut off and has grown beyond what the reader has before this process looks at its end again."""
    last, cut = put_back("lost-and-regrown")
    with (
        running_service(looking.settings.database_url) as other,
        looking.client.stream("GET", "/v1/clouds/lost-and-regrown/events/stream") as response,
    ):
        reader = Reader(response)
        assert reader.seqs(last) == [*range(1, last + 1)]
        cut()
        for number in range(5):
            flavor = {"name": f"g-{number}", "cores": 1}
            other.client.post("/v1/clouds/lost-and-regrown/flavors", json=flavor).raise_for_status()
        while (frame := reader.frame()).get("event") != "log_put_back":
            assert "id" not in frame


def test_the_client_tells_a_follower_of_a_log_that_is_put_back(looking: Service, put_back) -> None:
    last, cut = put_back("followed-back")
    with TenureClient(looking.url, TOKEN) as client:
        events = client.follow("followed-back")
        assert [next(events).seq for _ in range(last)] == [*range(1, last + 1)]
        time.sleep(1.5 * LOOK_S)
        cut()
        with pytest.raises(Conflict) as told:
            next(events)
        assert told.value.code == "preemptible.log.put_back"
        with pytest.raises(Conflict) as again:
            next(client.follow("followed-back", after_seq=last))
        assert again.value.code == told.value.code


@pytest.mark.parametrize("wrong", ["x", "-1", "1.0", "9" * 19, "²"])
def test_an_id_that_is_no_seq_is_refused(service: Service, wrong: str) -> None:
    answer = service.client.get(STREAM, headers={"Last-Event-ID": wrong.encode()})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "preemptible.field.invalid")


def test_streams_are_bounded_by_token_and_by_process(service: Service, database_url: str) -> None:
    sql = "INSERT INTO token (name, role, hash) VALUES ('second', 'reader', sha256('tnr_second'))"
    run_sql(database_url, sql)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(reading(service))
        answer = service.client.get(STREAM)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (429, "preemptible.streams.too_many")
        assert "this token" in answer.json()["errors"][0]["detail"]
        assert int(answer.headers["Retry-After"]) >= 1
        stack.enter_context(reading(service, **{"X-Auth-Token": "tnr_second"}))
        assert "this process" in service.client.get(STREAM, headers={"X-Auth-Token": "tnr_second"}).text
    deadline = time.monotonic() + 20
    while service.client.get(f"{STREAM}?limit=1").status_code == 429:
        assert time.monotonic() < deadline, "a closed stream gives its place back"
        time.sleep(0.05)


def test_head_ends(service: Service) -> None:
    answer = service.client.head(STREAM)
    assert (answer.status_code, answer.content) == (200, b"")


def test_another_process_s_commits_come_as_well(service: Service, database_url: str) -> None:
    last = service.last_seq("streamed")
    with running_service(database_url) as other, reading(service, f"?after_seq={last}") as reader:
        began = time.monotonic()
        start(other, "elsewhere")
        assert reader.seqs(2) == [last + 1, last + 2]
        assert time.monotonic() - began < 4, "by notice, not by the look every five seconds"


def test_growth_that_nobody_announced_is_found_by_looking(looking: Service, database_url: str) -> None:
    last = looking.last_seq("streamed")
    with reading(looking, f"?after_seq={last}") as reader:
        unannounced = f"""
        INSERT INTO event (cloud_id, seq, kind, version, data)
        SELECT cloud_id, {last + 1}, kind, version, jsonb_set(data, '{{flavor}}', '"late"') || jsonb_build_object(
            'at_us', (SELECT max(at_us) FROM event newest WHERE newest.cloud_id = event.cloud_id))
        FROM event WHERE kind = 'flavor_added' AND cloud_id = (SELECT id FROM cloud WHERE name = 'streamed')
        """
        run_sql(database_url, unannounced)
        assert reader.seqs(1) == [last + 1]


def test_followers_at_every_depth_see_the_same_while_writers_write(service: Service) -> None:
    first = service.last_seq("streamed")
    count = 300

    def write() -> None:
        for number in range(count // 2):
            start(service, f"depth-{first}-{number}")

    def read(after_seq: int) -> list[int]:
        with reading(service, f"?after_seq={after_seq}&limit={first + count - after_seq}") as reader:
            return reader.seqs(first + count - after_seq)

    writing = threading.Thread(target=write)
    writing.start()
    found = asyncio.run(_together([lambda after=after: read(after) for after in (0, 3, first)]))
    writing.join()
    assert found == [list(range(after + 1, first + count + 1)) for after in (0, 3, first)]


async def _together(calls: list) -> list[list[int]]:
    return await asyncio.gather(*(asyncio.to_thread(call) for call in calls))


def test_a_stream_ends_after_its_time_and_when_the_service_stops(database_url: str) -> None:
    with running_service(database_url, stream_max_s=1) as short, reading(short) as reader:
        ends(reader)
    with ExitStack() as stack:
        stopping = stack.enter_context(running_service(database_url))
        reader = stack.enter_context(reading(stopping, "?after_seq=3"))
        reader.frame()
        ended = threading.Thread(target=ends, args=(reader,))
        ended.start()
        stopping.server.should_exit = True
        ended.join(10)
        assert not ended.is_alive()


@pytest.mark.parametrize("change", ["revoked_at = now()", "expires_at = now()"])
@pytest.mark.parametrize("path", [f"{STREAM}?after_seq=1", "/ui/live", "/ui/clouds/streamed/live"])
def test_a_stream_ends_soon_after_its_token(service: Service, database_url: str, path: str, change: str) -> None:
    name = f"gone-{abs(hash((path, change)))}"
    run_sql(database_url, f"INSERT INTO token (name, role, hash) VALUES ('{name}', 'reader', sha256('tnr_{name}'))")
    headers = {"X-Auth-Token": f"tnr_{name}", "Cookie": f"tenure_token=tnr_{name}"}
    with httpx2.stream("GET", service.url + path, headers=headers, timeout=20) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        next(lines)
        time.sleep(1)
        run_sql(database_url, f"UPDATE token SET {change} WHERE name = '{name}'")
        begun = time.monotonic()
        last = [line for line in lines if line]
        assert time.monotonic() - begun < 5.5
        assert path.startswith("/v1") or "event: signed-out" in last

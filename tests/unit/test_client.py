"""Both clients against a service that fails as services do: what is sent again, pauses, typed errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import httpx2
import pytest

from tenure_client import (
    AnswerUnreadable,
    ArgumentInvalid,
    AsyncTenureClient,
    Market,
    NameInvalid,
    NotConnected,
    ServiceRefused,
    ServiceUnreachable,
    Start,
    Stop,
    TenureClient,
    ValueInvalid,
    calls,
    errors,
)

RUN = {
    "id": 1, "cause": "requested", "status": "pending", "due_at": None, "attempts": 0, "error": None, "epoch": None,
    "created_at": "2026-01-01T00:00:00Z", "started_at": None, "finished_at": None, "links": [],
}  # fmt: skip
Answering = Callable[[httpx2.Request], httpx2.Response]


class Waits:
    """A client that waits, and what it gives."""

    def __init__(self, answering: Answering, **options: Any) -> None:
        self.client = TenureClient("http://peer", "secret", transport=httpx2.MockTransport(answering), **options)

    def ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        found = getattr(self.client, name)(*args, **kwargs)
        return list(found) if isinstance(found, Iterator) else found


class Awaits:
    """An asynchronous client, each question on an event loop of its own."""

    def __init__(self, answering: Answering, **options: Any) -> None:
        self.make = lambda: AsyncTenureClient(
            "http://peer", "secret", transport=httpx2.MockTransport(answering), **options
        )

    def ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        async def asked() -> Any:
            async with self.make() as client:
                found = getattr(client, name)(*args, **kwargs)
                return [item async for item in found] if hasattr(found, "__aiter__") else await found

        return asyncio.run(asked())


@pytest.fixture(params=[Waits, Awaits], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> type[Waits | Awaits]:
    return request.param


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collect how long the clients would sleep, without sleeping."""
    slept: list[float] = []
    short = asyncio.sleep

    async def pause(seconds: float) -> None:
        slept.append(seconds)
        await short(0)

    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(asyncio, "sleep", pause)
    return slept


@dataclass
class Failing:
    """Fails in the given ways, one request after the other, and then answers."""

    ways: list[Exception | httpx2.Response]
    answer: Any
    requests: list[httpx2.Request] = field(default_factory=list)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if len(self.requests) > len(self.ways):
            return httpx2.Response(200, json=self.answer)
        way = self.ways[len(self.requests) - 1]
        if isinstance(way, Exception):
            raise way
        return way


def refusing(status: int, code: str = "", headers: dict[str, str] | None = None) -> httpx2.Response:
    entry = {"code": code, "status": status, "detail": "not now", "request_id": "req-1", "title": "t", "links": []}
    return httpx2.Response(status, json={"errors": [entry]}, headers=headers)


def not_taken() -> list[Exception | httpx2.Response]:
    """Failures after which the service surely has done nothing."""
    return [
        httpx2.ConnectError("nobody is there"),
        httpx2.ConnectTimeout("nobody answers"),
        httpx2.PoolTimeout("all connections are busy"),
        refusing(429, "preemptible.rate.exceeded"),
        refusing(503, "preemptible.service.overloaded"),
        refusing(503, "preemptible.log.contended"),
    ]


def perhaps_taken() -> list[Exception | httpx2.Response]:
    """Failures after which nobody knows."""
    return [
        httpx2.ReadError("the answer is lost"),
        httpx2.ReadTimeout("the answer is late"),
        httpx2.WriteError("the request was cut off"),
        httpx2.RemoteProtocolError("the service went away"),
        refusing(503, "preemptible.log.unavailable"),
        httpx2.Response(502, text="<html>bad gateway</html>"),
        httpx2.Response(504, text=""),
    ]


@pytest.mark.usefixtures("pauses")
def test_what_may_be_sent_twice_is_sent_until_it_is_answered(kind: type[Waits]) -> None:
    service = Failing([*not_taken(), *perhaps_taken()], {"results": [{"status": 204}]})
    answer = kind(service).ask("batch", "c", [Stop("i")])
    assert [result.status for result in answer.results] == [204]
    assert len(service.requests) == 14
    assert len({request.content for request in service.requests}) == 1


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("way", range(6))
def test_what_may_not_is_sent_again_where_it_was_not_taken(kind: type[Waits], way: int) -> None:
    service = Failing([not_taken()[way]], RUN)
    assert kind(service).ask("request_table", "c").id == 1
    assert len(service.requests) == 2


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("way", range(7))
def test_what_may_not_is_not_sent_again_where_it_may_have_been_taken(kind: type[Waits], way: int) -> None:
    service = Failing([perhaps_taken()[way]], RUN)
    with pytest.raises(ServiceUnreachable):
        kind(service).ask("request_table", "c")
    assert len(service.requests) == 1


@pytest.mark.usefixtures("pauses")
def test_a_batch_is_sent_again_whole_where_a_part_was_not_taken(kind: type[Waits]) -> None:
    entry = {"code": "preemptible.log.unavailable", "status": 503, "detail": "d", "request_id": "r", "title": "t"}
    partly = httpx2.Response(200, json={"results": [{"status": 204}, {"status": 503, "errors": [entry]}]})
    service = Failing([partly], {"results": [{"status": 204}, {"status": 204}]})
    answer = kind(service).ask("batch", "c", [Stop("i"), Stop("j")])
    assert [result.error for result in answer.results] == [None, None]
    assert len(service.requests) == 2


def test_pauses_grow_and_are_random_and_bounded(kind: type[Waits], pauses: list[float]) -> None:
    service = Failing([httpx2.ConnectError("x") for _ in range(40)], "OK")
    kind(service, retry_s=1e9).ask("health")
    assert len(pauses) == 40
    assert len(set(pauses)) == 40
    assert all(pause <= 0.1 * 2**number for number, pause in enumerate(pauses))
    assert max(pauses) <= 5
    assert max(pauses) > 1


@pytest.mark.parametrize("status", [429, 503])
def test_the_service_says_how_long_to_wait(kind: type[Waits], pauses: list[float], status: int) -> None:
    later = formatdate(time.time() + 12, usegmt=True)
    ways = [refusing(status, headers={"Retry-After": after}) for after in ("7", later, "soon")]
    kind(Failing([*ways], "OK")).ask("health")
    assert pauses[0] == 7
    assert 10 <= pauses[1] <= 12
    assert pauses[2] <= 0.4


def test_nobody_waits_longer_than_was_allowed(kind: type[Waits], pauses: list[float]) -> None:
    service = Failing([refusing(429, "preemptible.rate.exceeded", {"Retry-After": "31"})], "OK")
    with pytest.raises(errors.TooManyRequests):
        kind(service, retry_s=30).ask("health")
    assert pauses == []


def test_long_retries_are_told_in_the_log(
    kind: type[Waits], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once a request, and only if its caller has waited long enough to wonder."""
    monkeypatch.setattr("tenure_client.exchange._SILENT_S", 0.05)
    for retry_s, told in ((0.04, 0), (1.5, 1)):
        caplog.clear()
        with pytest.raises(ServiceUnreachable):
            kind(Failing([httpx2.ConnectError("[Errno 111] nobody is there")] * 1000, "OK"), retry_s=retry_s).ask(
                "health"
            )
        warnings = [one.getMessage() for one in caplog.records if one.name == "tenure_client"]
        assert len(warnings) == told
        assert all("nobody is there; trying again for up to" in one for one in warnings)


def test_no_answer_for_too_long_is_told(kind: type[Waits]) -> None:
    service = Failing([httpx2.ConnectError("[Errno 111] nobody is there")] * 1000, "OK")
    began = time.monotonic()
    with pytest.raises(ServiceUnreachable, match=r"http://peer[^\[]*: nobody is there"):
        kind(service, retry_s=0.3).ask("health")
    assert time.monotonic() - began < 10
    assert len(service.requests) >= 2


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, errors.RequestInvalid),
        (401, errors.Unauthenticated),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (406, errors.RequestInvalid),
        (409, errors.Conflict),
        (413, errors.RequestInvalid),
        (500, errors.ServiceFailed),
        (418, ServiceRefused),
    ],
)
def test_an_error_has_its_type_its_code_and_its_request(kind: type[Waits], status: int, error: type) -> None:
    service = Failing([refusing(status, "preemptible.some.code")], "OK")
    with pytest.raises(error) as caught:
        kind(service).ask("cloud", "c")
    found = caught.value
    assert type(found) is error
    assert (found.status, found.code, found.request_id, found.detail) == (
        status, "preemptible.some.code", "req-1", "not now",
    )  # fmt: skip
    assert "not now" in str(found)
    assert len(service.requests) == 1


def test_every_wrong_field_is_told(kind: type[Waits]) -> None:
    entries = [{"code": "preemptible.field.invalid", "status": 400, "detail": text} for text in ("a: x", "b: y")]
    service = Failing([httpx2.Response(400, json={"errors": entries})], "")
    with pytest.raises(errors.RequestInvalid) as caught:
        kind(service).ask("cloud", "c")
    assert caught.value.details == ("a: x", "b: y")


def test_an_error_of_one_operation_in_a_batch_is_its_own(kind: type[Waits]) -> None:
    entry = {"code": "preemptible.instance.conflict", "detail": "another body", "status": 409, "request_id": "r"}
    service = Failing([], {"results": [{"status": 409, "errors": [entry]}, {"status": 204}]})
    answer = kind(service).ask("batch", "c", [Start("i", Market.SPOT, "f", 1), Stop("j")])
    assert isinstance(answer.results[0].error, errors.Conflict)
    assert answer.results[1].error is None


def test_an_error_that_is_not_the_services_is_one_too(kind: type[Waits]) -> None:
    with pytest.raises(errors.Forbidden, match="no such guest"):
        kind(Failing([httpx2.Response(403, text="<html>no such guest")], "")).ask("cloud", "c")


@pytest.mark.parametrize("status", [301, 303, 404, 405, 501])
def test_another_kind_of_server_is_told(kind: type[Waits], status: int) -> None:
    elsewhere = {"Location": "/sign-in"}
    with pytest.raises(AnswerUnreadable, match="no Tenure"):
        kind(Failing([httpx2.Response(status, text="<html>no such page", headers=elsewhere)], "")).ask("cloud", "c")


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"name": "c"}', b"\xff", b""])
def test_an_answer_of_another_kind_of_server_is_told(kind: type[Waits], content: bytes) -> None:
    with pytest.raises(AnswerUnreadable, match="not as documented"):
        kind(Failing([httpx2.Response(200, content=content)], "")).ask("cloud", "c")


@pytest.mark.parametrize("url", [
    "http://[", "http://", "ftp://peer", "peer", "localhost:18080", "", "http://peer:port", "http://peer:99999",
    "http://a..b", f"http://{'a' * 64}.example", "http://peer/\x00",
])  # fmt: skip
def test_a_url_that_is_none_is_told_at_once(url: str) -> None:
    for kind in (TenureClient, AsyncTenureClient):
        with pytest.raises(ArgumentInvalid) as told:
            kind(url, retry_s=60)
        assert told.value.argument == "url"


@pytest.mark.parametrize("token", ["tnr_…", "tnr_é", "tnr_a\nb", "tnr_\x00"])
def test_a_token_that_can_be_none_is_told_at_once(token: str) -> None:
    for kind in (TenureClient, AsyncTenureClient):
        with pytest.raises(ArgumentInvalid, match="the token") as told:
            kind("http://peer", token)
        assert (told.value.argument, "tnr_" in str(told.value)) == ("token", False)


@pytest.mark.parametrize(
    ("argument", "given"),
    [("url", {"url": None}), ("url", {"url": b"http://peer"}), ("token", {"token": 5}), ("token", {"token": b"tnr_x"}),
     ("retry_s", {"retry_s": "x"}), ("retry_s", {"retry_s": None}), ("timeout_s", {"timeout_s": "60"}),
     ("timeout_s", {"timeout_s": True})],
)  # fmt: skip
def test_an_argument_of_another_type_is_told_at_once(argument: str, given: dict[str, Any]) -> None:
    for kind in (TenureClient, AsyncTenureClient):
        with pytest.raises(ArgumentInvalid, match=f"{argument} must be") as told:
            kind(**{"url": "http://peer"} | given)
        assert (told.value.argument, "tnr_" in str(told.value)) == (argument, False)


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        ([Stop("a"), 5], "operations.1: a batch takes Start, Stop, Extend, Move, Observe and Abort, not int"),
        ([{"stop": {"id": "a"}}], "operations.0: a batch takes Start, Stop, Extend, Move, Observe and Abort, not dict"),
        (5, "operations: must be a list: a batch takes Start, Stop, Extend, Move, Observe and Abort"),
        (Stop("a"), "operations: must be a list: a batch takes Start, Stop, Extend, Move, Observe and Abort"),
    ],
)
def test_a_batch_says_what_it_takes(operations: Any, said: str) -> None:
    with pytest.raises(ValueInvalid) as told:
        calls.batch("north", operations)
    assert str(told.value) == said


def test_a_connection_that_nobody_accepts_is_told_apart() -> None:
    with pytest.raises(NotConnected), TenureClient("http://127.0.0.1:1", retry_s=0) as client:
        client.health()


def test_who_asks_and_in_which_version(kind: type[Waits]) -> None:
    service = Failing([], "OK")
    kind(service).ask("health")
    headers = service.requests[0].headers
    assert headers["X-Auth-Token"] == "secret"
    assert headers["OpenStack-API-Version"] == "preemptible 1.0"
    assert headers["User-Agent"].startswith("tenure-client/")


def test_names_cannot_leave_their_place_in_the_path(kind: type[Waits]) -> None:
    service = Failing([], "OK")
    with pytest.raises(AnswerUnreadable):
        kind(service).ask("node", "a\\..\\b", "x?y#z")
    assert service.requests[0].url.raw_path == b"/v1/clouds/a%5C..%5Cb/nodes/x%3Fy%23z"
    for name in ("a/../b", "", ".", "..", "\ud800"):
        with pytest.raises(NameInvalid):
            kind(service).ask("node", name, "n")
    assert len(service.requests) == 1


def test_a_list_is_read_page_by_page(kind: type[Waits]) -> None:
    def pages(request: httpx2.Request) -> httpx2.Response:
        marker = request.url.params.get("marker")
        names = {None: ["a", "b"], "b": ["c"], "c": []}[marker]
        after = {None: "b", "b": "c"}.get(marker)
        links = [{"rel": "next", "href": f"/v1/clouds?limit=2&marker={after}"}] if after else []
        return httpx2.Response(200, json={"clouds": [{"name": n, "links": []} for n in names], "links": links})

    assert [found.name for found in kind(pages).ask("clouds", limit=2)] == ["a", "b", "c"]


def test_a_list_asks_for_no_more_pages_than_are_wanted() -> None:
    page = {"clouds": [{"name": "a", "links": []}], "links": [{"rel": "next", "href": "/v1/clouds?marker=a"}]}
    service = Failing([], page)
    assert next(Waits(service).client.clouds()).name == "a"
    assert len(service.requests) == 1


def frames(*seqs: int, rest: str = "") -> httpx2.Response:
    """A stream of events that breaks off."""
    text = ": hello\n\nretry: 20\n\n" + "".join(
        f'id: {seq}\nevent: node_drained\ndata: {{"seq": {seq}, "at": "2026-01-01T00:00:00Z", "kind": "k"}}\n\n'
        for seq in seqs
    )
    return httpx2.Response(200, text=text + rest, headers={"Content-Type": "text/event-stream"})


def following(kind: type, service: Answering, count: int) -> list[int]:
    """The seqs of the first events that a follower of the log sees."""
    if kind is Waits:
        stream = Waits(service).client.follow("c", after_seq=4)
        return [next(stream).seq for _ in range(count)]

    async def followed() -> list[int]:
        async with Awaits(service).make() as client:
            stream = client.follow("c", after_seq=4)
            return [(await anext(stream)).seq for _ in range(count)]

    return asyncio.run(followed())


def test_a_stream_that_breaks_is_taken_up_where_it_broke(kind: type[Waits], pauses: list[float]) -> None:
    ways = [
        frames(5, 6, rest='id: 7\ndata: {"seq": 7'),
        httpx2.ConnectError("the service starts again"),
        refusing(503, "preemptible.log.unavailable"),
        frames(),
        frames(7, 8),
    ]
    service = Failing(ways, None)
    assert following(kind, service, 4) == [5, 6, 7, 8]
    assert [request.url.params["after_seq"] for request in service.requests] == ["4", "6", "6", "6", "6"]
    assert 0.02 in pauses


@pytest.mark.parametrize("kind_of_content", [{"Content-Type": "text/html; charset=utf-8"}, {}], ids=["html", "nothing"])
def test_an_answer_that_is_no_stream_is_told(kind: type[Waits], pauses: list[float], kind_of_content: Any) -> None:
    """A proxy's page is such an answer. Were the stream opened again, the next answer would be told."""
    page = httpx2.Response(200, content=b"<html>Sign in", headers=kind_of_content)
    with pytest.raises(AnswerUnreadable, match="no stream of events"):
        following(kind, Failing([page, refusing(404)], None), 1)
    assert pauses == []


def test_a_stream_may_name_its_charset(kind: type[Waits]) -> None:
    stream = frames(5)
    stream.headers["Content-Type"] = "Text/Event-Stream; charset=utf-8"
    assert following(kind, Failing([stream], None), 1) == [5]


def test_a_stream_that_is_refused_is_told(kind: type[Waits]) -> None:
    service = Failing([refusing(404, "preemptible.cloud.not_found")], None)
    with pytest.raises(errors.NotFound):
        following(kind, service, 1)

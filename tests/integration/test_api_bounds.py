"""Requests that would be dear: refused before they cost anything, or done in pieces between which others are served."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from test_api_limits import check, check_answer, connected, read

from app.following.page_watch import WatchLimits
from app.platform.http import errors
from app.platform.http.bodies import MOST_PARAMETERS
from app.platform.http.connection import (
    LONGEST_HEADER,
    LONGEST_TARGET,
    MOST_HEADERS,
    MOST_WAITING,
    BoundedConnection,
)
from app.platform.http.fields import Body
from app.scheduling.http.batches import OPERATION_BYTES, OPERATION_VALUES
from app.scheduling.wire.single import SingleStartBody

AS_JSON = {"Content-Type": "application/json"}
NORTH = "/v1/clouds/north"
START = {"id": "i-1", "market": "on_demand", "flavor": "small"}
BEARABLE_S = 1.0
"""Another caller waits this long at most, on a machine that others use as well; undisturbed a few milliseconds."""


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url, address_requests_per_min=100_000) as service:
        service.client.post("/v1/clouds", json={"name": "north"}).raise_for_status()
        service.client.post(f"{NORTH}/flavors", json={"name": "small", "cores": 1}).raise_for_status()
        yield service


@contextmanager
def another_caller(service: Service) -> Iterator[list[float]]:
    """Collect the seconds that each of another caller's requests took while the block ran."""
    took: list[float] = []
    over = threading.Event()

    def call() -> None:
        with httpx2.Client(base_url=service.url, headers={"X-Auth-Token": TOKEN}, timeout=60) as client:
            while not over.is_set():
                begun = time.monotonic()
                client.get("/v1/clouds").raise_for_status()
                took.append(time.monotonic() - begun)
                time.sleep(0.01)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        while not took:
            time.sleep(0.001)
        took.clear()
        yield took
    finally:
        over.set()
        thread.join()


def raw(service: Service, head: str) -> tuple[int, Callable[[type[Exception]], None]]:
    """The status of the answer to a head, and its check."""
    with connected(service) as connection:
        connection.sendall(head.encode())
        answer, body = read(connection)
    return answer.status, lambda error: check(answer.status, answer, body, error)


def check_page(answer: httpx2.Response, error: type[Exception]) -> None:
    """The page says what is wrong."""
    assert answer.status_code == errors.PROBLEMS[error].status
    assert "The form" in answer.text or " cookies" in answer.text


class TestHeads:
    def test_a_long_target_is_refused_before_it_is_read(self, service: Service) -> None:
        query = "&".join(f"a{number}=" for number in range(16_000))
        head = f"GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n"
        begun = time.process_time()
        raw(service, head[: LONGEST_TARGET + 1000])[1](errors.TargetTooLong)
        assert time.process_time() - begun < 0.1
        assert raw(service, f"GET /{'x' * (LONGEST_TARGET - 1)} HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 404

    @pytest.mark.parametrize("path", ["/", "/v1/clouds", "/ui/sign-in", "/nowhere"])
    def test_many_query_parameters_are_refused(self, service: Service, path: str) -> None:
        query = "&".join(f"a{number}=" for number in range(MOST_PARAMETERS + 1))
        check_answer(service.client.get(f"{path}?{query}"), errors.QueryTooLarge)
        check_answer(service.client.get(f"{path}?{'&' * MOST_PARAMETERS}"), errors.QueryTooLarge)

    def test_many_headers_and_a_long_one_are_refused(self, service: Service) -> None:
        start, end = "GET / HTTP/1.1\r\nHost: x\r\n", "\r\n"
        raw(service, start + "a: b\r\n" * (MOST_HEADERS + 1))[1](errors.HeadTooLarge)
        raw(service, start + f"a: {'b' * (LONGEST_HEADER + 1)}\r\n{end}")[1](errors.HeadTooLarge)
        most = "a: b\r\n" * (MOST_HEADERS - 2) + f"a: {'b' * LONGEST_HEADER}\r\n"
        assert raw(service, start + most + end)[0] == 200

    def test_many_cookies_are_refused(self, service: Service) -> None:
        for cookies in ("a=b;" * 1000, ";" * 1000):
            check_page(service.client.get("/ui", headers={"Cookie": cookies}), errors.HeadTooLarge)

    def test_a_form_with_many_fields_is_refused(self, service: Service) -> None:
        for form in ("a=b&" * 11, "&" * 4000, "a=" + "b" * 5000):
            answer = service.client.post(
                "/ui/sign-in",
                content=form,
                headers={"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "none"},
            )
            check_page(answer, errors.FormInvalid)


class TestPipelines:
    def test_few_requests_wait_and_all_are_answered_in_order(self, service: Service) -> None:
        count = 3000
        sent = b"".join(f"GET /v1/{number} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for number in range(count))
        with connected(service) as connection, another_caller(service) as took:
            threading.Thread(target=connection.sendall, args=(sent,)).start()
            came, most = b"", 0
            while came.count(b"HTTP/1.1 404") < count:
                came += connection.recv(1 << 16)
                most = max(most, *(len(one.pipeline) for one in held(service)))
        places = [came.find(f'nothing at /v1/{number}"'.encode()) for number in range(count)]
        assert places == sorted(places)
        assert places[0] > 0
        assert 1 <= most <= MOST_WAITING
        assert max(took, default=0) < BEARABLE_S

    def test_bodies_of_requests_that_wait_are_kept_apart(self, service: Service) -> None:
        bodies = [json.dumps({"name": f"f{size}", "cores": 1}) + " " * size for size in range(0, 16_000, 250)]
        head = (
            f"POST {NORTH}/flavors HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\nContent-Type: application/json\r\n"
        )
        sent = "".join(f"{head}Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)
        with connected(service) as connection:
            threading.Thread(target=connection.sendall, args=(sent.encode(),)).start()
            came = b""
            while came.count(b"HTTP/1.1 201") < len(bodies):
                came += connection.recv(1 << 16)
        flavors = service.client.get(f"{NORTH}/flavors").json()["flavors"]
        assert [flavor["name"] for flavor in flavors][1:] == [json.loads(body)["name"] for body in bodies]

    def test_a_start_is_answered_before_broken_bytes_that_follow_it(self, service: Service) -> None:
        body = json.dumps({**START, "id": "followed"})
        head = f"POST {NORTH}/instances HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with connected(service) as connection:
            connection.sendall(f'{head}{body}"}}'.encode())
            came = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert re.findall(rb"HTTP/1\.1 (\d+)", came) == [b"201", b"400"]
        assert errors.PROBLEMS[errors.RequestMalformed].code.encode() in came

    def test_a_large_body_that_is_refused_leaves_the_connection_whole(self, service: Service) -> None:
        head = "POST {} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
        for path, token, status in ((f"{NORTH}/batch", "nobody", 401), (f"{NORTH}/batch", TOKEN, 400)):
            with connected(service) as connection:
                for _ in range(2):
                    connection.sendall(head.format(path, token).encode() + b"x" * 900_000)
                    assert read(connection)[0].status == status


def held(service: Service) -> list[BoundedConnection]:
    return [one for one in list(service.server.server_state.connections) if isinstance(one, BoundedConnection)]


class TestBodies:
    def test_an_operation_takes_a_small_body(self, service: Service) -> None:
        body = json.dumps({**START, "id": "padded"})
        starts = f"{NORTH}/instances"
        places = {starts: SingleStartBody.most_bytes} | dict.fromkeys(
            (f"{NORTH}/flavors", "/v1/clouds", "/v1/tokens"), Body.most_bytes
        )
        for path, most_bytes in places.items():
            padded = body.ljust(most_bytes)
            for content in (padded + " ", iter([padded.encode(), b" "])):
                check_answer(service.client.post(path, content=content, headers=AS_JSON), errors.BodyTooLarge)
        assert service.client.post(starts, content=body.ljust(places[starts]), headers=AS_JSON).status_code == 201

    @pytest.mark.parametrize(
        "content",
        ["{" + ",".join(f'"{n}":1' for n in range(1500)) + "}", '{"id":' + "[" * 5000 + "]" * 5000 + "}", "{" * 9000],
        ids=["keys", "depth", "open"],
    )
    def test_many_values_and_deep_ones_are_refused(self, service: Service, content: str) -> None:
        answer = service.client.post(f"{NORTH}/instances", content=content, headers=AS_JSON)
        check_answer(answer, errors.BodyTooComplex)

    @pytest.mark.parametrize(
        "content",
        [
            "{" + ",".join(f'"{n:x}":1' for n in range(110_000)) + "}",
            '{"operations":[' + ",".join("1" for _ in range(400_000)) + "]}",
            '{"operations":[' + "[" * 30_000 + "]" * 30_000 + "]}",
            '{"operations":' + "[" * 30_000 + "}",
            json.dumps({"operations": [{"start": {str(n): 1 for n in range(OPERATION_VALUES)}}] * 400}),
            json.dumps({"operations": [{"start": {**START, "id": "x" * OPERATION_BYTES}}] * 200}),
            json.dumps({"operations": [{"start": {**START, **{str(n): 1 for n in range(20)}}}] * 1000}),
            json.dumps({"operations": [{"start": {**START, "id": n}} for n in range(1000)]}),
        ],
        ids=["keys", "numbers", "depth", "open", "values", "length", "unknown", "invalid"],
    )
    def test_a_batch_with_a_thousand_faults_delays_nobody(self, service: Service, content: str) -> None:
        before = service.last_seq("north")
        service.client.post(f"{NORTH}/batch", content="{}", headers=AS_JSON)
        with another_caller(service) as took:
            answers = [service.client.post(f"{NORTH}/batch", content=content, headers=AS_JSON) for _ in range(5)]
        for answer in answers:
            assert answer.status_code in {400, 413}
            assert 1 <= len(answer.json()["errors"]) <= errors.MOST_FAULTS
        assert max(took, default=0) < BEARABLE_S
        assert service.last_seq("north") == before

    def test_faults_of_a_batch_say_where_they_are(self, service: Service) -> None:
        body = {"operations": [{"start": START}, {"start": {**START, "id": 7, "more": 1}}, {"stop": {}}]}
        answer = service.client.post(f"{NORTH}/batch", json=body)
        found = {(entry["code"].rsplit(".")[-1], entry["detail"].split(":")[0]) for entry in answer.json()["errors"]}
        assert found == {
            ("invalid", "operations.1.start.id"),
            ("unknown", "operations.1.start.more"),
            ("missing", "operations.2.stop.id"),
        }

    @pytest.mark.parametrize(
        ("content", "error"),
        [
            ("[]", errors.FieldInvalid),
            ("{}", errors.FieldMissing),
            ('{"operations": {}}', errors.FieldInvalid),
            ('{"operations": [{}', errors.BodyMalformed),
            ('{"operations": [{"stop": {"id": "\\ud800"}}]}', errors.BodyMalformed),
            ('{"operations": [{"stop": {"id": "a"}}], "more": 1}', errors.FieldUnknown),
        ],
    )
    def test_what_is_no_batch_is_refused(self, service: Service, content: str, error: type[Exception]) -> None:
        check_answer(service.client.post(f"{NORTH}/batch", content=content, headers=AS_JSON), error)


def test_a_batch_of_dear_decisions_delays_nobody(service: Service) -> None:
    """A thousand starts that each take a walk over thousands of spot instances, some of which overrun."""
    client = service.client
    client.post("/v1/clouds", json={"name": "dear", "policy": {"guarantee": "none"}}).raise_for_status()
    client.post("/v1/clouds/dear/flavors", json={"name": "small", "cores": 1}).raise_for_status()
    for number in range(10):
        client.post("/v1/clouds/dear/nodes", json={"name": f"n{number}", "cores": 600}).raise_for_status()
    for part in range(6):
        spot = [
            {"start": {"id": f"s{part}-{n}", "market": "spot", "flavor": "small", "lifetime_s": 1}} for n in range(1000)
        ]
        client.post("/v1/clouds/dear/batch", json={"operations": spot}).raise_for_status()
    time.sleep(1.1)
    operations = [{"start": {**START, "id": f"o{n}"}} for n in range(1000)]
    with another_caller(service) as took:
        results = client.post("/v1/clouds/dear/batch", json={"operations": operations}).json()["results"]
    assert all(result["body"]["victims"] for result in results)
    assert max(took, default=0) < BEARABLE_S


def test_a_token_may_have_so_many_pages_open(database_url: str) -> None:
    with running_service(database_url, watch=WatchLimits(pages_of_one=2)) as service:
        check_pages(service)


def check_pages(service: Service) -> None:
    """Two pages of one token are open at once, and one of another."""
    other = service.client.post("/v1/tokens", json={"name": "pages", "role": "reader"}).json()["token"]
    cookies = [{"Cookie": f"tenure_token={token}"} for token in (TOKEN, TOKEN, TOKEN, other)]
    with ExitStack() as stack:
        streams = [
            stack.enter_context(httpx2.stream("GET", f"{service.url}/ui/live", headers=cookie)) for cookie in cookies
        ]
        assert [stream.status_code for stream in streams] == [200, 200, 429, 200]

"""Tests of limits: requests too often, too slow or too large are refused, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPResponse

import httpx2
import pytest
from api_service import TOKEN, Service, running_service

from app.platform.http import auth, dear, errors
from app.platform.http.addresses import Addresses
from app.platform.http.connection import BoundedConnection
from app.platform.http.errors import PROBLEMS
from app.platform.http.pacing import REFUSALS_PER_S
from app.platform.http.rates import Rates
from app.platform.http.windows import Windows

TIMEOUT_S = 0.3


@pytest.fixture(scope="module")
def hasty(database_url: str) -> Iterator[Service]:
    """A service that waits for nobody."""
    with running_service(database_url, request_timeout_s=TIMEOUT_S, max_connections=8) as service:
        service.client.post("/v1/clouds", json={"name": "north"}).raise_for_status()
        yield service


def check(status: int, headers: httpx2.Headers | HTTPResponse, body: bytes, error: type[Exception]) -> None:
    """The answer is this error in the one form."""
    (entry,) = json.loads(body)["errors"]
    problem = PROBLEMS[error]
    assert (status, entry["status"], entry["code"]) == (problem.status, problem.status, problem.code)
    get = headers.getheader if isinstance(headers, HTTPResponse) else headers.get
    assert get("X-Openstack-Request-Id") == entry["request_id"]
    if problem.status in {429, 503}:
        assert int(get("Retry-After") or 0) >= 1


def check_answer(answer: httpx2.Response, error: type[Exception]) -> None:
    check(answer.status_code, answer.headers, answer.content, error)


def until_refused(count: Callable[[], None]) -> tuple[int, errors.RateExceeded]:
    """Return how many requests are taken before one is not."""
    for taken in range(1001):
        try:
            count()
        except errors.RateExceeded as error:
            return taken, error
    raise AssertionError("there is no limit")


class TestRates:
    def test_a_token_that_sends_too_much_is_refused_until_the_next_second(self, database_url: str) -> None:
        with running_service(database_url, token_requests_per_s=10) as service:
            other = service.client.post("/v1/tokens", json={"name": "other", "role": "reader"}).json()["token"]
            time.sleep(1.1)
            answers = [service.client.get("/v1/clouds") for _ in range(14)]
            statuses = [answer.status_code for answer in answers]
            assert statuses == [200] * statuses.count(200) + [429] * statuses.count(429)
            assert statuses.count(200) == 10
            check_answer(answers[-1], errors.RateExceeded)
            assert service.client.get("/v1/clouds", headers={"X-Auth-Token": other}).status_code == 200
            time.sleep(int(answers[-1].headers["Retry-After"]))
            assert service.client.get("/v1/clouds").status_code == 200

    def test_an_address_that_guesses_tokens_is_shut_out_and_who_shares_it_is_not(
        self, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(auth, "CACHED_S", 0.05)
        with running_service(database_url, address_requests_per_min=5) as service:
            new = service.client.post("/v1/tokens", json={"name": "new", "role": "reader"}).json()["token"]
            guesses = [service.client.get("/v1/clouds", headers={"X-Auth-Token": f"tnr_{n}"}) for n in range(7)]
            assert [answer.status_code for answer in guesses] == [401] * 5 + [429] * 2
            check_answer(guesses[-1], errors.RateExceeded)
            time.sleep(0.1)  # the process must look the known token up again, and may
            assert service.client.get("/v1/clouds").status_code == 200
            check_answer(service.client.get("/v1/clouds", headers={"X-Auth-Token": "tnr_more"}), errors.RateExceeded)
            # Nor is a token shut out that this process never met, as after its restart.
            assert service.client.get("/v1/clouds", headers={"X-Auth-Token": new}).status_code == 200
            with httpx2.Client(base_url=service.url) as anyone:
                assert [anyone.get(path).status_code for path in ("/healthcheck", "/readiness")] == [200, 200]
                paths = ("/", "/v1/clouds", "/openapi.json", "/docs", "/docs/assets/swagger-ui.css", "/nowhere", "/v1")
                for path in paths:
                    check_answer(anyone.get(path), errors.RateExceeded)
                for path in ("/ui", "/ui/sign-in", "/ui/nowhere"):
                    assert anyone.get(path).status_code == 429
            check_answer(service.client.get("/nowhere"), errors.PathUnknown)

    def test_probes_have_a_limit_of_their_own(self, database_url: str) -> None:
        with (
            running_service(database_url, address_requests_per_min=5) as service,
            httpx2.Client(base_url=service.url) as anyone,
        ):
            assert [anyone.get("/healthcheck").status_code for _ in range(7)] == [200] * 5 + [429] * 2
            assert anyone.get("/").status_code == 200

    @pytest.mark.parametrize("path", ["/metrics", "/metrics/clouds"])
    def test_dear_reads_count_more_than_once(self, database_url: str, path: str) -> None:
        with running_service(database_url, token_requests_per_s=100) as service:
            service.client.get(path)
            time.sleep(1.1)
            statuses = [service.client.get(path).status_code for _ in range(4)]
            assert statuses.count(429) >= 1
            time.sleep(1.1)
            assert [service.client.get("/v1/clouds").status_code for _ in range(20)] == [200] * 20

    @pytest.mark.anyio
    async def test_dear_requests_of_a_caller_take_turns_and_the_last_of_many_are_refused(self) -> None:
        lines, inside, refused, most = dear.DearQueues(), list[int](), list[int](), 0

        async def ask(caller: int) -> None:
            nonlocal most
            try:
                async with lines.place((caller, "north", True), 2):
                    inside.append(caller)
                    most = max(most, inside.count(1))
                    await asyncio.sleep(0)
                    inside.remove(caller)
            except errors.RateExceeded:
                refused.append(caller)

        many = [ask(1) for _ in range(dear.MOST_WAITING + 12)]
        await asyncio.gather(*many, ask(2), ask(1))
        assert most == 2
        assert refused == [1] * 11
        await ask(1)
        assert refused == [1] * 11
        assert vars(lines) == {"_queues": {}}

    def test_what_costs_more_than_the_limit_is_taken_once(self) -> None:
        rates = Rates(10, 1)
        taken, error = until_refused(lambda: rates.count_token(1, 50))
        assert "some count as several" in str(error)
        assert taken == 1

    def test_messages_of_a_peer_are_refused_before_they_are_read(self, database_url: str) -> None:
        with running_service(database_url, peer_messages_per_s=3) as service:
            tokens = [
                service.client.post("/v1/tokens", json={"name": name, "role": "peer"}).json()["token"]
                for name in ("far.1", "far.2", "near")
            ]
            time.sleep(1.1)
            asked = [
                httpx2.put(f"{service.url}/v1/clouds/c/offers/j/1", headers={"X-Auth-Token": token}, content=b"{")
                for token in [*tokens[:2] * 2, tokens[2]]
            ]
            assert [one.status_code for one in asked] == [415, 415, 415, 429, 415]
            assert int(asked[3].headers["Retry-After"]) >= 1

    def test_few_messages_of_a_peer_are_in_the_line_and_another_peers_do_not_wait_for_them(
        self, database_url: str
    ) -> None:
        with running_service(database_url) as service, ExitStack() as stack:
            tokens = [
                service.client.post("/v1/tokens", json={"name": name, "role": "peer"}).json()["token"]
                for name in ("slow.1", "slow.2", "quick")
            ]
            url = httpx2.URL(f"{service.url}/v1/clouds/c/offers/j/1")

            def told(token: str) -> int:
                headers = {"X-Auth-Token": token, "Content-Type": "application/json"}
                return httpx2.put(url, headers=headers, content=b"{", timeout=1).status_code

            head = f"PUT {url.path} HTTP/1.1\r\nHost: t\r\nX-Auth-Token: {tokens[0]}\r\n"
            head += "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
            slow = [
                stack.enter_context(socket.create_connection((url.host, url.port)))
                for _ in range(dear.MESSAGES_AT_ONCE)
            ]
            for connection in slow:
                connection.sendall(head.encode())
            time.sleep(0.3)
            assert told(tokens[2]) == 400
            with pytest.raises(httpx2.ReadTimeout):
                told(tokens[1])
            slow[0].close()
            assert told(tokens[1]) == 400

    def test_few_large_bodies_of_a_token_are_read_at_a_time_whatever_clouds_they_name(self, database_url: str) -> None:
        """Names of no cloud are names too: bodies are read before the cloud is looked up."""
        with running_service(database_url) as service, ExitStack() as stack:
            tokens = [
                service.client.post("/v1/tokens", json={"name": name, "role": "member"}).json()["token"]
                for name in ("large.1", "large.2")
            ]
            url, size = httpx2.URL(service.url), 1 << 15

            def told(token: str, content: bytes) -> int:
                headers = {"X-Auth-Token": token, "Content-Type": "application/json"}
                path = f"{url}/v1/clouds/none/batch"
                return httpx2.post(path, headers=headers, content=content, timeout=1).status_code

            large = b"{" + b" " * size
            begun = []
            for number in range(dear.BODIES_OF_ALL_CLOUDS):
                begun.append(stack.enter_context(socket.create_connection((url.host, url.port))))
                head = f"POST /v1/clouds/z{number}/batch HTTP/1.1\r\nHost: t\r\nX-Auth-Token: {tokens[0]}\r\n"
                head += f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n{{"
                begun[-1].sendall(head.encode())
            time.sleep(0.5)
            assert [told(tokens[0], b"{"), told(tokens[1], large)] == [400, 400]
            with pytest.raises(httpx2.ReadTimeout):
                told(tokens[0], large)
            begun[0].close()
            assert told(tokens[0], large) == 400

    def test_few_messages_of_a_peer_are_read_at_a_time_whatever_clouds_they_name(self, database_url: str) -> None:
        with running_service(database_url) as service, ExitStack() as stack:
            made = service.client.post("/v1/tokens", json={"name": "wide", "role": "peer"}).json()
            url = httpx2.URL(service.url)
            common = f"Host: t\r\nX-Auth-Token: {made['token']}\r\nContent-Type: application/json\r\n"
            begun = []
            for number in range(dear.MESSAGES_OF_ALL_CLOUDS):
                begun.append(stack.enter_context(socket.create_connection((url.host, url.port))))
                head = f"PUT /v1/clouds/z{number}/offers/j/1 HTTP/1.1\r\n{common}Content-Length: 9\r\n\r\n"
                begun[-1].sendall(head.encode())
            time.sleep(0.5)
            headers = {"X-Auth-Token": made["token"], "Content-Type": "application/json"}
            ask = partial(httpx2.put, f"{url}/v1/clouds/c/offers/j/1", headers=headers, content=b"{", timeout=1)
            with pytest.raises(httpx2.ReadTimeout):
                ask()
            begun[0].close()
            assert ask().status_code == 400

    def test_addresses_are_counted_apart_and_networks_of_ipv6_together(self) -> None:
        rates = Rates(1, 2)

        def take(client: tuple[str, int] | None) -> bool:
            try:
                rates.count_address({"client": client})
            except errors.RateExceeded:
                return False
            return True

        assert [take(("10.0.0.1", port)) for port in range(3)] == [True, True, False]
        assert take(("10.0.0.2", 1))
        assert [take((f"2001:db8::{n}", 1)) for n in range(3)] == [True, True, False]
        assert take(("2001:db8:0:1::1", 1))
        assert not take(("::ffff:10.0.0.1", 1))
        assert [take((f"::ffff:10.0.1.{n}", 1)) for n in range(3)] == [True, True, True]
        assert [take(None) for _ in range(3)] == [True, True, False]
        assert rates.is_shut({"client": ("10.0.0.1", 7)})
        assert not rates.is_shut({"client": ("10.0.0.2", 7)})

    @pytest.mark.parametrize("limit", [1, 7, 250, 1000])
    def test_no_token_gets_more_than_the_limit_and_hardly_less(self, limit: int) -> None:
        rates = Rates(limit, 1)
        taken, _ = until_refused(lambda: rates.count_token(1))
        assert 0.99 * limit <= taken <= limit

    @pytest.mark.parametrize("jump_s", [-86_400, -90, -61, 86_400])
    def test_a_wall_clock_that_is_set_locks_nobody_out(self, monkeypatch: pytest.MonkeyPatch, jump_s: float) -> None:
        """Neither opens a window early nor keeps one longer, whatever it shows."""
        wall, ticks = [time.time()], [0.0]
        monkeypatch.setattr(time, "time", lambda: wall[0])
        rates = Rates(3, 3, lambda: ticks[0])
        for count, window_s in ((lambda: rates.count_token(1), 1), (lambda: rates.count_address(CALLER), 60)):
            assert until_refused(count)[0] == 3
            wall[0] += jump_s
            taken, refused = until_refused(count)
            assert taken == 0
            assert refused.retry_after_s == window_s
            ticks[0] += window_s
            assert until_refused(count)[0] == 3

    def test_windows_that_have_ended_are_swept_out(self) -> None:
        ticks = [0.0]
        windows = Windows(lambda: ticks[0])
        for number in range(50_000):
            ticks[0] += 0.01
            windows.incr(f"address-{number}", 1)
            assert len(windows._windows) <= 1000
        assert windows.get("address-49999") == 1
        assert windows.get("address-0") == 0


CALLER = {"client": ("10.0.0.1", 1)}


class TestPlaces:
    def test_one_address_cannot_have_all_connections(self) -> None:
        addresses = Addresses()
        assert [addresses.open("10.0.0.1", 1000, 800) for _ in range(800)] == [None] * 800
        assert addresses.open("10.0.0.1", 1000, 800) is not None
        assert addresses.open("10.0.0.2", 1000, 800) is None
        addresses.close("10.0.0.1")
        assert addresses.open("10.0.0.1", 1000, 800) is None

    def test_refused_connections_take_no_places(self) -> None:
        addresses = Addresses()
        addresses.know("10.0.0.9")
        floods = [addresses.open(f"10.0.1.{number % 200}", 1000, 800) for number in range(5000)]
        assert floods.count(None) == 900
        assert addresses.open("10.0.0.9", 1000, 800) is None

    def test_the_last_places_are_for_who_has_few_and_for_who_is_known(self) -> None:
        addresses = Addresses()
        addresses.know("2001:db8::1")

        def fill(begin: int, end: int, host: str) -> None:
            assert [addresses.open(host, 1000, 1000) for _ in range(begin, end)] == [None] * (end - begin)

        fill(0, 900, "10.0.0.1")
        assert addresses.open("10.0.0.1", 1000, 1000) is not None
        fill(900, 904, "10.0.0.2")
        assert addresses.open("10.0.0.2", 1000, 1000) is not None
        for number in range(904, 950):
            fill(number, number + 1, f"10.0.1.{number % 250}")
        assert addresses.open("10.0.0.3", 1000, 1000) is not None
        fill(950, 1000, "2001:db8::2")
        assert addresses.open("2001:db8::2", 1000, 1000) is not None

    def test_a_flood_from_one_address_shuts_nobody_else_out(self, database_url: str) -> None:
        with (
            running_service(database_url, max_connections=100, max_connections_per_address=10) as service,
            ExitStack() as flood,
        ):
            port = int(service.url.rpartition(":")[2])
            assert service.client.get("/v1/clouds").status_code == 200
            for _ in range(12):
                flood.enter_context(socket.create_connection(("127.0.0.1", port)))
            with socket.create_connection(("127.0.0.1", port)) as one_more:
                answer, body = read(one_more)
                check(answer.status, answer, body, errors.ConnectionsExhausted)
            with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)) as other:
                other.sendall(b"GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n")
                assert read(other)[0].status == 200


def test_refusals_go_at_a_pace_and_nobody_else_waits(database_url: str) -> None:
    """Hundreds of connections that are refused all the time cost no more than a hundred answers a second."""
    question = b"GET /zzz HTTP/1.1\r\nHost: x\r\n\r\n"
    with running_service(database_url, address_requests_per_min=1) as service, ExitStack() as stack:
        connections = [stack.enter_context(connected(service)) for _ in range(REFUSALS_PER_S)]
        assert service.client.get("/v1/clouds").status_code == 200
        begun = time.monotonic()
        for connection in connections:
            connection.sendall(question)
        for connection in connections[1 : REFUSALS_PER_S // 2]:
            connection.close()
        answered = time.monotonic()
        assert service.client.get("/v1/clouds").status_code == 200
        assert time.monotonic() - answered < 0.4, "a known caller does not wait"
        statuses = [read(connection)[0].status for connection in connections[REFUSALS_PER_S // 2 :]]
        assert statuses.count(429) == len(statuses)
        assert time.monotonic() - begun > 0.4


@pytest.mark.parametrize("path", ["/v1/clouds", "/zzz"])
def test_who_leaves_while_its_refusal_waits_leaves_nothing_in_the_log(
    database_url: str, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with running_service(database_url, address_requests_per_min=1) as service, ExitStack() as stack:
        assert service.client.get("/v1/clouds").status_code == 200
        connections = [stack.enter_context(connected(service)) for _ in range(REFUSALS_PER_S)]
        for connection in connections:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert read(connections[1])[0].status == 429
        for connection in connections[REFUSALS_PER_S // 2 :]:
            connection.close()
        time.sleep(1.5)
        assert service.client.get("/v1/clouds").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_the_files_of_pages_count_for_who_asks(database_url: str) -> None:
    with (
        running_service(database_url, address_requests_per_min=3) as service,
        httpx2.Client(base_url=service.url) as client,
    ):
        signed_in = {"Cookie": f"tenure_token={TOKEN}"}
        assert client.get("/ui", headers=signed_in).status_code == 200
        assert [client.get("/ui/static/theme.js").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert client.get("/ui/static/theme.js", headers=signed_in).status_code == 200


@contextmanager
def connected(service: Service, receive_bytes: int | None = None) -> Iterator[socket.socket]:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.socket() as connection:
        if receive_bytes is not None:  # before connecting: the window is agreed on then
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(5)
        connection.connect((host, int(port)))
        yield connection


def read(connection: socket.socket) -> tuple[HTTPResponse, bytes]:
    answer = HTTPResponse(connection)
    answer.begin()
    return answer, answer.read()


LIST = f"GET /v1/clouds HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\n\r\n".encode()
HEAD = f"POST /v1/clouds/north/flavors HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\n"
JSON = "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until it holds, for half a minute at most."""
    give_up_at = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def is_held(service: Service, connection: socket.socket) -> bool:
    """Return True if the service has the other end of the connection."""
    return any(one.client == connection.getsockname() for one in [*service.server.server_state.connections])


def leave_an_answer(service: Service, connection: socket.socket) -> BoundedConnection:
    """Take nothing, until the service has an answer that it cannot send; too little of it to make it pause."""
    connection.sendall(LIST)
    read(connection)
    held = next(one for one in service.server.server_state.connections if one.client == connection.getsockname())
    assert isinstance(held, BoundedConnection)
    with socket.socket(fileno=os.dup(held.transport.get_extra_info("socket").fileno())) as its_end:
        its_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    while not held.transport.get_write_buffer_size():
        connection.sendall(LIST)
        time.sleep(0.005)
    assert not held.flow.write_paused
    return held


class TestConnections:
    @pytest.mark.parametrize("sent", ["GET / HT", HEAD, HEAD + JSON, HEAD + JSON + '{"name":'])
    def test_a_request_that_stops_half_way_is_given_up(self, hasty: Service, sent: str) -> None:
        begun = time.monotonic()
        with connected(hasty) as connection:
            connection.sendall(sent.encode())
            answer, body = read(connection)
            check(answer.status, answer, body, errors.RequestTooSlow)
            assert connection.recv(1) == b""
        assert TIMEOUT_S <= time.monotonic() - begun < 2 * TIMEOUT_S + 4

    @pytest.mark.parametrize("sent", [HEAD, HEAD + JSON], ids=["head", "body"])
    def test_a_request_that_comes_drop_by_drop_is_given_up(self, hasty: Service, sent: str) -> None:
        with connected(hasty) as connection:
            connection.sendall(sent.encode())
            connection.settimeout(TIMEOUT_S / 10)
            came = b""
            for _ in range(100):
                try:
                    came = connection.recv(4096)
                    break
                except TimeoutError:
                    connection.sendall(b"x")
        assert came.startswith(b"HTTP/1.1 408 ")

    def test_a_connection_without_a_request_is_closed(self, hasty: Service) -> None:
        with connected(hasty) as connection:
            assert b"preemptible.request.too_slow" in connection.recv(4096)
            assert connection.recv(1) == b""

    def test_an_answer_that_nobody_takes_is_given_up(self, hasty: Service) -> None:
        # A kernel may hold more for a reader than these answers are long: tens of megabytes, where memory allows.
        with connected(hasty, receive_bytes=64 * 1024) as connection:
            connection.sendall(b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
            wait_for(lambda: is_held(hasty, connection))
            wait_for(lambda: not is_held(hasty, connection))
            came = 0
            with suppress(ConnectionError):
                while part := connection.recv(1 << 20):
                    came += len(part)
            assert came < 20 * 1_000_000

    def test_a_little_that_nobody_takes_is_given_up_as_well(self, hasty: Service) -> None:
        with connected(hasty, receive_bytes=4096) as connection:
            held = leave_an_answer(hasty, connection)
            deadline = time.monotonic() + 30
            while held in hasty.server.server_state.connections:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def test_who_takes_nothing_does_not_keep_the_service_from_stopping(self, database_url: str) -> None:
        with ExitStack() as reader:
            with running_service(database_url, request_timeout_s=1) as service:
                leave_an_answer(service, reader.enter_context(connected(service, receive_bytes=4096)))
                began = time.monotonic()
            assert time.monotonic() - began < 10

    @pytest.mark.parametrize("flood", [b"x: y\r\n" * 200, b"x" * 1024], ids=["many", "one long"])
    def test_trailers_that_have_no_end_are_cut_off(self, service: Service, flood: bytes) -> None:
        def send() -> None:
            for _ in range(20_000):
                connection.sendall(flood)

        with connected(service) as connection:
            connection.sendall(b"POST /v1/clouds HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: ")
            with pytest.raises(ConnectionError):
                send()

    def test_a_body_that_goes_on_after_its_answer_is_cut_off(self, service: Service) -> None:
        def send() -> None:
            for _ in range(10_000):
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

        with connected(service) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            with pytest.raises(ConnectionError):
                send()

    def test_a_body_in_pieces_of_a_byte_delays_nobody(self, service: Service) -> None:
        pieces = b"POST /ui/sign-in HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 400_000
        longest, over = 0.0, threading.Event()

        def send() -> None:
            with suppress(OSError), connected(service) as connection:
                connection.sendall(pieces)
            over.set()

        sender = threading.Thread(target=send)
        sender.start()
        while not over.is_set():
            began = time.perf_counter()
            service.client.get("/healthcheck").raise_for_status()
            longest = max(longest, time.perf_counter() - began)
        sender.join()
        assert longest < 0.15

    def test_a_body_in_pieces_may_be_longer_than_a_head(self, hasty: Service) -> None:
        body = json.dumps({"operations": [{"stop": {"id": "none"}}]}).encode() + b" " * 300_000
        pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
        answer = hasty.client.post(
            "/v1/clouds/north/batch", content=iter(pieces), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 200

    def test_a_head_that_has_no_end_is_refused(self, hasty: Service) -> None:
        with connected(hasty) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Filler: ")
            for _ in range(64):  # not more: what is sent after the refusal would drown it
                connection.sendall(b"x" * 1024)
                time.sleep(0.001)
            answer, body = read(connection)
            check(answer.status, answer, body, errors.HeadTooLarge)

    def test_what_is_no_http_is_refused_in_the_one_form(self, hasty: Service) -> None:
        nowhere = ("CONNECT h:80", "GET http://h?x", "GET http://h:99999999/", "GET http://[::1")
        heads = [f"{target} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for target in nowhere]
        for sent in (
            b"\x16\x03\x01\x02\x00\x01",
            b"HELO\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
            *heads,
        ):
            for before in (b"", LIST):
                with connected(hasty) as connection:
                    if before:
                        connection.sendall(before)
                        assert read(connection)[0].status == 200
                    connection.sendall(sent)
                    answer, body = read(connection)
                    check(answer.status, answer, body, errors.RequestMalformed)

    def test_more_connections_than_there_may_be_are_refused(self, hasty: Service) -> None:
        with connected(hasty) as first:
            others = [socket.create_connection(first.getpeername()) for _ in range(8)]
            answer, body = read(others[-1])
            check(answer.status, answer, body, errors.ConnectionsExhausted)
            for other in others:
                other.close()
        deadline = time.monotonic() + 10
        while hasty.client.get("/v1/clouds").status_code == 503:
            assert time.monotonic() < deadline, "a closed connection gives its place back"
            time.sleep(0.05)

    def test_who_is_not_slow_is_not_disturbed(self, hasty: Service) -> None:
        """One connection, over many times the limit, and a stream that says nothing for longer than it."""
        with hasty.client.stream("GET", "/v1/clouds/north/events/stream", params={"after_seq": 1}) as stream:
            lines = stream.iter_lines()
            with connected(hasty) as connection:
                for number in range(6):
                    connection.sendall(LIST)
                    answer, _ = read(connection)
                    assert answer.status == 200, number
                    time.sleep(TIMEOUT_S / 2)
            hasty.client.post("/v1/clouds/north/flavors", json={"name": "small", "cores": 1}).raise_for_status()
            assert any("flavor_added" in line for line in lines)

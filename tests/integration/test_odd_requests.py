"""Requests that no good client sends: each is refused in the form of its kind, at once, and changes nothing."""

from __future__ import annotations

import re
import socket
import time

import pytest
from api_service import TOKEN, Service
from test_api_limits import check, connected, read

from app.platform.http import errors

QUOTES = '"' + '\\"' * 4050 + '"'
"""A cookie's value that a reader of quoted values takes quadratic time for."""
BATCH = f"POST /v1/clouds/odd/batch HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\nContent-Type: application/json\r\n"
OPERATION = b'{"operations":[{"start":{"id":"a","market":"on_demand","flavor":"small"}}]}'


def answered(service: Service, content: str | bytes) -> tuple[int, str]:
    """The status and the body of the answer."""
    with connected(service) as connection:
        connection.sendall(content.encode("latin-1") if isinstance(content, str) else content)
        answer, body = read(connection)
    return answer.status, body.decode()


@pytest.mark.parametrize("name", ["tenure_theme", "tenure_token", "other"])
@pytest.mark.parametrize("path", ["/ui/sign-in", "/ui", "/ui/nothing"])
def test_cookies_are_read_at_once(service: Service, name: str, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\n" + f"Cookie: {name}={QUOTES}\r\n" * 7 + "\r\n"
    answered(service, head)
    begun = time.process_time()
    for _ in range(3):
        answered(service, head)
    assert time.process_time() - begun < 0.3


def test_the_first_cookie_of_a_name_counts_wherever_it_stands(service: Service) -> None:
    def status(cookies: str) -> int:
        return answered(service, f"GET /ui HTTP/1.1\r\nHost: x\r\n{cookies}\r\n")[0]

    assert status(f"Cookie: a=b; tenure_token={TOKEN}; c\r\n") == 200
    assert status(f"Cookie: a=b\r\nCookie:tenure_token={TOKEN}\r\n") == 200
    assert status(f"Cookie: xtenure_token={TOKEN}\r\n") == 303
    assert status(f"Cookie: tenure_token=wrong; tenure_token={TOKEN}\r\n") == 303
    assert status("Cookie: tenure_token=%ff\xff\r\n") == 303


@pytest.mark.parametrize(
    "line",
    ["Origin: http://[", "Origin: http://\xe2\x84\x80", "Origin: http://[x]", "Origin: //x:99999999", "Referer: http://["],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("path", ["sign-in", "sign-out"])
def test_an_origin_that_is_no_origin_is_another_sites(service: Service, path: str, line: str) -> None:
    head = f"POST /ui/{path} HTTP/1.1\r\nHost: x\r\n{line}\r\nContent-Length: 0\r\n\r\n"
    assert answered(service, head)[0] == 403


@pytest.mark.parametrize("host", ["[", "a@b/c?d#e", "[x", "\xff", "http://[", "x:port"], ids=ascii)
@pytest.mark.parametrize(
    "target", ["/ui", "/ui/", "/docs/", "/v1/clouds/", "/ui/sign-in", "/zzz/", "http://[/ui", "//[x"]
)
def test_no_host_or_target_is_too_odd_to_be_answered(service: Service, host: str, target: str) -> None:
    status, body = answered(service, f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
    assert status < 500, body


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Accept", "traceparent", "tracestate", "Range",
     "OpenStack-API-Version", "X-OpenStack-Request-Id", "Authorization", "Last-Event-ID", "If-Modified-Since",
     "If-None-Match", "Content-Type"],
)  # fmt: skip
@pytest.mark.parametrize(
    "value", ["\xff\xfe", "http://[", "bytes=-", "Bearer \xff", "9" * 5000, "Mon, 99 Jan"], ids=ascii
)
def test_no_header_is_too_odd_to_be_answered(service: Service, header: str, value: str) -> None:
    for path in ("/v1/clouds", "/ui/static/vendor/uplot.js", "/ui", "/readiness"):
        status, body = answered(service, f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}: {value[:5000]}\r\n\r\n")
        assert status < 500, body


@pytest.mark.parametrize(
    "body",
    [b'{"\xff":1}', b'{"operations":[{"\xff":1}]}', b'{"operations":[{"start":{"\xff":1}}]}',
     b'{"operations":[{"start":{"id":"\xff","market":"spot","flavor":"x"}}]}', b'{"operations":"\xff"}',
     b'{"operations":[{"stop":{"id":"a","at":"\xff"}}]}', b'{"operations":["\xff"]}',
     b'{"operations":[],"\xed\xa0\x80":1}',
     b'{"\\ud800":1}', b'{"operations":[{"\\ud800":1}]}', b'\xff', b'', b'\xef\xbb\xbf{}', b'{"operations":[1e999999]}',
     b'{"operations":[{"start":{"id":"a","market":"\xff","flavor":"x"}}]}', b'{"operations":[' + b'[' * 5000,
     b'{"operations":[{"start":{"id":"a","market":"spot","flavor":"x","lifetime_s":1e999}}]}'],
)  # fmt: skip
@pytest.mark.parametrize("path", ["batch", "instances", "flavors", "nodes", "webhooks"])
def test_no_body_is_too_odd_to_be_refused(service: Service, path: str, body: bytes) -> None:
    head = BATCH.replace("/odd/batch", f"/odd/{path}") + f"Content-Length: {len(body)}\r\n\r\n"
    status, text = answered(service, head.encode() + body)
    assert 400 <= status < 500, text


@pytest.mark.parametrize(
    "url",
    ["http://[", "http://[::1%25x]/", "http://\u2100/", "http://x:99999/", "http://x:-1/", "http://[v1.x]/", "http://a\x00b/",
     "http://" + "a" * 300 + "/", "http://a..b/", "http://xn--/", "http://%/"],
    ids=ascii,
)  # fmt: skip
def test_no_url_of_a_receiver_is_too_odd_to_be_refused(service: Service, url: str) -> None:
    answer = service.client.post("/v1/clouds/none/webhooks", json={"url": url})
    assert 400 <= answer.status_code < 500, answer.text


def test_a_trailer_is_no_header(service: Service) -> None:
    """A trailer after the body neither names a caller nor changes what was asked for."""
    body = b"%x\r\n%s\r\n0\r\n" % (len(OPERATION), OPERATION)
    head = "POST /v1/clouds/odd/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
    assert answered(service, chunked + body + f"X-Auth-Token: {TOKEN}\r\n\r\n".encode())[0] == 401
    ours = chunked.replace(b"Host: x", f"Host: x\r\nX-Auth-Token: {TOKEN}".encode())
    status, text = answered(service, ours + body + b"OpenStack-API-Version: preemptible 9.9\r\nHost: y\r\n\r\n")
    assert (status, "cloud.not_found" in text) == (404, True)


def test_a_request_names_one_host(service: Service) -> None:
    for second in ("Host: x", "host: y"):
        with connected(service) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: x\r\n{second}\r\n\r\n".encode())
            answer, body = read(connection)
        check(answer.status, answer, body, errors.RequestMalformed)


def test_a_request_of_http_1_1_names_its_host_and_one_of_1_0_need_not(service: Service) -> None:
    for target in ("/healthcheck", "http://x/healthcheck"):
        with connected(service) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nAccept: */*\r\n\r\n".encode())
            answer, body = read(connection)
        check(answer.status, answer, body, errors.RequestMalformed)
    assert answered(service, "GET /healthcheck HTTP/1.0\r\n\r\n")[0] == 200
    assert answered(service, "GET /healthcheck HTTP/1.1\r\nHost:\r\n\r\n")[0] == 200


def statuses(connection: socket.socket, count: int) -> list[int]:
    """Read so many answers, which may come in one piece."""
    told = b""
    while len(found := re.findall(rb"HTTP/1\.1 (\d{3}) ", told)) < count:
        piece = connection.recv(1 << 16)
        assert piece, told
        told += piece
    return [int(status) for status in found]


@pytest.mark.parametrize("pieces", [1, 40, 10_000], ids=["whole", "pieces", "bytes"])
def test_an_upgrade_that_is_asked_for_is_ignored(service: Service, pieces: int) -> None:
    """Such as `curl --http2` sends: the body counts, and so does the next request on the connection."""
    upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
    body = b'{"name": "upgraded%d"}' % pieces
    head = f"POST /v1/clouds HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\nContent-Type: application/json\r\n"
    request = f"{head}{upgrade}Content-Length: {len(body)}\r\n\r\n".encode() + body
    plain = b"GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(service) as connection:
        content = request + plain
        step = -(-len(content) // pieces)
        for at in range(0, len(content), step):
            connection.sendall(content[at : at + step])
        assert statuses(connection, 2) == [201, 200]
        connection.sendall(plain.replace(b"\r\n\r\n", b"\r\n" + upgrade.encode() + b"\r\n") + plain)
        assert statuses(connection, 2) == [200, 200]


def test_connect_is_no_method_of_anything(service: Service) -> None:
    assert answered(service, "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n")[0] in {400, 404, 405}


@pytest.mark.parametrize("path", ["/v1/clouds/{}", "/nothing/{}", "/v1/clouds?{}=1", "/ui/clouds/{}"])
@pytest.mark.parametrize("token", ["tnr_abcdef", "%74nr_abcdef", "%2574nr_abcdef"])
def test_no_error_repeats_a_token(service: Service, path: str, token: str) -> None:
    said = answered(service, f"GET {path.format(token)} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\n\r\n")[1]
    assert "abcdef" not in said


@pytest.mark.parametrize(
    "query",
    ["clouds?limit=5_0", "clouds?limit=%2B5", "clouds?limit=%205", "clouds?limit=05"]
    + [f"clouds/odd/events?after_seq={odd}" for odd in ("1_0", "%2B1")]
    + [f"clouds/odd/quotes?eviction_probability={odd}" for odd in ("1_0e-2", "%2B0.1", ".1")]
    + [f"clusters/odd/events?{odd}" for odd in ("after_seq=1_0", "limit=5_0")],
)
def test_numbers_of_queries_are_written_as_in_bodies(service: Service, query: str) -> None:
    answer = service.client.get(f"/v1/{query}")
    check(answer.status_code, answer.headers, answer.content, errors.FieldInvalid)
    assert "a number as JSON has it" in answer.text


@pytest.mark.parametrize("query", ["limit=5", "limit=5.0", "limit=5e0", "limit=1E2"])
def test_numbers_of_queries_may_have_a_point_and_an_exponent(service: Service, query: str) -> None:
    assert service.client.get(f"/v1/clouds?{query}").status_code == 200

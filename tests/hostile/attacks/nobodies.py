"""Requests of somebody without a token, or with the least of all."""

from __future__ import annotations

import random
import secrets
from itertools import cycle

from hostile.target import HERE, Target, attack
from hostile.wire import request

_LONG = "x" * 8000


@attack("nobody")
async def unknown_parameters(target: Target) -> None:
    """Thousands of unknown query parameters, and as many as are taken."""
    kinds = cycle(
        [
            request("GET", "/?" + "&".join(f"p{number}" for number in range(16_000))),
            request("GET", "/?" + "&".join(f"p{number}={'v' * 240}" for number in range(32))),
            request("GET", "/readiness?" + "&" * 31),
            request("GET", "/ui/sign-in?next=" + "%2F" * 2000),
        ]
    )
    await target.hammer(16, lambda: next(kinds))


@attack("nobody")
async def pipelining(target: Target) -> None:
    """Requests without bound on twenty connections, none of whose answers is read."""
    await target.pour(20, request("GET", "/") * 8000, read=False)


@attack("nobody")
async def pipelining_and_reading(target: Target) -> None:
    """Do it with all answers read."""
    await target.pour(20, request("GET", "/?unknown=1") * 500, read=True)


@attack("nobody")
async def sign_in_forms(target: Target) -> None:
    """Sign-in forms with many fields, long ones, ones of several parts, and ones in pieces of one byte."""
    form = "Content-Type: application/x-www-form-urlencoded"
    parts = "Content-Type: multipart/form-data; boundary=b"
    origin = "Sec-Fetch-Site: same-origin"
    piece = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n'
    kinds = cycle(
        [
            request("POST", "/ui/sign-in", None, b"a=1&" * 5000, form, origin),
            request("POST", "/ui/sign-in", None, b"a=1&" * 9, form, origin),
            request("POST", "/ui/sign-in", None, b"token=" + b"%41" * 1300, form, origin),
            request("POST", "/ui/sign-in", None, piece * 2000 + b"--b--\r\n", parts, origin),
            request("POST", "/ui/sign-in", None, None, form, origin, "Transfer-Encoding: chunked")
            + b"1\r\na\r\n" * 4000
            + b"0\r\n\r\n",
        ]
    )
    await target.hammer(16, lambda: next(kinds))


@attack("nobody")
async def quoted_cookies(target: Target) -> None:
    """Cookies with quotes within quotes, as long as headers may be."""
    quoted = 'Cookie: tenure_theme="' + '\\"' * 4050 + '"'
    kinds = cycle(
        [request("GET", path, None, None, *[quoted] * 7) for path in ("/ui/sign-in", "/ui", "/ui/nothing")]
        + [request("POST", "/ui/sign-in", None, b"a", *[quoted] * 7)]
    )
    await target.hammer(4, lambda: next(kinds))


@attack("nobody")
async def bad_tokens(target: Target) -> None:
    """Guessed tokens from the honest caller's own address."""

    def guess() -> bytes:
        return request("POST", "/v1/clouds/honest/instances", f"tnr_{secrets.token_urlsafe(32)}", {"id": "guess"})

    await target.hammer(16, guess, HERE)


@attack("nobody")
async def unknown_paths(target: Target) -> None:
    """Paths that there are not, methods that there are not, paths that are nearly right."""
    names = [f"/v1/{'%2F' * 50}", f"/{'a/' * 4000}", "/v1/clouds/x/instances/y/z", "/ui/" + "../" * 1000, f"/{_LONG}"]
    methods = ["GET", "POST", "OPTIONS", "HEAD", "TRACE", "PROPFIND"]

    def unknown() -> bytes:
        method = random.choice(methods)
        return request("GET" if method == "HEAD" else method, random.choice(names))

    await target.hammer(16, unknown)


@attack("nobody")
async def unknown_paths_on_300(target: Target) -> None:
    """Nothing but an unknown path, on 300 connections."""
    await target.hammer(300, lambda: request("GET", "/zzz"))


@attack("nobody")
async def unknown_paths_on_700(target: Target) -> None:
    """Nothing but an unknown path, on nearly as many connections as one address may have."""
    await target.hammer(700, lambda: request("GET", "/zzz"))


@attack("nobody")
async def bad_tokens_on_700(target: Target) -> None:
    """Guessed tokens on nearly as many connections as one address may have."""
    await target.hammer(700, lambda: request("GET", "/v1/clouds", f"tnr_{secrets.token_urlsafe(32)}"))


@attack("nobody")
async def files_on_300(target: Target) -> None:
    """The pages' files, on 300 connections."""
    await target.hammer(300, lambda: request("GET", "/ui/static/theme.js"))


@attack("nobody")
async def probes_on_300(target: Target) -> None:
    """Health, on 300 connections."""
    await target.hammer(300, lambda: request("GET", "/healthcheck"))


@attack("nobody")
async def heads(target: Target) -> None:
    """Headers as many and as long as are taken, and more: versions, ids, cookies, types, languages."""
    version = "OpenStack-API-Version: "
    cookies = [f"Cookie: {';'.join(f'c{part}={number}' for part in range(7))}" for number in range(7)]
    kinds = cycle(
        [
            lambda: request("GET", "/", None, None, *[version + _other_versions() for _ in range(7)]),
            lambda: request("GET", "/", None, None, *[version + "x y," * 2000 for _ in range(7)]),
            lambda: request("GET", "/", None, None, *[f"X-OpenStack-Request-Id: req-{_LONG}" for _ in range(7)]),
            lambda: request("GET", "/ui", None, None, *cookies),
            lambda: request("GET", "/ui", None, None, "Cookie: tenure_token=" + '"\\' * 3900),
            lambda: request("GET", "/", None, None, *[f"X-{number}: {'y' * 500}" for number in range(97)]),
            lambda: request("GET", "/", None, None, *[f"X-{number}: y" for number in range(1000)]),
            lambda: request("GET", "/v1/clouds", "x" * 8000),
        ]
    )
    await target.hammer(16, lambda: next(kinds)())  # noqa: PLW0108 - each call takes the next


def _other_versions() -> str:
    """Versions of other services, never twice the same."""
    return f"s{random.random()} 1.0," + "a 1.0," * 1300 + "a 1.0"


@attack("nobody")
async def public_files(target: Target) -> None:
    """The documentation and the pages' files, whole and in many ranges."""
    ranges = "Range: bytes=" + ",".join(f"{number}-{number}" for number in range(1500))
    overlapping = "Range: bytes=" + ",".join(f"0-{number}" for number in range(1500))
    script = "/ui/static/vendor/uplot.js"
    kinds = cycle(
        [
            request("GET", "/openapi.json"),
            request("GET", "/docs"),
            request("GET", script),
            request("GET", script, None, None, ranges),
            request("GET", script, None, None, overlapping),
            request("GET", "/ui/static/" + "%2e%2e/" * 500),
        ]
    )
    await target.hammer(8, lambda: next(kinds))


@attack("nobody")
async def no_http(target: Target) -> None:
    """Send no HTTP/1.1: TLS, HTTP/2, WebSockets, rubbish, contradictory lengths."""
    kinds = cycle(
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + secrets.token_bytes(500),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            request("GET", "/v1/clouds", None, None, "Upgrade: websocket", "Connection: Upgrade"),
            secrets.token_bytes(60_000),
            request("POST", "/", None, None, "Content-Length: 5", "Transfer-Encoding: chunked"),
            request("POST", "/", None, None, "Content-Length: 99999999999999999999999"),
            request("POST", "/", None, None, "Content-Length: -1"),
            b"GET / HTTP/1.1\r\nHost: \x00\r\n\r\n",
            b"GET http://tenure/../ HTTP/1.1\r\nHost: a\r\n\r\n",
        ]
    )
    await target.hammer(8, lambda: next(kinds))


@attack("nobody")
async def endless_bodies(target: Target) -> None:
    """Bodies without an end to what takes none, in pieces of one byte."""
    head = request("GET", "/", None, None, "Transfer-Encoding: chunked")
    opened = head + b"1\r\nx\r\n" * 10_000

    async def send_on(number: int) -> None:
        wire = await target.open()
        try:
            await wire.send(opened if number % 2 else head)
            target.tally(await wire.answer())
            while not wire.reader.at_eof():
                await wire.send(b"1\r\nx\r\n" * 10_000)
        finally:
            wire.close()

    await target.each(8, send_on)


@attack("peer")
async def a_peers_token(target: Target) -> None:
    """Another cloud's token tries everything."""
    paths = [
        "/v1/clouds",
        "/v1/clouds/target",
        "/v1/clouds/honest/events",
        "/metrics/clouds",
        "/v1/tokens",
        "/readiness",
    ]
    everything = cycle([request("GET", path, target.tokens["peer"]) for path in paths])
    await target.hammer(16, lambda: next(everything))

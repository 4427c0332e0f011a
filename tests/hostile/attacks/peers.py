"""Attacks with the token of another cloud: floods, room for nothing, words on jobs nobody offered, great bodies.

Beside each, another peer offers jobs to the same cloud, and withdraws them: `honest.py` measures what that costs it.
"""

from __future__ import annotations

import asyncio
from itertools import count

from hostile.target import Target, attack
from hostile.wire import request

_SIZE = {"cores": 1, "lifetime_s": 3600, "hold_s": 120}
_SHARED = "/v1/clouds/shared/offers"


@attack("peer", "overloaded")
async def offers_without_end(target: Target) -> None:
    """Thousands of offers a second, of which none is awarded."""
    numbers = count()

    def offer() -> bytes:
        return request("PUT", f"{_SHARED}/flood-{next(numbers)}/1", target.tokens["hostile_peer"], _SIZE)

    await target.hammer(64, offer)


@attack("peer", "overloaded")
async def awards_of_what_was_never_offered(target: Target) -> None:
    """Awards and withdrawals of attempts that nobody has heard of, each of which leaves a last word."""
    numbers = count()

    def speak() -> bytes:
        number = next(numbers)
        place, token = f"{_SHARED}/unheard-{number}/1", target.tokens["hostile_peer"]
        return request("PUT", f"{place}/award", token) if number % 2 else request("DELETE", place, token)

    await target.hammer(64, speak)


@attack("peer", "overloaded")
async def one_attempt_again_and_again(target: Target) -> None:
    """An offer, its award and its withdrawal replayed; an attempt of another peer asked for."""
    place, token = f"{_SHARED}/replayed/1", target.tokens["hostile_peer"]
    words = [
        request("PUT", place, token, _SIZE),
        request("PUT", f"{place}/award", token),
        request("PUT", f"{place}/award", token),
        request("PUT", place, token, _SIZE),
        request("GET", f"{_SHARED}/honest-0/1", token),
    ]
    numbers = count()
    await target.hammer(32, lambda: words[next(numbers) % len(words)])
    if target.counts["404 offer.not_found"] == 0:
        target.wrong.append("a peer saw an attempt of another one")


@attack("peer")
async def offers_of_a_gigabyte(target: Target) -> None:
    """Offers whose bodies never end."""
    head = (
        f"PUT {_SHARED}/great/1 HTTP/1.1\r\nHost: t\r\nX-Auth-Token: {target.tokens['hostile_peer']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n"
    )
    await target.pour(16, head.encode() + b" " * 65_536, read=True)


@attack("peer")
async def offers_drop_by_drop(target: Target) -> None:
    """Offers on 300 connections of which a byte comes now and then."""
    head = (
        f"PUT {_SHARED}/slow/1 HTTP/1.1\r\nHost: t\r\nX-Auth-Token: {target.tokens['hostile_peer']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 4096\r\n\r\n"
    )

    async def drip(_: int) -> None:
        wire = await target.open()
        try:
            await wire.send(head.encode())
            while not wire.reader.at_eof():
                target.counts["dripped"] += 1
                await wire.send(b" ")
                await asyncio.sleep(0.5)
        finally:
            wire.close()

    await target.each(300, drip)

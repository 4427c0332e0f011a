"""Objects that are moved at once: one peer whose store is slow keeps no other one waiting."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from app.federation.links import PeerLink
from app.federation.rules.data import Direction, Transfer
from app.federation.transfers import DataKeeper, Tender, TransferParts


class Store:
    """Keeps nothing, and knows nothing of links."""

    async def of(self, _: str, direction: Direction) -> PeerLink:
        return PeerLink(direction, None, 0)


def transfer(number: int, peer: str) -> Transfer:
    return Transfer(number, "in", peer, "job", 1, "key", 1, None, None, "waiting", 0, 0, None, is_due=True)


def test_a_slow_peer_takes_no_place_of_another_one() -> None:
    parts = cast("TransferParts", SimpleNamespace(at_once=2, links=Store()))
    nothing: Any = None
    came: list[str] = []

    async def move(one: Transfer) -> int:
        if one.peer == "slow":
            await asyncio.Event().wait()
        came.append(one.peer)
        return 0

    async def main() -> None:
        places = DataKeeper(parts, None, nothing, nothing)._places
        tender = Tender(1, "a", parts, nothing, nothing, nothing, places)
        tender._begin([transfer(number, "slow") for number in range(10)], move)
        tender._begin([transfer(10, "quick")], move)
        await asyncio.wait_for(tender._moves[10], 5)
        for one in tender._moves.values():
            one.cancel()

    asyncio.run(main())
    assert came == ["quick"]

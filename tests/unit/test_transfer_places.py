"""Objects that are moved at once: one peer whose store is slow, or who withdraws a job, harms no other one."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from app.domain.jobs import AttemptKey, Word
from app.federation.links import PeerLink
from app.federation.rules.data import Direction, Transfer, input_place
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


class Table:
    """The transfers that are left."""

    def __init__(self) -> None:
        self.rows: list[Transfer] = []

    async def came(self, _: object) -> None:
        return

    async def of_cloud(self, _: int) -> list[Transfer]:
        return self.rows

    async def forget(self, _: object) -> None:
        return

    async def clouds(self) -> set[int]:
        return set()

    async def stored(self, *_: object) -> None:
        return


def test_an_attempt_that_is_withdrawn_ends_no_other_transfer() -> None:
    async def current(_: int) -> None:
        return

    async def collect(*_: object) -> bool:
        return True

    async def for_ever(_: Transfer) -> int:
        await asyncio.Event().wait()
        return 0

    async def main() -> None:
        parts = SimpleNamespace(at_once=2, links=Store(), transfers=Table(), states=SimpleNamespace(current=current))
        nothing: Any = None
        places = DataKeeper(cast("TransferParts", parts), None, nothing, nothing)._places
        collector = cast("Any", SimpleNamespace(collect=collect))
        tender = Tender(1, "a", cast("TransferParts", parts), nothing, nothing, collector, places)
        tender._begin([transfer(1, "withdrawn"), transfer(2, "honest")], for_ever)
        await asyncio.sleep(0)
        tender._moves[1].cancel()
        await asyncio.wait([tender._moves[1]])
        assert await tender._turn()
        assert [*tender._moves] == [2]
        assert not tender._moves[2].done()
        tender._moves[2].cancel()

    asyncio.run(main())


def test_what_is_removed_is_judged_by_the_state_as_it_was_read() -> None:
    """While one attempt is attended to, another task may decide something on the state that never gets durable."""
    words, removed = {"a": Word.UNKNOWN, "b": Word.HELD}, list[str]()

    async def delete(place: str) -> None:
        removed.append(place)
        words["b"] = Word.UNKNOWN

    async def current(_: int) -> SimpleNamespace:
        return SimpleNamespace(jobs=SimpleNamespace(host=SimpleNamespace(word_on=lambda key: words[key.job])))

    async def collect(*_: object) -> bool:
        return True

    async def main() -> None:
        table = Table()
        table.rows = [transfer(number, "p")._replace(job=job) for number, job in enumerate("ab")]
        states = SimpleNamespace(current=current)
        parts = SimpleNamespace(at_once=2, links=Store(), transfers=table, states=states, spool=Path("nowhere"))
        objects, nothing = cast("Any", SimpleNamespace(delete=delete)), cast("Any", None)
        places = DataKeeper(cast("TransferParts", parts), None, nothing, nothing)._places
        collector = cast("Any", SimpleNamespace(collect=collect))
        assert await Tender(1, "c", cast("TransferParts", parts), objects, nothing, collector, places)._turn()

    asyncio.run(main())
    assert removed == [input_place("c", AttemptKey("p", "a", 1), "key")]


def test_clouds_are_tended_again_after_a_tender_was_broken_off() -> None:
    async def no_clouds() -> dict[str, int]:
        return {}

    async def main() -> None:
        parts = SimpleNamespace(at_once=2, transfers=Table(), clouds=SimpleNamespace(list=no_clouds))
        something: Any = object()
        keeper = DataKeeper(cast("TransferParts", parts), something, something, something)
        keeper._tending[1] = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        keeper._tending[1].cancel()
        await asyncio.wait([keeper._tending[1]])
        assert await keeper.keep_data() == 0

    asyncio.run(main())


def test_an_object_that_was_resumed_tells_nothing_of_the_link(tmp_path: Path) -> None:
    content = b"x" * 1000

    async def put_file(*_: object) -> None:
        return

    class RestPuller:
        async def pull(self, wanted: Any, _: object) -> None:
            wanted.path.write_bytes(content)

    async def main(had: bytes | None) -> int:
        parts = SimpleNamespace(at_once=2, links=Store(), transfers=Table(), spool=tmp_path)
        objects, nothing = cast("Any", SimpleNamespace(put_file=put_file)), cast("Any", None)
        places = DataKeeper(cast("TransferParts", parts), None, nothing, nothing)._places
        tender = Tender(1, "a", cast("TransferParts", parts), objects, cast("Any", RestPuller()), nothing, places)
        one = transfer(1, "p")._replace(bytes=len(content), sha256=sha256(content).hexdigest(), url="http://x/y")
        if had is not None:
            tender._part(one).write_bytes(had)
        return await tender._pull(one)

    assert asyncio.run(main(None)) == len(content)
    assert asyncio.run(main(content[:10])) == 0
